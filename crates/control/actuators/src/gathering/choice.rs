//! Which pages go where.

use std::collections::{BTreeMap, HashMap};

use egeria_machine::NodeId;
use egeria_pages::accesses::REGION_BYTES;
use egeria_pages::areas::Area;

use super::memory::Pair;
use super::progress::Stuck;
use super::route::Route;

/// Blocks of 2 MiB that are remembered: of 512 GiB that were moved.
const MAX_BLOCKS: usize = 1 << 18;
/// What came back as often is left alone.
const MAX_RETURNS: u8 = 2;

/// What there is to choose from.
pub(super) struct Choice<'a> {
    pub(super) area: &'a Area,
    pub(super) route: &'a Route,
    /// Pairs whose target has no room.
    pub(super) full: &'a [Pair],
}

/// Pages, each with its new node.
pub(super) type Pages = BTreeMap<usize, NodeId>;

impl Choice<'_> {
    /// The pages that go, by pair: of 2 MiB all or none, as long as they may be one huge page. What may go is taken from
    /// `left`.
    pub(super) fn of(
        &self,
        pages: &[(usize, NodeId)],
        left: &mut BTreeMap<Pair, u64>,
        placed: &mut Placed,
        stuck: &mut Stuck,
    ) -> BTreeMap<Pair, Pages> {
        let mut chosen: BTreeMap<Pair, Pages> = BTreeMap::new();
        let is_unit = |one: &(usize, NodeId), other: &(usize, NodeId)| {
            one.0 / REGION_BYTES == other.0 / REGION_BYTES && one.1 == other.1
        };
        let page_bytes = self.area.page_bytes as u64;
        for unit in pages.chunk_by(is_unit) {
            let (address, from) = unit[0];
            let bytes = unit.len() as u64 * page_bytes;
            let is_exchange = left.keys().any(|pair| pair.1 == from);
            let is_used_here = is_exchange && self.route.accessor(address) == Some(from);
            let block = block(self.area, address);
            if is_used_here || placed.is_on(block, from) {
                continue;
            }
            let Some(pair) = self.pair(address, from, left, bytes, stuck) else {
                continue;
            };
            if placed.is_back(block, pair, unit.len()) {
                stuck.returned_bytes = stuck.returned_bytes.saturating_add(bytes);
                continue;
            }
            let Some(left) = left.get_mut(&pair) else {
                continue;
            };
            let taken = granted(unit.len() as u64, page_bytes, *left);
            *left = left.saturating_sub(taken * page_bytes);
            let taken = unit.iter().take(taken as usize);
            let pages = chosen.entry(pair).or_default();
            pages.extend(taken.map(|(page, _)| (*page, pair.1)));
        }
        chosen.retain(|_, pages| !pages.is_empty());
        chosen
    }

    /// Where memory on a node goes: to its accessor, or else where most is yet to go.
    fn pair(
        &self,
        address: usize,
        from: NodeId,
        left: &BTreeMap<Pair, u64>,
        bytes: u64,
        stuck: &mut Stuck,
    ) -> Option<Pair> {
        let ordered = left
            .iter()
            .filter(|(pair, left)| pair.0 == from && **left > 0);
        let ordered: Vec<(Pair, u64)> = ordered.map(|(pair, left)| (*pair, *left)).collect();
        // What its owner spreads over nodes is where the owner wants it.
        let may_go = |pair: &Pair| !self.area.is_interleaved && self.area.allows(pair.1);
        let allowed = ordered.iter().filter(|(pair, _)| may_go(pair));
        let allowed: Vec<(Pair, u64)> = allowed.copied().collect();
        if allowed.is_empty() && !ordered.is_empty() {
            stuck.bound_bytes = stuck.bound_bytes.saturating_add(bytes);
        }
        let open = allowed.iter().filter(|(pair, _)| !self.full.contains(pair));
        let accessor = self.route.accessor(address);
        open.max_by_key(|(pair, left)| (Some(pair.1) == accessor, *left))
            .map(|(pair, _)| *pair)
    }
}

/// The pages of a unit that go if `left_bytes` may: all of a whole one, or none.
fn granted(pages: u64, page_bytes: u64, left_bytes: u64) -> u64 {
    let bytes = pages * page_bytes;
    if left_bytes >= bytes {
        pages
    } else if bytes >= REGION_BYTES as u64 {
        if left_bytes.saturating_mul(2) >= bytes {
            pages
        } else {
            0
        }
    } else {
        left_bytes.div_ceil(page_bytes)
    }
}

/// The begin of the 2 MiB of a mapping that an address is in.
pub(super) fn block(area: &Area, address: usize) -> usize {
    (address / REGION_BYTES * REGION_BYTES).max(area.range.start)
}

/// Blocks of 2 MiB of a mapping that were moved, and where to.
#[derive(Debug, Default)]
pub(super) struct Placed(HashMap<usize, Block>);

#[derive(Clone, Copy, Debug)]
struct Block {
    to: NodeId,
    /// Pages that did not go with it.
    behind: usize,
    returns: u8,
}

impl Placed {
    /// Whether it was moved to this node: if nodes exchange memory, it would go back.
    fn is_on(&self, block: usize, node: NodeId) -> bool {
        self.0.get(&block).is_some_and(|block| block.to == node)
    }

    /// Whether pages that should go have gone as often before, and are back again.
    fn is_back(&mut self, block: usize, pair: Pair, pages: usize) -> bool {
        let block = self.0.get_mut(&block);
        let Some(block) = block.filter(|block| block.to == pair.1) else {
            return false;
        };
        if pages > block.behind {
            block.returns = block.returns.saturating_add(1);
            block.behind = pages;
        }
        block.returns >= MAX_RETURNS
    }

    /// Takes note of where the pages of a mapping are after a move of some of them.
    pub(super) fn note(&mut self, area: &Area, pair: Pair, now: &[(usize, NodeId)]) {
        let is_same = |one: &(usize, NodeId), other: &(usize, NodeId)| {
            block(area, one.0) == block(area, other.0)
        };
        for pages in now.chunk_by(is_same) {
            let on = |node| pages.iter().filter(|(_, on)| *on == node).count();
            let number = block(area, pages[0].0);
            if on(pair.1) == 0 || (self.0.len() >= MAX_BLOCKS && !self.0.contains_key(&number)) {
                continue;
            }
            let returns = self.0.get(&number).map_or(0, |block| block.returns);
            let block = Block {
                to: pair.1,
                behind: on(pair.0),
                returns,
            };
            self.0.insert(number, block);
        }
    }
}
