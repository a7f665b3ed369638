//! How far an order is, and what does not go.

use std::fmt;

use egeria_facts::ProcessKey;
use egeria_machine::format_bytes;
use serde::{Deserialize, Serialize};

/// How far the memory of a process is that goes to its threads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GatherProgress {
    pub process: ProcessKey,
    /// Bytes that went, of all orders for it.
    pub moved_bytes: u64,
    /// Bytes yet to go.
    pub left_bytes: u64,
    /// When the budget will have been enough for these, ns from now; 0: at once.
    pub wait_ns: u64,
    /// What does not go.
    pub stuck: Stuck,
}

impl Stuck {
    /// All of it.
    pub fn bytes(&self) -> u64 {
        let all = self.each();
        all.iter()
            .fold(0, |sum, (bytes, _)| sum.saturating_add(*bytes))
    }

    fn each(&self) -> [(u64, &'static str); 5] {
        [
            (self.shared_bytes, "are shared with other processes"),
            (self.pinned_bytes, "are pinned"),
            (self.bound_bytes, "are bound to other nodes by their owner"),
            (self.no_room_bytes, "have no room on the node"),
            (self.returned_bytes, "came back twice and are left alone"),
        ]
    }
}

impl fmt::Display for GatherProgress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (moved, left) = (
            format_bytes(self.moved_bytes),
            format_bytes(self.left_bytes),
        );
        write!(formatter, "{moved} of the memory of {} went", self.process)?;
        match (self.left_bytes, self.wait_ns) {
            (0, _) => {}
            (_, 0) => write!(formatter, ", {left} are left")?,
            (_, wait_ns) => {
                let seconds = (wait_ns as f64 / 1e9).ceil();
                write!(
                    formatter,
                    ", {left} are left: the budget allows them in {seconds:.0} s"
                )?;
            }
        }
        for (bytes, why) in self.stuck.each().iter().filter(|(bytes, _)| *bytes > 0) {
            write!(formatter, "; {} {why}", format_bytes(*bytes))?;
        }
        Ok(())
    }
}

/// What was left because it cannot go, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stuck {
    /// Other processes have it mapped, too.
    pub shared_bytes: u64,
    /// Pinned by a device or the kernel.
    pub pinned_bytes: u64,
    /// Its owner bound it to other nodes.
    pub bound_bytes: u64,
    /// The node had no memory for it.
    pub no_room_bytes: u64,
    /// It came back twice after it was moved.
    pub returned_bytes: u64,
}
