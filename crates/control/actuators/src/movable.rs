//! Files with data that can move between nodes while they are in use: the interface that relocation needs.

use std::ops::Range;

use egeria_facts::FileKey;
use egeria_machine::NodeId;
use egeria_policy::ActionOutcome;

/// Files by their keys in facts.
pub(crate) trait MovableFiles: Send + Sync {
    /// Bytes that are moved at once.
    fn part_bytes(&self) -> u64;

    /// Whether this much of a file can go from one node to another; if not, the outcome to report.
    fn check(&self, file: FileKey, ends: (NodeId, NodeId), bytes: u64)
    -> Result<(), ActionOutcome>;

    /// The size of a file; `None` when it is gone, or cannot be found now.
    fn size_bytes(&self, file: FileKey) -> Option<u64>;

    /// The beginning of the next part, from `at` on, that may have something to move.
    fn next_part(&self, file: FileKey, at: u64) -> u64;

    /// Moves the data of a part of a file from the first node to the second.
    fn move_part(&self, file: FileKey, range: Range<u64>, ends: (NodeId, NodeId)) -> Part;
}

/// The result of moving a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Part {
    /// Bytes on the new node.
    pub(crate) moved_bytes: u64,
    /// Some of it could not be moved, now.
    pub(crate) is_given_up: bool,
    /// The file cannot be found now: no process has it open at this moment.
    pub(crate) is_away: bool,
    /// No part of the file can be moved, now or later.
    pub(crate) is_hopeless: bool,
}

pub(crate) fn refused(reason: &str) -> ActionOutcome {
    ActionOutcome::Refused {
        reason: reason.to_owned(),
    }
}
