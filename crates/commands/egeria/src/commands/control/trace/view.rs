//! What is shown of a recording, whichever way.

use std::cell::RefCell;
use std::path::Path;

use egeria_facts::{ThreadFacts, Window};
use egeria_machine::Machine;
use egeria_policy::NodeLoad;
use egeria_policy::nthread::{self, Configuration, Settings};
use egeria_trace::Reader;
use serde::Serialize;

use super::totals::{Summary, ThreadTotal, Totals};
use crate::commands::control::recording::{self, Label, Stream};
use egeria_cli::failure::Outcome;

pub(super) struct View<'a> {
    pub(super) machine: Machine,
    pub(super) label: Label,
    pub(super) totals: Totals,
    pub(super) file: &'a Path,
    pub(super) threads: bool,
}

#[derive(Serialize)]
struct Document<'a, W: Serialize> {
    #[serde(flatten)]
    label: &'a Label,
    summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<Vec<ThreadTotal>>,
    windows: W,
}

/// One window as shown.
#[derive(Serialize)]
pub(super) struct Shown {
    pub(super) number: u64,
    pub(super) start_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) threads: usize,
    pub(super) local_share: Option<f64>,
    pub(super) nodes: Vec<NodeLoad>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) facts: Option<Vec<ThreadFacts>>,
}

impl View<'_> {
    pub(super) fn print_json(&self) -> Outcome {
        let failure = RefCell::new(None);
        let mut reader = recording::again(self.file, &self.machine)?;
        let windows = self.windows(&mut reader);
        let document = Document {
            label: &self.label,
            summary: self.totals.summary(),
            threads: self.threads.then(|| self.totals.threads()),
            windows: Stream::new(windows, &failure),
        };
        recording::print_json(&document, &failure)
    }

    /// The windows that were counted, once more: a recording may have grown since.
    pub(super) fn windows<'a>(
        &'a self,
        reader: &'a mut Reader,
    ) -> impl Iterator<Item = Outcome<Shown>> + 'a {
        let count = usize::try_from(self.totals.windows).unwrap_or(usize::MAX);
        let facts = recording::facts(reader).take(count);
        facts.map(|facts| Ok(self.shown(facts?.window)))
    }

    fn shown(&self, window: Window) -> Shown {
        Shown {
            number: window.number,
            start_ns: window.start_ns,
            duration_ns: window.duration_ns,
            threads: window.threads.len(),
            local_share: window.local_share(&self.machine),
            nodes: loads(&self.machine, &window),
            facts: self.threads.then_some(window.threads),
        }
    }
}

/// What went through the nodes, as policies count it.
fn loads(machine: &Machine, window: &Window) -> Vec<NodeLoad> {
    let nothing = Settings::of(Configuration::Off);
    nthread::plan(machine, window, &nothing).measured
}
