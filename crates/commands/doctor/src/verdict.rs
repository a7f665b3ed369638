//! How far something works, why, and what to do about it.

use serde::Serialize;

/// How far something works.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Works,
    /// With what is said.
    Limited,
    Fails,
    /// The machine has nothing that it is for.
    Absent,
}

/// How far, why, and what to do about it.
pub(crate) type Verdict = (State, String, Option<String>);

pub(crate) fn works(because: impl Into<String>) -> Verdict {
    (State::Works, because.into(), None)
}

pub(crate) fn limited(because: impl Into<String>, fix: impl Into<String>) -> Verdict {
    (State::Limited, because.into(), Some(fix.into()))
}

pub(crate) fn fails(because: impl Into<String>, fix: impl Into<String>) -> Verdict {
    (State::Fails, because.into(), Some(fix.into()))
}
