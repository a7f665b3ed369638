//! Faults by their names.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::asymsched::{self, MemoryAction, TierMove};
use crate::planner::RelocationReason;
use crate::{Action, KeptBecause, ProcessKept, Reason};

/// What is wrong with the placement of a program, or why nothing is. Of several, the first counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Its memory is more than any node has, and part of its accesses cross nodes.
    Outgrown,
    /// Its node has more threads than CPUs.
    Crowded,
    /// Threads run on one node, and the memory that they use is on another.
    Apart,
    /// Its files are in the page cache of another node than its threads.
    PageCacheElsewhere,
    /// A memory that it uses has more to do than it can.
    MemoryBusy,
    /// Links between its nodes carry less than those between others.
    NarrowLinks,
    /// Its owner bound its threads away from what they use, and that cannot come.
    Bound,
    /// Memory should go to a node that has no room for it.
    NoRoom,
    /// Part of its accesses cross nodes, and it is not known which of its threads use which memory.
    AccessorsUnknown,
    /// Another place would be little better, or would not repay the move.
    NotWorthIt,
    /// Threads of several nodes share its memory, and it lies on these in good proportion.
    Shared,
    /// Its owner bound or interleaved the memory that it uses.
    Fixed,
    /// Its memory and its files are where its threads run.
    Local,
    /// It uses memory and files too little for its place to matter.
    Quiet,
}

impl Verdict {
    /// Whether something is wrong.
    pub fn is_fault(self) -> bool {
        self < Verdict::AccessorsUnknown
    }

    /// Whether it is about where memory lies, so that a lack of room may be its cause.
    pub(super) fn is_of_memory(self) -> bool {
        matches!(
            self,
            Verdict::Apart | Verdict::MemoryBusy | Verdict::NoRoom | Verdict::NotWorthIt
        )
    }

    /// The fault that an action repairs; `None` for an action that repairs none of the program itself.
    pub(super) fn of_action(action: &Action) -> Option<Verdict> {
        Some(match action {
            Action::MigrateThread(step) => match step.reason {
                Reason::RemoteReads { .. } | Reason::ContentionOver { .. } => {
                    Verdict::PageCacheElsewhere
                }
                Reason::Together { .. } | Reason::CpuContention { .. } => Verdict::Crowded,
                Reason::PmContention { .. }
                | Reason::BroughtLess { .. }
                | Reason::Compared { .. }
                | Reason::Own { .. } => Verdict::MemoryBusy,
            },
            Action::MigrateProcess { because, .. } => match because {
                asymsched::Decision::Move { .. } => Verdict::NarrowLinks,
                _ => Verdict::Apart,
            },
            Action::MigrateMemory(step) => match step.action {
                MemoryAction::Gather {
                    tier: Some(TierMove::Balanced { .. }),
                    ..
                } => Verdict::MemoryBusy,
                MemoryAction::Gather {
                    tier: Some(TierMove::Demoted { .. }),
                    ..
                } => Verdict::NoRoom,
                MemoryAction::Gather { .. } => Verdict::Apart,
                _ => Verdict::NarrowLinks,
            },
            Action::Relocate(step) => match step.why {
                RelocationReason::RemoteReads { .. } => Verdict::PageCacheElsewhere,
                RelocationReason::ReadContention { .. } => Verdict::MemoryBusy,
                _ => return None,
            },
            Action::SetLimit(_)
            | Action::LiftLimit { .. }
            | Action::SetDelegation { .. }
            | Action::SetMba { .. } => return None,
        })
    }

    /// Of a process that is left as it is.
    pub(super) fn of_kept(because: &ProcessKept) -> Verdict {
        match because {
            ProcessKept::Local => Verdict::Local,
            ProcessKept::Shared => Verdict::Shared,
            ProcessKept::Bound => Verdict::Bound,
            ProcessKept::NoRoom { .. } => Verdict::NoRoom,
            ProcessKept::AccessorsUnknown | ProcessKept::LeftToKernel => Verdict::AccessorsUnknown,
            ProcessKept::Fixed => Verdict::Fixed,
            ProcessKept::CheaperToStay { .. }
            | ProcessKept::OnTrial
            | ProcessKept::OverBudget
            | ProcessKept::Arriving { .. }
            | ProcessKept::Resting => Verdict::NotWorthIt,
        }
    }

    /// Of a thread that stays away from the files that it reads.
    pub(super) fn of_thread(because: &KeptBecause) -> Verdict {
        match because {
            KeptBecause::Pinned | KeptBecause::CpusExclude => Verdict::Bound,
            _ => Verdict::NotWorthIt,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Verdict::Outgrown => "its memory is more than any node has",
            Verdict::Apart => "its threads run on one node, and memory that they use is on another",
            Verdict::PageCacheElsewhere => {
                "files that it reads are in the page cache of another node than its threads"
            }
            Verdict::Crowded => "its node has more threads than CPUs",
            Verdict::MemoryBusy => "a memory that it uses has more to do than it can",
            Verdict::NarrowLinks => "the links between its nodes carry less than those between others",
            Verdict::Bound => {
                "its owner bound its threads away from what they use, and that cannot come to them"
            }
            Verdict::NoRoom => "memory should go to a node that has no room for it",
            Verdict::AccessorsUnknown => {
                "its threads run on several nodes, and it is not known which of them use which memory"
            }
            Verdict::NotWorthIt => "another place would be little better, or not repay the move",
            Verdict::Shared => "threads of several nodes share its memory, and it is spread over them",
            Verdict::Fixed => "its owner bound or interleaved the memory that it uses",
            Verdict::Local => "its memory and its files are where its threads run",
            Verdict::Quiet => "it uses memory and files too little for its place to matter",
        })
    }
}
