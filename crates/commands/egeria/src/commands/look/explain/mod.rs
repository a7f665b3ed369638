//! `egeria explain`: what a steward did and why, in sentences.

mod document;
pub(super) mod events;
mod selection;
pub(super) mod sentences;
pub(super) mod story;
pub(super) mod totals;

use std::path::PathBuf;

use clap::Args;

use super::decision_log::{self, DecisionLog, Fate};
use document::Document;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use selection::Selection;
use story::Story;

/// Arguments of `egeria explain`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria explain
  egeria explain --volume /mnt/pmem0/pool --last 20
  egeria explain 4711
  egeria explain 4700/4711 --log decisions.jsonl
  egeria explain --json | jq '.events[] | [.thread.thread_id, .from, .to]'

Tells who was moved and why, what was expected, and what happened in the next
window. With THREAD also what it did and why it stayed where it is. Without
--volume and --log: the log of the steward at work, else the newest one. Times
count from the steward's start; on an emulated machine all figures are in that
machine's own time. The log and its fields: docs/reference/decision-log.md.")]
pub struct Arguments {
    /// Only this thread: its id, or PID/TID
    #[arg(value_name = "THREAD", value_parser = Selection::parse)]
    thread: Option<Selection>,
    /// Path of any pool of the volume, or a path on its mount
    #[arg(long, value_name = "POOL", conflicts_with = "log")]
    volume: Option<PathBuf>,
    /// The decision log itself
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Show only the last N events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    last: Option<u64>,
}

/// Tells the log.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let path = decision_log::choose(arguments.log.as_deref(), arguments.volume.as_deref())?;
    let story = read(&path, arguments.thread)?;
    let document = document(path, story, arguments)?;
    format.print(&document, sentences::all)
}

fn read(path: &std::path::Path, selection: Option<Selection>) -> Outcome<Story> {
    let mut log = DecisionLog::open(path)?;
    let mut story = Story::about(selection);
    let mut lines = 0_u64;
    while let Some(record) = log.next()? {
        lines += 1;
        story.add(record);
    }
    match lines {
        0 => Err(decision_log::empty(path)),
        _ => Ok(story),
    }
}

fn document(log: PathBuf, mut story: Story, arguments: &Arguments) -> Outcome<Document> {
    let threads = story.threads();
    if let (Some(selection), true) = (arguments.thread, threads.is_empty()) {
        return Err(Failure::new(format!(
            "thread {} did nothing that {} tells; leave it out to see who did",
            selection.name(),
            log.display()
        )));
    }
    let most = usize::try_from(arguments.last.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let left_out = story.events.len().saturating_sub(most);
    story.events.drain(..left_out);
    Ok(Document {
        older_part: decision_log::older_part(&log, story.head.as_ref()).map(Into::into),
        log: log.into(),
        steward: Fate::of(story.head.as_ref(), story.stop),
        left_out,
        threads,
        summary: story.totals.summary(),
        events: story.events,
        start: story.head,
    })
}
