//! In which order memory is looked at.

use std::ops::Range;
use std::sync::Arc;

use egeria_machine::NodeId;
use egeria_pages::accesses::{REGION_BYTES, Region};
use egeria_pages::areas::Area;

use super::memory::Pair;

/// Stretches of address space in the order in which they go, and how far that is.
#[derive(Debug)]
pub(super) struct Route {
    stretches: Vec<Stretch>,
    place: Place,
    /// By address.
    regions: Vec<Region>,
}

/// A part of a mapping.
pub(super) type Stretch = (Arc<Area>, Range<usize>);

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Place {
    /// The next stretch.
    next: usize,
    /// Begin of what is left of that, unless it is whole.
    at: usize,
}

/// Small mappings are looked at together, up to 2 MiB: some programs have hundreds of thousands of a page each.
const JOINED_PAGES: usize = 512;

/// When a stretch goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Threads of a target alone access it.
    Private,
    /// It is used, by which threads is not known, or by several.
    Used,
    /// Nothing is known of it.
    Rest,
    /// Only threads of other nodes access it.
    Foreign,
}

impl Route {
    /// Of mappings, with what is known of their use, for pages that go from the first node of each pair to the second.
    /// `coldest_first` turns the order round: the least used goes first.
    pub(super) fn new(
        areas: Vec<Area>,
        regions: &[Region],
        pairs: &[Pair],
        coldest_first: bool,
    ) -> Route {
        let is_source = |node: NodeId| pairs.iter().any(|(from, _)| *from == node);
        let areas = areas.into_iter();
        let mut areas: Vec<Arc<Area>> = areas
            .filter(|area| area.bytes.iter().any(|(node, _)| is_source(*node)))
            .map(Arc::new)
            .collect();
        areas.sort_by_key(|area| area.range.start);
        let mut regions = regions.to_vec();
        regions.sort_by_key(|region| region.range.start);
        let mut stretches: Vec<(Turn, f64, Arc<Area>, Range<usize>)> = Vec::new();
        let mut first = 0;
        for area in &areas {
            let mut at = area.range.start;
            // Pages of 1 GiB are not cut.
            let regions = if area.page_bytes > REGION_BYTES {
                &[][..]
            } else {
                &regions
            };
            while regions
                .get(first)
                .is_some_and(|region| region.range.end <= at)
            {
                first += 1;
            }
            for region in &regions[first..] {
                let range = region.range.start.max(at)..region.range.end.min(area.range.end);
                if region.range.start >= area.range.end {
                    break;
                }
                if range.is_empty() {
                    continue;
                }
                let rest = at..range.start;
                stretches.push((Turn::Rest, 0.0, Arc::clone(area), rest));
                at = range.end;
                let turn = turn(region, pairs);
                stretches.push((turn, region.density(), Arc::clone(area), range));
            }
            let rest = at..area.range.end;
            stretches.push((Turn::Rest, 0.0, Arc::clone(area), rest));
        }
        stretches.retain(|(.., range)| !range.is_empty());
        if coldest_first {
            stretches.sort_by(|one, other| one.1.total_cmp(&other.1));
        } else {
            stretches.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.total_cmp(&one.1)));
        }
        let stretches: Vec<_> = stretches
            .into_iter()
            .map(|(_, _, area, range)| (area, range))
            .collect();
        Route {
            stretches,
            place: Place::default(),
            regions,
        }
    }

    /// What is to be looked at next, and where that ends: at most this number of pages of one or more mappings, huge ones
    /// whole.
    pub(super) fn next(&self, max_pages: usize) -> (Vec<Stretch>, Place) {
        let (mut found, mut pages, mut place) = (Vec::new(), 0, self.place);
        // The order counts: large stretches go one by one.
        while found.is_empty() || pages < JOINED_PAGES {
            let Some((area, stretch)) = self.stretches.get(place.next) else {
                break;
            };
            let start = place.at.max(stretch.start);
            let most = if found.is_empty() {
                max_pages
            } else {
                JOINED_PAGES - pages
            };
            let end = start.saturating_add(most * area.page_bytes);
            let end = (end / REGION_BYTES * REGION_BYTES).min(stretch.end);
            // Of a huge page, all or nothing.
            let end = match (end > start, found.is_empty()) {
                (true, _) => end,
                (false, true) => (start / REGION_BYTES + 1) * REGION_BYTES,
                (false, false) => break,
            };
            let end = end.max(start + area.page_bytes).min(stretch.end);
            pages += (end - start) / area.page_bytes;
            found.push((Arc::clone(area), start..end));
            place = if end == stretch.end {
                Place {
                    next: place.next + 1,
                    at: 0,
                }
            } else {
                Place { at: end, ..place }
            };
        }
        (found, place)
    }

    /// All before this place is done.
    pub(super) fn advance(&mut self, to: Place) {
        self.place = to;
    }

    /// The node whose threads alone access what is at an address, as far as known.
    pub(super) fn accessor(&self, address: usize) -> Option<NodeId> {
        let after = self
            .regions
            .partition_point(|region| region.range.start <= address);
        let region = self.regions.get(after.checked_sub(1)?)?;
        region
            .accessor()
            .filter(|_| region.range.contains(&address))
    }
}

fn turn(region: &Region, pairs: &[Pair]) -> Turn {
    match region.accessor() {
        Some(node) if pairs.iter().any(|(_, to)| *to == node) => Turn::Private,
        Some(_) => Turn::Foreign,
        None => Turn::Used,
    }
}
