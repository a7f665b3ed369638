//! `egeria trace`: what a recording holds.

mod text;
mod totals;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use egeria_facts::{ThreadFacts, Window};
use egeria_machine::Machine;
use egeria_policy::NodeLoad;
use egeria_policy::nthread::{self, Configuration, Settings};
use egeria_watch::trace::Reader;
use serde::Serialize;

use super::recording::{self, Label, Stream};
use crate::failure::Outcome;
use crate::output::Format;
use totals::{Summary, ThreadTotal, Totals};

/// Arguments of `egeria trace`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  egeria run --scratch 4GiB --record yesterday.trace -- fio job.fio
  egeria trace show yesterday.trace
  egeria replay yesterday.trace --policy full")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Show the windows of a recording: threads, bandwidth, CPUs, local share
    Show(ShowArguments),
}

/// Arguments of `egeria trace show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria trace show yesterday.trace
  egeria trace show yesterday.trace --threads | less -S
  egeria trace show yesterday.trace --json | jq '.windows[].local_share'

Bandwidths are means over a window, on the machine's own clock. `cpu` is the
share of a node's CPUs in use, `local` the share of bytes that were read and
written on the thread's own node. With --threads, --json adds to each window
the `facts` of its threads. A recording whose recorder was killed is shown up
to its last whole window, with a warning. The format: docs/reference/trace.md.")]
struct ShowArguments {
    /// A recording
    file: PathBuf,
    /// Show what each thread did, too
    #[arg(long)]
    threads: bool,
}

/// Shows a recording.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let What::Show(show) = &arguments.what;
    // Read once to the end before anything is printed: what is damaged is told, not half shown.
    let mut reader = recording::open(&show.file)?;
    let machine = reader.machine().clone();
    let mut totals = Totals::default();
    for facts in recording::facts(&mut reader) {
        totals.add(&machine, &facts?.window);
    }
    let label = Label::of(&show.file, &reader);
    label.warn();
    let view = View {
        machine,
        label,
        totals,
        file: &show.file,
        threads: show.threads,
    };
    match format {
        Format::Human => text::print(&view),
        Format::Json => view.print_json(),
    }
}

/// What is shown.
struct View<'a> {
    machine: Machine,
    label: Label,
    totals: Totals,
    file: &'a Path,
    threads: bool,
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
struct Shown {
    number: u64,
    start_ns: u64,
    duration_ns: u64,
    threads: usize,
    local_share: Option<f64>,
    nodes: Vec<NodeLoad>,
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<Vec<ThreadFacts>>,
}

impl View<'_> {
    fn print_json(&self) -> Outcome {
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
    fn windows<'a>(&'a self, reader: &'a mut Reader) -> impl Iterator<Item = Outcome<Shown>> + 'a {
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
