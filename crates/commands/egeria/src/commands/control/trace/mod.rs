//! `egeria trace`: what a recording holds.

mod text;
mod totals;
mod view;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::recording::{self, Label};
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use totals::Totals;
use view::View;

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
    // Read once to the end before anything is printed: damage is reported, and not half of the file shown.
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
