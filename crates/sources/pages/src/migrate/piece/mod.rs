//! Pages that one worker moves at once, and verifies.
//!
//! A call of the kernel gives up at the first page that does not move, and does not say which. So what is left after a
//! call goes in smaller groups, and at last one by one. The status of a page that moved is its new node; where the
//! others are, is asked afterwards: a question takes a sixth of the time of a move. Of 2 MiB that are there wholly, the
//! first page goes alone: if they are one huge page, all of it went, and no call was spent on its parts.

use std::collections::BTreeMap;
use std::io;

use egeria_machine::NodeId;

use super::kernel::Kernel;
use super::outcome::{Outcome, Purse};
use super::target::Target;
use crate::memory::areas::Area;

const SMALL_PAGE: usize = 4096;
/// Size of huge pages that the kernel makes of small ones.
const HUGE_BYTES: usize = 2 << 20;
/// Pages tried together after all were.
const GROUP_PAGES: usize = 64;
/// Pages tried one by one; more that do not move are taken for such that never do.
const MAX_SINGLE: usize = 512;

/// Pages of one mapping.
pub(super) struct Piece<'a, K> {
    pub(super) kernel: &'a K,
    pub(super) area: &'a Area,
    pub(super) pages: &'a [usize],
    pub(super) target: &'a Target,
    /// The node where all of them were a moment ago; `None`: it is asked.
    pub(super) from: Option<NodeId>,
    pub(super) also_shared: bool,
    pub(super) purse: &'a Purse,
}

/// Why a page was left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Shared,
    Pinned,
    NoRoom,
    OverBudget,
    /// It is not there any more.
    Gone,
}

/// What came of the pages that should go to one node.
#[derive(Default)]
struct Group {
    left: BTreeMap<usize, Left>,
    /// First pages of huge ones that went whole.
    huge: Vec<usize>,
}

impl<K: Kernel> Piece<'_, K> {
    /// Moves what is elsewhere, and looks where everything is.
    pub(super) fn bring(&self) -> io::Result<Outcome> {
        let mut outcome = Outcome::default();
        let before = match self.from {
            Some(from) => vec![i32::from(from.0); self.pages.len()],
            None => self.kernel.nodes(self.pages)?,
        };
        let mut wrong: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        let mut wanted = Vec::with_capacity(self.pages.len());
        for (page, status) in self.pages.iter().zip(&before) {
            let now = node_of(*status);
            let goal = now.map(|now| self.target.wanted(*page, now));
            if let Some(goal) = goal.filter(|goal| now != Some(*goal) && self.area.allows(*goal)) {
                wrong.entry(goal).or_default().push(*page);
            }
            wanted.push(goal);
        }
        let mut left = BTreeMap::new();
        for (node, pages) in wrong {
            let mut group = self.move_group(node, &pages)?;
            left.append(&mut group.left);
            outcome.huge += (group.huge.len() * HUGE_BYTES) as u64;
        }
        let asked: Vec<usize> = left.keys().copied().collect();
        let found: BTreeMap<usize, i32> = match &asked[..] {
            [] => BTreeMap::new(),
            asked => asked
                .iter()
                .copied()
                .zip(self.kernel.nodes(asked)?)
                .collect(),
        };
        for ((before, wanted), page) in before.iter().zip(wanted).zip(self.pages) {
            let (Some(before), Some(wanted)) = (node_of(*before), wanted) else {
                continue;
            };
            let after = match found.get(page) {
                Some(status) => node_of(*status),
                // What its owner bound elsewhere was not asked to go.
                None if self.area.allows(wanted) => Some(wanted),
                None => Some(before),
            };
            if let Some(after) = after {
                self.count(
                    &mut outcome,
                    (before, after, wanted),
                    left.get(page).copied(),
                );
            }
        }
        if self.area.page_bytes >= HUGE_BYTES {
            outcome.huge = outcome.moved;
        }
        Ok(outcome)
    }

    fn count(
        &self,
        outcome: &mut Outcome,
        (before, after, wanted): (NodeId, NodeId, NodeId),
        left: Option<Left>,
    ) {
        let bytes = self.area.page_bytes as u64;
        outcome.by_node.add(after, bytes);
        let sum = match (after == wanted, left) {
            (true, _) => {
                outcome.moved += if before == wanted { 0 } else { bytes };
                &mut outcome.right
            }
            (false, _) if !self.area.allows(wanted) => &mut outcome.bound,
            (false, Some(Left::Shared)) => &mut outcome.shared,
            (false, Some(Left::NoRoom)) => &mut outcome.no_room,
            (false, Some(Left::OverBudget)) => &mut outcome.over_budget,
            (false, Some(Left::Pinned | Left::Gone) | None) => &mut outcome.pinned,
        };
        *sum += bytes;
    }

    /// Moves pages to a node.
    fn move_group(&self, node: NodeId, pages: &[usize]) -> io::Result<Group> {
        let mut group = Group::default();
        let granted = self.purse.take(pages.len(), self.area.page_bytes);
        let (now, later) = pages.split_at(granted);
        group
            .left
            .extend(later.iter().map(|page| (*page, Left::OverBudget)));
        let mut rest = self.move_huge(node, now, &mut group)?;
        for size in [usize::MAX, GROUP_PAGES, 1] {
            if rest.is_empty() {
                break;
            }
            rest = self.attempt(node, &rest, size, &mut group)?;
        }
        group
            .left
            .extend(rest.into_iter().map(|page| (page, Left::Pinned)));
        let reasons = group.left.values();
        let left = reasons.filter(|left| **left != Left::OverBudget).count();
        self.purse.give_back(left, self.area.page_bytes);
        Ok(group)
    }

    /// Moves what may be huge pages by the first page of each; returns what they were not.
    fn move_huge(
        &self,
        node: NodeId,
        pages: &[usize],
        group: &mut Group,
    ) -> io::Result<Vec<usize>> {
        if self.area.page_bytes != SMALL_PAGE {
            return Ok(pages.to_vec());
        }
        let blocks = pages.chunk_by(|one, other| one / HUGE_BYTES == other / HUGE_BYTES);
        let (whole, parts): (Vec<&[usize]>, Vec<&[usize]>) =
            blocks.partition(|block| block.len() == HUGE_BYTES / SMALL_PAGE);
        let mut rest: Vec<usize> = parts.concat();
        if whole.is_empty() {
            return Ok(rest);
        }
        let first: Vec<usize> = whole.iter().map(|block| block[0]).collect();
        let others = |block: &&[usize]| [block[1], block[block.len() - 1]];
        let others: Vec<usize> = whole.iter().flat_map(others).collect();
        // What did not move is tried again with the others, and then it counts why.
        self.call(node, &first, &mut Group::default())?;
        for (block, status) in whole.iter().zip(self.kernel.nodes(&others)?.chunks(2)) {
            if status.iter().all(|status| node_of(*status) == Some(node)) {
                group.huge.push(block[0])
            } else {
                rest.extend(*block)
            }
        }
        rest.sort_unstable();
        Ok(rest)
    }

    /// One call for each batch of pages; returns those that are still elsewhere and may yet move.
    fn attempt(
        &self,
        node: NodeId,
        pages: &[usize],
        size: usize,
        group: &mut Group,
    ) -> io::Result<Vec<usize>> {
        let (now, never) = match size {
            1 => pages.split_at(pages.len().min(MAX_SINGLE)),
            _ => pages.split_at(pages.len()),
        };
        let mut unknown = Vec::new();
        for pages in now.chunks(size.min(now.len().max(1))) {
            unknown.extend(self.call(node, pages, group)?);
        }
        let mut elsewhere = Vec::new();
        if !unknown.is_empty() {
            for (page, status) in unknown.iter().zip(self.kernel.nodes(&unknown)?) {
                match node_of(status) {
                    Some(now) if now == node => {}
                    Some(_) => elsewhere.push(*page),
                    None => drop(group.left.insert(*page, Left::Gone)),
                }
            }
        }
        elsewhere.extend(never);
        Ok(elsewhere)
    }

    /// Asks the kernel once; returns the pages of which it does not say what came of them.
    fn call(&self, node: NodeId, pages: &[usize], group: &mut Group) -> io::Result<Vec<usize>> {
        let status = match self.kernel.move_to(node, pages, self.also_shared) {
            Ok(status) => status,
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
                let without_room = pages.iter().map(|page| (*page, Left::NoRoom));
                group.left.extend(without_room);
                return Ok(Vec::new());
            }
            // None of them could be moved: that is of these pages, not of the process.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(pages.to_vec()),
            Err(error) => return Err(error),
        };
        let mut unknown = Vec::new();
        for (page, status) in pages.iter().zip(status) {
            if status == -libc::EACCES {
                group.left.insert(*page, Left::Shared);
            } else if node_of(status) != Some(node) {
                unknown.push(*page);
            }
        }
        Ok(unknown)
    }
}

fn node_of(status: i32) -> Option<NodeId> {
    u16::try_from(status).ok().map(NodeId)
}

#[cfg(test)]
mod tests;
