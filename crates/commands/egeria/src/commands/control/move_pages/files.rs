//! The page cache of files.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use egeria_cli::failure::{Failure, Outcome, reason};
use egeria_cli::progress::Progress;
use egeria_pages::NodeBytes;
use egeria_pages::warm::{self, Failures, Plan};

use super::document::{Bytes, Document, Problem, of_nodes};
use super::wish::Wish;
use crate::commands::control::named_files;

/// Moves what is cached of files.
pub(super) fn run(paths: &[PathBuf], wish: &Wish<'_>) -> Outcome<Document> {
    let mut plan = Plan::for_nodes(wish.nodes, wish.also_mapped);
    plan.only_cached = true;
    for path in paths {
        named_files::add(&mut plan, path, "move", wish.signals)?;
    }
    let failures = Failures::default();
    let outcomes = bring(&plan, wish, &failures)?;
    let page_bytes = rustix::param::page_size() as u64;
    let mut bytes = Bytes::default();
    let mut by_node = NodeBytes::default();
    for (node, outcome) in outcomes {
        by_node.add(node, outcome.there * page_bytes);
        bytes.moved_bytes += outcome.moved * page_bytes;
        let shared = outcome.mapped.min(outcome.elsewhere);
        bytes.shared_bytes += shared * page_bytes;
        bytes.pinned_bytes += (outcome.elsewhere - shared) * page_bytes;
    }
    bytes.there_bytes = by_node.total();
    let problem = |(path, cause): (PathBuf, String)| Problem {
        path: path.into(),
        cause,
    };
    let failures: Vec<Problem> = failures.into_inner().into_iter().map(problem).collect();
    Ok(Document {
        kind: "files",
        files: plan.files(),
        complete: failures.is_empty(),
        bytes,
        nodes: of_nodes(&by_node),
        failures,
        ..Document::default()
    })
}

/// Works with a progress bar, until done or a signal.
fn bring(
    plan: &Plan,
    wish: &Wish<'_>,
    failures: &Failures,
) -> Outcome<Vec<(egeria_machine::NodeId, warm::Outcome)>> {
    const LOOK: Duration = Duration::from_millis(20);
    let shared = warm::Progress::default();
    let all: u64 = plan.bytes_of_nodes().iter().map(|(_, bytes)| bytes).sum();
    let bar = Progress::bar("moving");
    let outcomes = std::thread::scope(|scope| {
        let work = scope.spawn(|| plan.run(wish.machine, &shared, failures));
        while !work.is_finished() {
            std::thread::sleep(LOOK);
            let done = shared.done_bytes.load(Ordering::Relaxed);
            bar.advance(done, all.saturating_mul(2));
            if wish.signals.check().is_err() {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        work.join()
    });
    drop(bar);
    wish.signals.check()?;
    let outcomes = outcomes.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    outcomes.map_err(|error| {
        let cause = reason(&error);
        Failure::new(format!(
            "cannot move pages of files: {cause}; see `egeria doctor`"
        ))
    })
}
