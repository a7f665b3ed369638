//! `egeria warm`: bring files into the page cache of chosen nodes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use egeria_machine::{Machine, NamedPath, NodeId, format_bandwidth, format_bytes};
use egeria_pages::room;
use egeria_pages::warm::{self, Failures, Plan};
use serde::Serialize;

use super::named_files::{self, Destination};
use egeria_cli::failure::{Failure, Outcome, reason};
use egeria_cli::output::{self, Format, printable};
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;

/// Arguments of `egeria warm`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("to").required(true).args(["node", "spread"]))]
#[command(after_help = "\
Examples:
  egeria warm /var/lib/postgresql/15/main --node 1
  egeria warm model.gguf --spread
  egeria warm a b --node 0,1 --json | jq '.nodes[] | [.node, .there_bytes]'

Files that are not cached are read, by several threads of each node. Pages that
are cached on another node are moved, unless another process has them mapped:
--mapped moves those as well. Holes stay holes. At the end every page is looked
at. The kernel may drop or replace pages later as it does with any.
Exit status: 0 when every page is where it should be, else 1.")]
pub struct Arguments {
    /// Files, or directories with all files below (not across mounts)
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    to: Destination,
}

#[derive(Serialize)]
struct Document {
    files: usize,
    bytes: u64,
    seconds: f64,
    /// Every page is where it should be.
    complete: bool,
    nodes: Vec<Node>,
    failures: Vec<FileFailure>,
}

#[derive(Serialize)]
struct Node {
    node: NodeId,
    /// What it was to get, whole pages.
    bytes: u64,
    /// What it has in the end.
    there_bytes: u64,
    elsewhere_bytes: u64,
    missing_bytes: u64,
    read_bytes: u64,
    moved_bytes: u64,
    /// Not moved because other processes have it mapped.
    mapped_bytes: u64,
}

#[derive(Serialize)]
struct FileFailure {
    path: NamedPath,
    cause: String,
}

/// Reads and moves until all is there, or a signal.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let signals = Signals::install()?;
    signals.end_within(named_files::PATIENCE);
    let machine = Machine::detect()?;
    let nodes = arguments.to.nodes(&machine)?;
    let mut plan = Plan::for_nodes(&nodes, arguments.to.mapped);
    for path in &arguments.files {
        named_files::add(&mut plan, path, "warm", &signals)?;
    }
    check_room(&plan)?;
    // If memory runs out on these nodes, it is this process that ends.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let (begin, failures) = (Instant::now(), Failures::default());
    let bar = Progress::bar("warming");
    let tell = |done, all| bar.advance(done, all);
    let outcomes = bring(&plan, &machine, &signals, &failures, tell)?;
    drop(bar);
    let document = document_of(&plan, outcomes, failures, begin.elapsed());
    format.print(&document, human)?;
    Ok(if document.complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Refuses what would push out itself, or memory of programs.
pub(super) fn check_room(plan: &Plan) -> Outcome {
    for (node, bytes) in plan.bytes_of_nodes() {
        let Some(room) = room::of(node) else { continue };
        if bytes > room {
            return Err(Failure::new(format!(
                "node {} has room for {} in its page cache, and should get {}; name fewer files, or --spread them",
                node.0,
                format_bytes(room),
                format_bytes(bytes)
            )));
        }
    }
    Ok(())
}

/// Works until done or a signal, and says how many bytes of how many are done.
pub(super) fn bring(
    plan: &Plan,
    machine: &Machine,
    signals: &Signals,
    failures: &Failures,
    tell: impl Fn(u64, u64),
) -> Outcome<Vec<(NodeId, warm::Outcome)>> {
    const LOOK: Duration = Duration::from_millis(20);
    let shared = warm::Progress::default();
    let all: u64 = plan.bytes_of_nodes().iter().map(|(_, bytes)| bytes).sum();
    let outcomes = std::thread::scope(|scope| {
        let work = scope.spawn(|| plan.run(machine, &shared, failures));
        while !work.is_finished() {
            std::thread::sleep(LOOK);
            tell(
                shared.done_bytes.load(Ordering::Relaxed),
                all.saturating_mul(2),
            );
            if signals.check().is_err() {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        work.join()
    });
    signals.check()?;
    let outcomes = outcomes.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    outcomes.map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS) => {
                "a sandbox forbids memory policies: run it outside of the container, or allow set_mempolicy"
            }
            Some(libc::EINVAL) => "the cpuset of this process may not use the node: run it outside of the control group",
            _ => "see `egeria where` for what is cached",
        };
        Failure::new(format!("cannot take memory of the node: {}; {hint}", reason(&error)))
    })
}

fn document_of(
    plan: &Plan,
    outcomes: Vec<(NodeId, warm::Outcome)>,
    failures: Failures,
    took: Duration,
) -> Document {
    let page_bytes = rustix::param::page_size() as u64;
    let nodes = outcomes.into_iter().map(|(node, outcome)| Node {
        node,
        bytes: (outcome.there + outcome.elsewhere + outcome.missing) * page_bytes,
        there_bytes: outcome.there * page_bytes,
        elsewhere_bytes: outcome.elsewhere * page_bytes,
        missing_bytes: outcome.missing * page_bytes,
        read_bytes: outcome.read * page_bytes,
        moved_bytes: outcome.moved * page_bytes,
        mapped_bytes: outcome.mapped * page_bytes,
    });
    let nodes: Vec<Node> = nodes.collect();
    let failures = failures.into_inner().into_iter();
    let failures: Vec<FileFailure> = failures
        .map(|(path, cause)| FileFailure {
            path: path.into(),
            cause,
        })
        .collect();
    let is_there = |node: &Node| node.there_bytes == node.bytes;
    Document {
        files: plan.files(),
        bytes: plan.bytes_of_nodes().iter().map(|(_, bytes)| bytes).sum(),
        seconds: took.as_secs_f64(),
        complete: failures.is_empty() && nodes.iter().all(is_there),
        nodes,
        failures,
    }
}

fn human(document: &Document) -> String {
    let rows = document.nodes.iter().map(|node| {
        let bytes = [
            node.bytes,
            node.there_bytes,
            node.read_bytes,
            node.moved_bytes,
            node.elsewhere_bytes,
            node.missing_bytes,
        ];
        let columns = bytes.into_iter().map(format_bytes);
        std::iter::once(node.node.0.to_string())
            .chain(columns)
            .collect()
    });
    let headers = [
        ">node",
        ">wanted",
        ">there",
        ">read",
        ">moved",
        ">elsewhere",
        ">not cached",
    ];
    let bytes_s = document.bytes as f64 / document.seconds.max(1e-9);
    let mut text = format!(
        "{}\nfiles: {}, {} in {:.1} s ({})",
        output::table(&headers, rows.collect()),
        document.files,
        format_bytes(document.bytes),
        document.seconds,
        format_bandwidth(bytes_s),
    );
    let mapped: u64 = document.nodes.iter().map(|node| node.mapped_bytes).sum();
    if mapped > 0 {
        text += &format!(
            "\n{} was not moved because other processes have it mapped: --mapped moves it",
            format_bytes(mapped)
        );
    }
    let missing: u64 = document.nodes.iter().map(|node| node.missing_bytes).sum();
    if missing > 0 {
        text += "\nwhat is not cached was dropped again: a memory limit (cgroup) or other programs need the memory";
    }
    for failure in &document.failures {
        let path = &failure.path;
        text += &format!("\n{path}: {}", printable(&failure.cause));
    }
    text
}
