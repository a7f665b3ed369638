//! Contention for CPUs: threads leave (NThread §III-C2).

use super::loads::Loads;
use super::pm;
use super::settings::Settings;
use super::whatif::WhatIf;
use crate::{Contention, KeptBecause, Reason};

/// Sums of shares are not exact; what is this close is equal.
const CLOSE: f64 = 1e-9;

/// With a shortage below this, no thread waits: times of a window are not exact, and other processes (a shell, a
/// logger) take a little of a core.
const SHORT_CORES: f64 = 0.5;

/// The contended node: more than `cpu_limit` of its CPUs are busy, and at least `cpu_ratio`
/// times as much as on every other node that has CPUs.
///
/// Ours: and threads wait for each other. Four threads on four cores keep them busy and need not
/// move: with as many cores as threads NThread §V-C finds little contention.
pub(super) fn contended(loads: &Loads<'_>, settings: &Settings) -> Option<usize> {
    let is_contended = |&node: &usize| {
        let share = loads.cpu_share(node);
        let mut others = loads.cpu_nodes().filter(|&other| other != node).peekable();
        share > settings.cpu_limit
            && loads.spare_cores(node) < -SHORT_CORES
            && others.peek().is_some()
            && others.all(|other| share >= loads.cpu_share(other) * settings.cpu_ratio)
    };
    loads.cpu_nodes().find(is_contended)
}

/// Takes threads off a contended node as long as that narrows the gap to where they go.
pub(super) fn relieve(what_if: &mut WhatIf<'_>, contended: usize) {
    let cpu_share = what_if.loads.cpu_share(contended);
    for index in candidates(what_if, contended) {
        let present = what_if.threads[index].present;
        if present != contended && narrows(what_if, index, present) {
            what_if.leave_away(index, Contention::Cpu);
        } else if let Some((node, path_bandwidth_bytes_s)) = destination(what_if, index) {
            let reason = reason(what_if, index, (node, path_bandwidth_bytes_s), cpu_share);
            what_if.send_away(index, node, reason);
        } else if present == contended && !has_room_somewhere(what_if, index) {
            let contention = Contention::Cpu;
            what_if.threads[index].kept = Some(KeptBecause::NoRoom { contention });
        }
    }
}

/// The threads on the node that may leave: first those that are elsewhere now, for they need not
/// move; then those without an initial target, then those that read least from here, then by
/// thread.
fn candidates(what_if: &mut WhatIf<'_>, contended: usize) -> Vec<usize> {
    let may_go = |index: &usize| {
        let thread = &what_if.threads[*index];
        thread.at == contended && thread.has_io && !thread.facts.pinned
    };
    let there: Vec<usize> = (0..what_if.threads.len()).filter(may_go).collect();
    let mut candidates: Vec<usize> = there
        .into_iter()
        .filter(|&index| !what_if.stays_with_sharers(index, Contention::Cpu))
        .collect();
    candidates.sort_by_key(|&index| {
        let thread = &what_if.threads[index];
        let is_here = thread.present == contended;
        (is_here, thread.lead.is_some(), thread.read_from(contended))
    });
    candidates
}

/// Whether the thread on another node would bring that and its own closer together.
fn narrows(what_if: &WhatIf<'_>, index: usize, node: usize) -> bool {
    let (thread, loads) = (&what_if.threads[index], &what_if.loads);
    let source_share = loads.cpu_share(thread.at) - loads.thread_share(thread, thread.at);
    let target_share = loads.cpu_share(node) + loads.thread_share(thread, node);
    let gap = loads.cpu_share(thread.at) - loads.cpu_share(node);
    (source_share - target_share).abs() < gap - CLOSE
}

/// `CPU_i + CPU_N <= cpu_limit` (NThread Eq. 5). Ours: and what the thread writes would not bring
/// the node near contention for persistent memory, for that would send it away again.
fn has_room(what_if: &WhatIf<'_>, index: usize, node: usize) -> bool {
    let (thread, loads) = (&what_if.threads[index], &what_if.loads);
    let share = loads.thread_share(thread, node) + loads.cpu_share(node);
    let settings = what_if.settings;
    let is_crowded = settings.stages.pm
        && thread.written > 0
        && pm::is_crowded_with(loads, settings, thread, node);
    share <= settings.cpu_limit + CLOSE && !is_crowded
}

fn has_room_somewhere(what_if: &WhatIf<'_>, index: usize) -> bool {
    let mut nodes = what_if.loads.cpu_nodes();
    nodes.any(|node| what_if.may_leave_for(index, node) && has_room(what_if, index, node))
}

/// Where a thread may go: Eq. 5, and the gap narrows; where ways count that to which the way from its data is
/// widest, then the least loaded, then the nearest to the node it leaves, then the first.
fn destination(what_if: &WhatIf<'_>, index: usize) -> Option<(usize, Option<f64>)> {
    let loads = &what_if.loads;
    let may_take = |&node: &usize| {
        has_room(what_if, index, node)
            && narrows(what_if, index, node)
            && what_if.may_leave_for(index, node)
    };
    let nodes = loads.cpu_nodes().filter(may_take);
    what_if.best_of(index, nodes, |node| loads.cpu_share(node))
}

fn reason(
    what_if: &WhatIf<'_>,
    index: usize,
    (node, path_bandwidth_bytes_s): (usize, Option<f64>),
    cpu_share: f64,
) -> Reason {
    let (thread, loads) = (&what_if.threads[index], &what_if.loads);
    Reason::CpuContention {
        contended: loads.id(thread.at),
        cpu_share,
        thread_share: loads.thread_share(thread, node),
        target_share: loads.cpu_share(node),
        limit: what_if.settings.cpu_limit,
        path_bandwidth_bytes_s,
    }
}
