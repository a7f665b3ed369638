//! What is found to be wrong, and after which crash.

use super::workload::{Setup, Workload};
use egeria_media::recorder::Choice;

/// A workload in which something is wrong.
pub(super) struct Violation {
    pub(super) setup: Setup,
    pub(super) omitted: Option<String>,
    pub(super) workload: Workload,
    pub(super) wrong: Box<BadState>,
}

/// A crash: after so many events, so much of each pending line arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Crash {
    pub(super) point: usize,
    pub(super) choice: Choice,
}

/// A crash state that recovery makes something wrong of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BadState {
    pub(super) crash: Crash,
    /// The crash inside recovery, if it needs one.
    pub(super) second: Option<Crash>,
    /// The image's hash.
    pub(super) hash: u64,
    pub(super) why: String,
}

impl BadState {
    /// The run itself went wrong, without a crash.
    pub(super) fn running(why: String) -> BadState {
        let choice = Choice(Vec::new());
        BadState {
            crash: Crash { point: 0, choice },
            second: None,
            hash: 0,
            why,
        }
    }
}
