//! Pages of a file that the kernel may have read: all that it was given, since they were last dropped.

use std::collections::BTreeMap;

/// More ranges than this count as one.
const MAX_RANGES: usize = 1024;

/// Ranges of pages by their first; each has its end.
#[derive(Default)]
pub(super) struct Given(BTreeMap<u64, u64>);

impl Given {
    /// The kernel gets the pages from `first` to before `end`.
    pub(super) fn add(&mut self, mut first: u64, mut end: u64) {
        while let Some((begin, until)) = self.last_up_to(end).filter(|(_, until)| *until >= first) {
            self.0.remove(&begin);
            (first, end) = (first.min(begin), end.max(until));
        }
        self.0.insert(first, end);
        if self.0.len() > MAX_RANGES {
            let begin = self.0.keys().next().copied().unwrap_or_default();
            let until = self.0.values().next_back().copied().unwrap_or_default();
            self.0 = BTreeMap::from([(begin, until)]);
        }
    }

    pub(super) fn contains(&self, page: u64) -> bool {
        self.last_up_to(page).is_some_and(|(_, until)| page < until)
    }

    /// The kernel drops the page.
    pub(super) fn remove(&mut self, page: u64) {
        let Some((begin, until)) = self.last_up_to(page).filter(|(_, until)| page < *until) else {
            return;
        };
        self.0.remove(&begin);
        for (first, end) in [(begin, page), (page + 1, until)] {
            if first < end {
                self.0.insert(first, end);
            }
        }
    }

    /// The last range that begins at this page or before.
    fn last_up_to(&self, page: u64) -> Option<(u64, u64)> {
        let range = self.0.range(..=page).next_back();
        range.map(|(begin, until)| (*begin, *until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ranges_hold_what_was_given_and_not_dropped() {
        let (mut given, mut pages) = (Given::default(), HashSet::new());
        let mut random = 0x5eed_u64;
        for _ in 0..2000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let (first, length) = (random % 200, random / 256 % 8 + 1);
            if random.is_multiple_of(3) {
                given.remove(first);
                pages.remove(&first);
            } else {
                given.add(first, first + length);
                pages.extend(first..first + length);
            }
            for page in 0..210 {
                assert_eq!(given.contains(page), pages.contains(&page), "{page}");
            }
        }
    }

    #[test]
    fn many_ranges_become_one_that_holds_them() {
        let mut given = Given::default();
        (0..3000).for_each(|page| given.add(page * 2, page * 2 + 1));
        assert!((0..3000).all(|page| given.contains(page * 2)));
        assert!(given.0.len() <= MAX_RANGES);
    }
}
