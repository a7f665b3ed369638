//! The JSON document of a decision log.

use egeria_machine::NamedPath;
use serde::Serialize;

use super::super::decision_log::{Fate, Head};
use super::events::Event;
use super::totals::{SeenThread, Summary};

/// What `egeria explain --json` prints.
#[derive(Serialize)]
pub(super) struct Document {
    pub(super) log: NamedPath,
    /// An earlier part of it, put aside when it grew too long.
    pub(super) older_part: Option<NamedPath>,
    pub(super) start: Option<Head>,
    pub(super) steward: Fate,
    /// Events before these that `--last` left out.
    pub(super) left_out: usize,
    pub(super) events: Vec<Event>,
    /// The threads asked for, when some were.
    pub(super) threads: Vec<SeenThread>,
    pub(super) summary: Summary,
}
