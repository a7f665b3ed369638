//! Short-lived processes by the process that began them: shells, builds, tests. Their time is what the kernel adds up
//! for a parent when it has waited for a child, less what was seen of that child while it lived.

use std::collections::{BTreeMap, HashMap};

use egeria_facts::{KindFacts, MAX_KINDS, ThreadKey};

/// What processes began, by process id.
#[derive(Debug, Default)]
pub(crate) struct Kinds(HashMap<u32, Parent>);

#[derive(Debug, Default)]
struct Parent {
    /// Time of children that were waited for, ns; `None` before it was looked at.
    waited_ns: Option<u64>,
    /// More of it since the window before.
    more_ns: u64,
    /// Time of children that ended in this window, as far as facts of threads had it.
    known_ns: u64,
    /// As much of the window before that was not waited for then.
    owed_ns: u64,
    began: u32,
    has_news: bool,
    /// One bit for each of the last windows, the newest first: whether there was news.
    recent: u8,
    command: String,
}

impl Kinds {
    /// For how long the children ran that a process has waited for, so far.
    pub(crate) fn waited(&mut self, process: u32, waited_ns: u64) {
        if waited_ns == 0 && !self.0.contains_key(&process) {
            return;
        }
        let parent = self.0.entry(process).or_default();
        let before_ns = parent.waited_ns.replace(waited_ns).unwrap_or(waited_ns);
        let more_ns = waited_ns.saturating_sub(before_ns);
        parent.more_ns = parent.more_ns.saturating_add(more_ns);
        parent.has_news |= more_ns > 0;
    }

    /// Whether a process began others lately.
    pub(crate) fn has(&self, process: u32) -> bool {
        (self.0.get(&process)).is_some_and(|parent| parent.recent != 0)
    }

    /// A process was seen for the first time.
    pub(crate) fn began(&mut self, parent: u32, name: &str) {
        let parent = self.0.entry(parent).or_default();
        parent.began = parent.began.saturating_add(1);
        parent.has_news = true;
        if parent.command.is_empty() {
            name.clone_into(&mut parent.command);
        }
    }

    /// A process that ran for so long while it was known has ended.
    pub(crate) fn ended(&mut self, parent: u32, name: &str, known_ns: u64) {
        if let Some(parent) = self.0.get_mut(&parent) {
            parent.known_ns = parent.known_ns.saturating_add(known_ns);
            parent.has_news = true;
            name.clone_into(&mut parent.command);
        }
    }

    /// The kinds of the window that is over, of parents that live: their first threads are given.
    pub(crate) fn take(
        &mut self,
        firsts: &BTreeMap<u32, ThreadKey>,
        most_ns: u64,
    ) -> Vec<KindFacts> {
        self.0.retain(|process, _| firsts.contains_key(process));
        let mut kinds = Vec::new();
        for (process, parent) in &mut self.0 {
            let busy_ns = parent.pass().min(most_ns);
            let kind = KindFacts {
                command: parent.command.clone(),
                windows: parent.recent.count_ones(),
                seen: std::mem::take(&mut parent.began),
                busy_ns,
                ..KindFacts::idle(firsts[process])
            };
            let has_news = parent.recent & 1 == 1;
            if (has_news || kind.is_often()) && kinds.len() < MAX_KINDS {
                kinds.push(kind);
            }
        }
        let waited = |parent: &Parent| parent.waited_ns.is_some_and(|ns| ns > 0);
        (self.0).retain(|_, parent| parent.recent != 0 || waited(parent));
        kinds
    }
}

impl Parent {
    /// Ends a window. Returns the time of children that no other facts have.
    fn pass(&mut self) -> u64 {
        let more_ns = std::mem::take(&mut self.more_ns);
        let known_ns = std::mem::take(&mut self.known_ns);
        let all_ns = known_ns.saturating_add(std::mem::take(&mut self.owed_ns));
        // A parent may wait a little later, or never.
        self.owed_ns = all_ns.saturating_sub(more_ns).min(known_ns);
        self.recent = self.recent << 1 | u8::from(std::mem::take(&mut self.has_news));
        more_ns.saturating_sub(all_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_NS: u64 = 1_000_000_000;

    fn first(process_id: u32) -> (u32, ThreadKey) {
        let key = ThreadKey {
            process_id,
            thread_id: process_id,
            start_ticks: 1,
        };
        (process_id, key)
    }

    fn take(kinds: &mut Kinds) -> Vec<KindFacts> {
        kinds.take(&[first(1), first(2)].into(), MOST_NS)
    }

    #[test]
    fn a_parent_with_children_again_and_again_is_a_kind() {
        let mut kinds = Kinds::default();
        let mut window = |number: u64| {
            kinds.began(1, "cc");
            kinds.waited(1, 100 * number);
            kinds.waited(2, 0);
            take(&mut kinds)
        };
        for number in 0..2 {
            assert!(!window(number)[0].is_often());
        }
        let found = window(2);
        let [kind] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(kind.is_often());
        assert_eq!((kind.parent, &kind.command[..]), (first(1).1, "cc"));
        assert_eq!((kind.seen, kind.busy_ns), (1, 100));
        assert!(kinds.has(1) && !kinds.has(2));
        for _ in 0..8 {
            take(&mut kinds);
        }
        assert!(!kinds.has(1), "it began nothing for long");
    }

    #[test]
    fn a_single_long_command_is_no_kind() {
        let mut kinds = Kinds::default();
        kinds.began(1, "make");
        assert_eq!(take(&mut kinds).len(), 1);
        for _ in 0..20 {
            assert_eq!(take(&mut kinds), []);
        }
        kinds.ended(1, "make", 50);
        let of_end = take(&mut kinds);
        assert!(of_end.iter().all(|kind| !kind.is_often()), "{of_end:?}");
    }

    #[test]
    fn time_that_was_seen_of_a_child_counts_once() {
        let mut kinds = Kinds::default();
        kinds.waited(1, 7);
        let mut waited_ns = 7;
        let mut window = |known_ns: u64, more_ns: u64| {
            kinds.began(1, "cc");
            kinds.ended(1, "cc", known_ns);
            waited_ns += more_ns;
            kinds.waited(1, waited_ns);
            take(&mut kinds).first().map(|kind| kind.busy_ns)
        };
        assert_eq!(window(0, 10), Some(10));
        assert_eq!(window(30, 100), Some(70));
        // The parent waits in the next window only.
        assert_eq!(window(40, 0), Some(0));
        assert_eq!(window(0, 90), Some(50));
        // It never does, and later children are not charged for that.
        assert_eq!(window(40, 0), Some(0));
        assert_eq!(window(0, 0), Some(0));
        assert_eq!(window(0, 90), Some(90));
        assert_eq!(window(0, 5 * MOST_NS), Some(MOST_NS));
    }
}
