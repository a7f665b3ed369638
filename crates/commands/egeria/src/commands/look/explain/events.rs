//! What a log reports, each action with its result.

use egeria_policy::Kept;
use egeria_steward::{ActionLine, ResultLine};
use serde::Serialize;

/// Something that a log reports. What happens again and again to a thread is one event.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// Something was done, or should have been.
    Action(Box<ActionEvent>),
    /// A thread stayed although something spoke for another node.
    Stay(StayEvent),
}

#[derive(Serialize, Clone, Debug)]
pub(crate) struct ActionEvent {
    /// ns of machine time since the steward began.
    pub(crate) at_ns: u64,
    /// When it happened last, ns of machine time since the steward began.
    pub(crate) until_ns: u64,
    /// In how many windows: more than one only for actions that failed.
    pub(crate) windows: u64,
    #[serde(flatten)]
    pub(crate) line: ActionLine,
    /// What happened in the next window.
    pub(crate) result: Option<ResultLine>,
    /// What happened and what came of it, in words.
    pub(crate) report: String,
}

#[derive(Serialize, Debug)]
pub(crate) struct StayEvent {
    /// ns of machine time since the steward began.
    pub(crate) at_ns: u64,
    /// When it happened last, ns of machine time since the steward began.
    pub(crate) until_ns: u64,
    /// In how many windows.
    pub(crate) windows: u64,
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) kept: Kept,
    pub(crate) sentence: String,
}
