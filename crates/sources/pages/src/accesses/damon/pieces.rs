//! Regions that were used, as parts of mappings with the nodes that they lie on.
//!
//! A region is addresses, and says nothing of pages. A mapping says what it has on each node, not where in it. So a few
//! pages of each piece are asked for their nodes, unless the mapping is filled and lies on one node.

use std::ops::Range;

use egeria_machine::NodeId;

use super::used::Used;
use crate::memory::areas::Area;
use crate::memory::walk::Part;

/// Pages of one piece that are asked for, and of all of a process.
const PAGES_OF_EACH: usize = 32;
const MAX_PAGES: usize = 1 << 13;
/// A mapping with this part of its pages counts as filled.
const FILLED: f64 = 0.9;

/// The node of each page, or a negative number if it has none.
pub(super) type Nodes<'a> = dyn FnMut(&[usize]) -> Vec<i32> + 'a;

/// The pieces in which regions and mappings overlap, both by address. `busy` says how much of what is there is used in a
/// moment, for the share of samples that saw a use.
pub(super) fn of<'a>(
    used: &[Used],
    parts: impl Iterator<Item = &'a Part>,
    busy: impl Fn(f64) -> f64,
    nodes: &mut Nodes<'_>,
) -> Vec<Part> {
    let overlaps = overlaps(used, parts);
    let mut asked: Vec<usize> = Vec::new();
    let questions: Vec<Range<usize>> = overlaps
        .iter()
        .map(|overlap| {
            let first = asked.len();
            if overlap.is_unclear() && first < MAX_PAGES {
                asked.extend(overlap.pages());
            }
            first..asked.len()
        })
        .collect();
    let mut answers = nodes(&asked);
    answers.resize(asked.len(), -1);
    let pieces = overlaps.iter().zip(questions);
    let pieces = pieces.filter_map(|(overlap, question)| {
        let bytes = if question.is_empty() {
            overlap.in_proportion()
        } else {
            overlap.by_answers(&answers[question])
        };
        let resident: u64 = bytes.iter().map(|(_, bytes)| *bytes).sum();
        let accessed_bytes = (resident as f64 * busy(overlap.share)) as u64;
        (accessed_bytes > 0).then(|| Part {
            area: Area {
                range: overlap.range.clone(),
                bytes,
                ..overlap.part.area.clone()
            },
            accessed_bytes,
            huge_bytes: 0,
        })
    });
    pieces.collect()
}

/// What a region and a mapping have in common.
struct Overlap<'a> {
    range: Range<usize>,
    part: &'a Part,
    share: f64,
}

fn overlaps<'a>(used: &[Used], parts: impl Iterator<Item = &'a Part>) -> Vec<Overlap<'a>> {
    let (mut found, mut first) = (Vec::new(), 0);
    for part in parts {
        let area = &part.area.range;
        while used
            .get(first)
            .is_some_and(|used| used.range.end <= area.start)
        {
            first += 1;
        }
        let here = used[first..].iter();
        for used in here.take_while(|used| used.range.start < area.end) {
            let page = part.area.page_bytes;
            let down = |address: usize| area.start + (address - area.start) / page * page;
            let start = down(used.range.start.max(area.start));
            let end = used.range.end.min(area.end);
            if start < end {
                found.push(Overlap {
                    range: start..end,
                    part,
                    share: used.share,
                });
            }
        }
    }
    found
}

impl Overlap<'_> {
    fn all_bytes(&self) -> u64 {
        let bytes = self.part.area.bytes.iter();
        bytes.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Whether the mapping does not say what of the piece lies where.
    fn is_unclear(&self) -> bool {
        let whole = self.part.area.range.len();
        let is_filled = self.all_bytes() as f64 >= whole as f64 * FILLED;
        let is_alike = is_filled && self.part.area.bytes.len() == 1;
        let is_whole = self.range.len() == whole;
        !(is_whole || is_alike)
    }

    /// Some of its pages, evenly.
    fn pages(&self) -> impl Iterator<Item = usize> + use<> {
        let page = self.part.area.page_bytes;
        let (start, all) = (self.range.start, self.range.len().div_ceil(page));
        let count = all.min(PAGES_OF_EACH);
        (0..count).map(move |number| start + (2 * number + 1) * all / (2 * count) * page)
    }

    /// As pages that were asked for say.
    fn by_answers(&self, answers: &[i32]) -> Vec<(NodeId, u64)> {
        let mut counts: Vec<(NodeId, u64)> = Vec::new();
        for answer in answers {
            let Ok(node) = u16::try_from(*answer).map(NodeId) else {
                continue;
            };
            match counts.iter_mut().find(|(known, _)| *known == node) {
                Some((_, count)) => *count += 1,
                None => counts.push((node, 1)),
            }
        }
        let of_all = |count: u64| self.part_of(self.range.len() as u64, count, answers.len());
        let bytes = counts
            .into_iter()
            .map(|(node, count)| (node, of_all(count)));
        bytes.collect()
    }

    /// As if the mapping were alike everywhere.
    fn in_proportion(&self) -> Vec<(NodeId, u64)> {
        let bytes = self.part.area.bytes.iter();
        let part = |bytes| self.part_of(bytes, self.range.len() as u64, self.part.area.range.len());
        bytes.map(|(node, bytes)| (*node, part(*bytes))).collect()
    }

    fn part_of(&self, bytes: u64, count: u64, of: usize) -> u64 {
        let part = u128::from(bytes) * u128::from(count) / (of.max(1) as u128);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn part(pages: Range<usize>, bytes: &[(u16, u64)]) -> Part {
        let bytes = bytes
            .iter()
            .map(|(node, pages)| (NodeId(*node), pages * PAGE as u64));
        Part {
            area: Area {
                range: pages.start * PAGE..pages.end * PAGE,
                page_bytes: PAGE,
                bound_to: None,
                is_interleaved: false,
                bytes: bytes.collect(),
                file: None,
                mappers: 1,
            },
            accessed_bytes: 0,
            huge_bytes: 0,
        }
    }

    fn used(pages: Range<usize>, share: f64) -> Used {
        Used {
            range: pages.start * PAGE..pages.end * PAGE,
            share,
        }
    }

    /// As pages: begin, end, bytes on each node, used bytes.
    type Shown = (usize, usize, Vec<(u16, u64)>, u64);

    fn found(used: &[Used], parts: &[Part], node: impl Fn(usize) -> i32) -> Vec<Shown> {
        let mut nodes = |pages: &[usize]| pages.iter().map(|page| node(page / PAGE)).collect();
        let pieces = of(used, parts.iter(), |share| share, &mut nodes);
        let shown = |piece: &Part| {
            let (area, page) = (&piece.area, PAGE as u64);
            let bytes = area
                .bytes
                .iter()
                .map(|(node, bytes)| (node.0, bytes / page));
            let range = area.range.start / PAGE..area.range.end / PAGE;
            (
                range.start,
                range.end,
                bytes.collect(),
                piece.accessed_bytes / page,
            )
        };
        pieces.iter().map(shown).collect()
    }

    #[test]
    fn a_region_is_cut_by_mappings_and_a_mapping_by_regions() {
        let parts = [part(0..64, &[(0, 64)]), part(100..164, &[(1, 64)])];
        let regions = [used(0..16, 1.0), used(32..120, 0.5), used(170..180, 1.0)];
        let never = |_| panic!("it is known where filled mappings lie");
        let expected = [
            (0, 16, vec![(0, 16)], 16),
            (32, 64, vec![(0, 32)], 16),
            (100, 120, vec![(1, 20)], 10),
        ];
        assert_eq!(found(&regions, &parts, never), expected);
        assert!(found(&[], &parts, never).is_empty() && found(&regions, &[], never).is_empty());
    }

    #[test]
    fn pages_are_asked_where_a_mapping_does_not_say() {
        // Half of the mapping is on each node, and the region is on one of them.
        let parts = [part(0..200, &[(0, 100), (1, 100)])];
        let half = |page| i32::from(page >= 100);
        assert_eq!(
            found(&[used(100..140, 1.0)], &parts, half),
            [(100, 140, vec![(1, 40)], 40)]
        );
        let both = found(&[used(80..120, 1.0)], &parts, half);
        assert_eq!(both, [(80, 120, vec![(0, 20), (1, 20)], 40)]);
        // A heap of which little is touched, and that at its begin.
        let heap = [part(0..1000, &[(0, 40)])];
        let touched = |page| if page < 40 { 0 } else { -libc::ENOENT };
        assert_eq!(
            found(&[used(0..40, 1.0)], &heap, touched),
            [(0, 40, vec![(0, 40)], 40)]
        );
        assert!(found(&[used(500..600, 1.0)], &heap, touched).is_empty());
    }

    #[test]
    fn questions_are_bounded_however_many_pieces_there_are() {
        let parts: Vec<Part> = (0..3000)
            .map(|n| part(n * 100..n * 100 + 90, &[(0, 45), (1, 45)]))
            .collect();
        let regions: Vec<Used> = (0..3000)
            .map(|n| used(n * 100..n * 100 + 50, 1.0))
            .collect();
        let mut asked = 0;
        let mut nodes = |pages: &[usize]| {
            asked = pages.len();
            Vec::new()
        };
        let pieces = of(&regions, parts.iter(), |share| share, &mut nodes);
        assert!(
            (MAX_PAGES..MAX_PAGES + PAGES_OF_EACH).contains(&asked),
            "{asked}"
        );
        assert!(pieces.len() > 2000, "{}", pieces.len());
    }
}
