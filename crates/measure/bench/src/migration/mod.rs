//! Moving the memory of a process: by Egeria's workers, by one of them, and by one call of `migrate_pages`, in turn.

mod holder;
mod report;

use std::time::{Duration, Instant};

use egeria_harness::Error;
use egeria_machine::{Machine, NodeId, format_bytes};
use egeria_pages::migrate::{self, Order, Target};
use egeria_pages::room;

use crate::experiment::{Watch, over};
use holder::Holder;
pub use report::{MigrationReport, PAPER_RATIO, Row};

type Result<T> = egeria_harness::Result<T>;

/// How it is measured.
pub struct MigrationOptions<'a> {
    /// Bytes to move at once.
    pub bytes: u64,
    /// Rounds to take medians over.
    pub rounds: usize,
    /// Between which nodes; `None`: the first two with memory, those with CPUs first.
    pub nodes: Option<(NodeId, NodeId)>,
    /// Progress and stopping.
    pub watch: Watch<'a>,
}

const MOVERS: [&str; 3] = ["workers", "one worker", "migrate_pages"];

/// What one mover did.
struct Moved {
    took: Duration,
    workers: usize,
    arrived_share: f64,
    whole_share: f64,
}

/// Measures.
///
/// # Errors
/// On a machine with one node, or when the kernel refuses.
pub fn run(options: &MigrationOptions<'_>) -> Result<MigrationReport> {
    let machine = Machine::detect().map_err(Error::failed)?;
    let (from, to) = match options.nodes {
        Some(nodes) => nodes,
        None => two_nodes(&machine)?,
    };
    if from == to {
        return Err(Error::failed("--from and --to are one node; name two"));
    }
    for node in [from, to] {
        check(&machine, node, options.bytes)?;
    }
    let mut rows = Vec::new();
    for (number, is_huge) in [false, true].into_iter().enumerate() {
        rows.push(row(options, &machine, (from, to), (number, is_huge))?);
    }
    Ok(MigrationReport {
        from,
        to,
        rounds: options.rounds,
        is_emulated: has_emulated_cpus(),
        paper_ratio: PAPER_RATIO,
        rows,
    })
}

fn two_nodes(machine: &Machine) -> Result<(NodeId, NodeId)> {
    let mut nodes: Vec<_> = machine.nodes.iter().collect();
    nodes.retain(|node| node.memory_bytes > 0);
    nodes.sort_by_key(|node| node.cpus.is_empty());
    match nodes[..] {
        [from, to, ..] => Ok((from.id, to.id)),
        _ => Err(Error::failed(
            "this machine has one node, so memory cannot go to another; `make guest` measures it in QEMU with several (function, not speed)",
        )),
    }
}

/// Whether a node is there and has room: otherwise memory of other programs would go.
fn check(machine: &Machine, node: NodeId, bytes: u64) -> Result<()> {
    let has_memory = machine.node(node).is_some_and(|node| node.memory_bytes > 0);
    let number = node.0;
    if !has_memory {
        return Err(Error::failed(format!(
            "this machine has no memory at node {number}; see `egeria machine`"
        )));
    }
    match room::of(node) {
        Some(room) if room < bytes => Err(Error::failed(format!(
            "node {number} has room for {}; choose a smaller --size than {}",
            format_bytes(room),
            format_bytes(bytes)
        ))),
        _ => Ok(()),
    }
}

fn row(
    options: &MigrationOptions<'_>,
    machine: &Machine,
    nodes: (NodeId, NodeId),
    (number, is_huge): (usize, bool),
) -> Result<Row> {
    let kind = if is_huge { "huge" } else { "small" };
    let mut done = number * options.rounds * MOVERS.len();
    let mut in_turn = |round| {
        options.watch.in_turn(round, MOVERS.len(), |mover| {
            let what = format!("{kind} pages, {}", MOVERS[mover]);
            let total = 2 * options.rounds * MOVERS.len();
            options.watch.step(done, total, &what)?;
            done += 1;
            measure(options.bytes, is_huge, machine, nodes, mover)
        })
    };
    let rounds: Result<Vec<Vec<Moved>>> = (0..options.rounds).map(&mut in_turn).collect();
    let rounds = rounds?;
    let bytes_s = |moved: &Moved| options.bytes as f64 / moved.took.as_secs_f64().max(1e-9);
    let [ours, one, call] = [0, 1, 2].map(|mover| over(&rounds, |round| bytes_s(&round[mover])));
    let least = |share: fn(&Moved) -> f64| {
        let shares = rounds.iter().map(|round| share(&round[0]));
        shares.fold(1.0, f64::min)
    };
    Ok(Row {
        pages: kind,
        bytes: options.bytes,
        workers: rounds.last().map_or(0, |round| round[0].workers),
        workers_bytes_s: ours,
        one_worker_bytes_s: one,
        system_call_bytes_s: call,
        ratio: ours / call.max(1e-9),
        arrived_share: least(|moved| moved.arrived_share),
        whole_share: is_huge.then(|| least(|moved| moved.whole_share)),
    })
}

/// One process, moved once. All that a mover needs counts: also finding what there is.
fn measure(
    bytes: u64,
    is_huge: bool,
    machine: &Machine,
    (from, to): (NodeId, NodeId),
    mover: usize,
) -> Result<Moved> {
    const HINT: &str = "choose a smaller --size; see `egeria machine` for the memory of nodes";
    let holder = Holder::start(bytes as usize, is_huge, from).map_err(|error| {
        Error::io(
            format!("cannot take memory of node {}", from.0),
            error,
            HINT,
        )
    })?;
    let failed = |error| {
        Error::io(
            "cannot move memory",
            error,
            "run as root, or see `egeria doctor`",
        )
    };
    let begin = Instant::now();
    if MOVERS[mover] == "migrate_pages" {
        migrate::by_system_call(holder.process_id, from, to).map_err(failed)?;
        return Ok(Moved {
            took: begin.elapsed(),
            workers: 1,
            arrived_share: 1.0,
            whole_share: 1.0,
        });
    }
    let target = Target::Follow(vec![(from, to)]);
    let order = Order {
        workers: (MOVERS[mover] == "one worker").then_some(1),
        ..Order::of(holder.process_id, holder.start_ticks, target)
    };
    let done = migrate::run(&order, machine, &migrate::Progress::default()).map_err(failed)?;
    Ok(Moved {
        took: begin.elapsed(),
        workers: done.workers,
        arrived_share: (done.outcome.moved as f64 / bytes as f64).min(1.0),
        whole_share: (done.outcome.huge as f64 / bytes as f64).min(1.0),
    })
}

/// Whether QEMU runs every instruction of this machine by itself.
fn has_emulated_cpus() -> bool {
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines = facts.lines();
    lines.any(|line| line.starts_with("model name") && line.contains("QEMU TCG"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_harness::testing::has_numa_maps;

    #[test]
    fn a_holder_has_its_memory_and_ends_with_its_owner() {
        if !has_numa_maps() {
            return;
        }
        let holder = Holder::start(16 << 20, false, NodeId(0)).unwrap();
        let memory = egeria_pages::process::memory(holder.process_id).unwrap();
        assert!(memory.anonymous.of(NodeId(0)) >= 16 << 20, "{memory:?}");
        let areas = egeria_pages::areas::of(holder.process_id).unwrap();
        assert!(areas.iter().all(|area| area.bound_to.is_none()));
        let path = format!("/proc/{}", holder.process_id);
        drop(holder);
        assert!(!std::path::Path::new(&path).exists());
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        let refused = Holder::start(1 << 60, false, NodeId(0));
        assert_eq!(
            refused.err().and_then(|error| error.raw_os_error()),
            Some(libc::ENOMEM)
        );
    }

    #[test]
    fn nodes_with_cpus_are_measured_first() {
        let mut machine = Machine::profile("optane-2s").unwrap();
        assert_eq!(two_nodes(&machine).unwrap(), (NodeId(0), NodeId(1)));
        machine.nodes[0].memory_bytes = 0;
        let refused = two_nodes(&machine).unwrap_err().to_string();
        assert!(refused.contains("make guest"), "{refused}");
    }
}
