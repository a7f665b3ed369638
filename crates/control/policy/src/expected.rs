//! What an action should bring, measured by the subject of its reason.
//!
//! ```text
//!   a thread to its data              local share of its bytes            what it reads there and all it writes
//!   a thread away from contention     bytes/s of all, or its own          what becomes free, or a CPU for itself
//! a process over wider links        bandwidth of its remote paths       the same accesses where threads and memory
//!   will be memory behind its threads         share of accesses near threads      all of them a limit, delegation in
//!   a crowd    bytes/s of the medium               its curve with fewer threads, as planned a limit with DRAM in use
//!   bytes/s of DRAM                     the loss that PATS's Eq. 1 tolerates at either number delegation of remote
//!   accesses     bytes/s of all                      remote bytes at the speed of local ones a file to its readers
//!   local share of its reads            the same reads with the data there a file away from contention       bytes/s
//!   read of it                  times the stretch of a read before and after
//! ```
//!
//! Some actions have no expectation: those that end something (a limit lifted, delegation off, a copy dropped, memory
//! that has followed); limits that are learned, because the learner measures each by itself; threads that go back
//! because they got less, because the planner measures these; and what a setting alone orders.

use egeria_facts::{AccessWindow, Facts, FileFacts, ProcessAccesses, ProcessKey, ThreadFacts};
use egeria_machine::{Machine, NodeId};

use crate::asymsched::{self, MemoryAction, MemoryStep};
use crate::mba::MbaPlan;
use crate::media::{dram_in_use, gives_bytes_s};
use crate::pats::{self, Because};
use crate::planner::{
    Decision, DelegatedBecause, DelegationPlan, Limit, Relocate, RelocationReason, RelocationStep,
    Settings,
};
use crate::{Action, Expectation, Measure, Move, Reason, measures};

/// Nothing is waited for longer, windows.
const MAX_WINDOWS: u32 = 600;
/// A copy may take longer than it should by this factor before it is judged.
const COPY_PATIENCE: f64 = 2.0;
/// A loss of DRAM throughput is not predicted above this share: Eq. 1 was fitted below it.
const MAX_LOSS: f64 = 0.5;

/// What an expectation follows from.
#[derive(Clone, Copy)]
pub struct Basis<'a> {
    pub machine: &'a Machine,
    /// The facts that were decided on.
    pub facts: &'a Facts,
    pub decision: &'a Decision,
    /// The one before, under which the facts came about.
    pub previous: &'a Decision,
    /// How the planner is set.
    pub settings: &'a Settings,
}

impl Expectation {
    /// What is expected of an action; `None` where nothing can be said.
    pub fn of(action: &Action, basis: &Basis<'_>) -> Option<Expectation> {
        match action {
            Action::MigrateThread(step) => of_thread(step, basis),
            Action::MigrateProcess { step, .. } => of_process(step.process, basis),
            Action::MigrateMemory(step) => of_memory(step, basis),
            Action::SetLimit(limit) => of_limit(limit, basis),
            Action::LiftLimit { .. } => None,
            Action::SetDelegation { plan } => of_delegation(plan, basis),
            Action::SetMba { plan } => of_mba(plan, basis),
            Action::Relocate(step) => of_relocation(step, basis),
        }
    }
}

fn of_thread(step: &Move, basis: &Basis<'_>) -> Option<Expectation> {
    let (machine, window) = (basis.machine, &basis.facts.window);
    let thread = window.thread(step.thread)?;
    let bytes_s = window.rate_bytes_s(thread.moved_total());
    let next = |measure, before, expected| Some(Expectation::next(measure, before, expected));
    match &step.reason {
        Reason::RemoteReads { .. } | Reason::ContentionOver { .. } => {
            let expected = local_share_on(thread, machine.index_of(step.to)?)?;
            next(Measure::LocalShare, thread.local_share(machine)?, expected)
        }
        // Threads that stay use the bandwidth that becomes free; threads that leave keep their rate elsewhere.
        Reason::PmContention { .. } => {
            let before = total_bytes_s(basis.facts);
            next(Measure::TotalBytesPerSecond, before, before + bytes_s)
        }
        // Threads of a node with too few CPUs take turns; elsewhere this one has a CPU for itself.
        Reason::CpuContention { contended, .. } => {
            let plan = &basis.decision.threads;
            let loads = plan.measured.iter().chain(&plan.local);
            let here = loads.filter(|load| load.node == *contended);
            let crowding = here.map(|load| load.cpu_share).fold(1.0, f64::max);
            next(Measure::ThreadBytesPerSecond, bytes_s, bytes_s * crowding)
        }
        // The planner judges it by itself.
        Reason::BroughtLess { .. }
        | Reason::Compared { .. }
        | Reason::Own { .. }
        | Reason::Together { .. } => None,
    }
}

/// What a thread reads from a node and all it writes, of all its bytes.
fn local_share_on(thread: &ThreadFacts, node: usize) -> Option<f64> {
    let read = *thread.read_bytes.get(node)? as f64;
    Some((read + thread.written_total() as f64) / thread.moved_total() as f64)
}

/// Bytes/s that all threads read and write.
pub(crate) fn total_bytes_s(facts: &Facts) -> f64 {
    let window = &facts.window;
    window.rate_bytes_s(window.read_total().saturating_add(window.written_total()))
}

/// All of a process's moves are one placement, which is judged when its memory has had the time to follow.
fn of_process(process: ProcessKey, basis: &Basis<'_>) -> Option<Expectation> {
    let machine = basis.machine;
    let accesses = measures::process(basis.facts, process)?;
    if basis.decision.placement.is_of_together() {
        return together(process, accesses, basis);
    }
    let paths = machine.paths().ok()??;
    let width = |place: &dyn Fn(usize) -> usize| {
        measures::path_bandwidth_bytes_s(machine, accesses, &paths, place)
    };
    let moves = moves_of(process, basis);
    let follow_windows = windows_in(basis.settings.asymsched.full_after_ms as f64 * 1e6, basis);
    Some(Expectation {
        windows: follow_windows.saturating_add(2),
        ..Expectation::next(
            Measure::PathBandwidth,
            width(&|node| node)?,
            width(&|node| after(&moves, node))?,
        )
    })
}

/// Threads go to their memory. If memory of the process moves as well, that is judged instead; threads that come back
/// are part of a placement that was judged, or is.
fn together(
    process: ProcessKey,
    accesses: &ProcessAccesses,
    basis: &Basis<'_>,
) -> Option<Expectation> {
    let placement = &basis.decision.placement;
    let mut memory = placement.memory.iter();
    if placement.decision == asymsched::Decision::ThreadsBack
        || memory.any(|step| step.process == process)
    {
        return None;
    }
    let alone = AccessWindow {
        processes: vec![accesses.clone()],
        ..AccessWindow::default()
    };
    // Also with those of its threads that move one by one.
    let after = basis.decision.placement.obeyed(basis.machine, &alone);
    let share = |accesses| measures::local_share(basis.machine, accesses, |node| node);
    let (before, expected) = (share(accesses)?, share(after.processes.first()?)?);
    Some(Expectation::next(Measure::LocalAccesses, before, expected))
}

fn of_memory(step: &MemoryStep, basis: &Basis<'_>) -> Option<Expectation> {
    let takes_ns = match step.action {
        // What tiers bring is not local accesses.
        MemoryAction::Gather { tier: Some(_), .. } => return None,
        MemoryAction::Dynamic => basis.settings.asymsched.full_after_ms as f64 * 1e6,
        MemoryAction::Full { cost_ns, .. } => cost_ns as f64,
        MemoryAction::Gather {
            remote_share,
            remote_then,
            cost_ns,
            wait_ns,
            ..
        } => {
            let takes_ns = cost_ns.saturating_add(wait_ns) as f64;
            return Some(Expectation {
                windows: windows_in(takes_ns * COPY_PATIENCE, basis).max(1),
                ..Expectation::next(
                    Measure::LocalAccesses,
                    1.0 - remote_share,
                    1.0 - remote_then,
                )
            });
        }
        MemoryAction::Short { .. } | MemoryAction::Settled { .. } => return None,
    };
    let accesses = measures::process(basis.facts, step.process)?;
    let moves = moves_of(step.process, basis);
    let nodes = measures::nodes_with_threads(basis.machine, accesses);
    let nodes: Vec<usize> = nodes.iter().map(|node| after(&moves, *node)).collect();
    let before = measures::share_to(basis.machine, accesses, |node| nodes.contains(&node))?;
    Some(Expectation {
        windows: windows_in(takes_ns, basis).max(1),
        ..Expectation::next(Measure::NearThreadsShare, before, 1.0)
    })
}

/// From which position to which the threads of a process go.
fn moves_of(process: ProcessKey, basis: &Basis<'_>) -> Vec<(usize, usize)> {
    let steps = basis.decision.placement.moves.iter();
    let own = steps.filter(|step| step.process == process);
    let position = |node: NodeId| basis.machine.index_of(node);
    own.filter_map(|step| position(step.from).zip(position(step.to)))
        .collect()
}

fn after(moves: &[(usize, usize)], node: usize) -> usize {
    let step = moves.iter().find(|(from, _)| *from == node);
    step.map_or(node, |(_, to)| *to)
}

fn of_limit(limit: &Limit, basis: &Basis<'_>) -> Option<Expectation> {
    // Others are trials: the learner compares them itself.
    let mix = match &limit.decision.because {
        Because::Formula { mix } => Some(mix),
        Because::Curve { .. } => None,
        _ => return None,
    };
    let facts = measures::medium(basis.facts, limit.node)?;
    let index = basis.machine.index_of(limit.node)?;
    let before = basis.previous.limits.iter();
    let before = before.filter(|before| before.node == limit.node);
    let admitted = before.map(|before| before.threads).next();
    let demand = facts.measured.demand;
    let from = admitted.map_or(demand, |admitted| admitted.min(demand));
    let to = limit.threads.min(demand);
    if let Some((dram_bytes_s, mix)) = dram_in_use(&facts.measured).zip(mix) {
        let own = basis.settings.pats.on_node(basis.machine, index);
        let kept = |threads| 1.0 - pats::loss_at(threads, own.dimms, mix).min(MAX_LOSS);
        let expected = dram_bytes_s * kept(to) / kept(from);
        return Some(Expectation::next(
            Measure::DramBytesPerSecond,
            dram_bytes_s,
            expected,
        ));
    }
    of_crowd(basis, limit.node, (from, to))
}

/// What a medium gives to fewer threads, by its curves.
fn of_crowd(basis: &Basis<'_>, node: NodeId, (from, to): (u32, u32)) -> Option<Expectation> {
    let facts = measures::medium(basis.facts, node)?;
    let medium = basis.machine.file_medium(basis.machine.index_of(node)?)?;
    let write_share = facts.measured.mix.write_share.clamp(0.0, 1.0);
    let gives = |threads| gives_bytes_s(&medium, write_share, threads);
    let before = facts.measured.pm_bytes_s;
    let expected = before * gives(to)? / gives(from)?;
    Some(Expectation::next(
        Measure::PmBytesPerSecond,
        before,
        expected,
    ))
}

fn of_delegation(plan: &DelegationPlan, basis: &Basis<'_>) -> Option<Expectation> {
    let DelegationPlan::On { because, .. } = plan else {
        return None;
    };
    match *because {
        DelegatedBecause::Crowded {
            node,
            demand,
            bears,
        } => of_crowd(basis, node, (demand, bears)),
        DelegatedBecause::Remote { remote_share, .. } => {
            let before = total_bytes_s(basis.facts);
            let media = basis.facts.media.iter();
            let indices = media.filter_map(|medium| basis.machine.index_of(medium.node));
            let is_persistent = |index: &usize| {
                let node = &basis.machine.nodes[*index];
                basis.machine.has_bounded_medium(node)
            };
            let indices = indices.filter(is_persistent);
            let slower = indices.filter_map(|index| slowness_of_remote_reads(basis, index));
            // The cautious one, where media differ.
            let slower = slower.min_by(f64::total_cmp)?;
            let expected = before * (1.0 - remote_share + remote_share * slower);
            Some(Expectation::next(
                Measure::TotalBytesPerSecond,
                before,
                expected,
            ))
        }
        DelegatedBecause::Always
        | DelegatedBecause::Long { .. }
        | DelegatedBecause::Rests { .. } => None,
    }
}

/// Bounds that begin; what changes later is not judged by itself.
fn of_mba(plan: &MbaPlan, basis: &Basis<'_>) -> Option<Expectation> {
    let MbaPlan::On { because, .. } = plan else {
        return None;
    };
    let begins = matches!(basis.previous.mba, MbaPlan::Off { .. });
    begins.then(|| {
        Expectation::next(
            Measure::MemoryBytesPerSecond,
            because.traffic_bytes_s,
            because.expected_bytes_s,
        )
    })
}

/// Times as long as a local read a read from another node takes.
fn slowness_of_remote_reads(basis: &Basis<'_>, index: usize) -> Option<f64> {
    let read = basis.machine.file_medium(index)?.read;
    let far_bytes_s = read.bytes_s * read.remote_bandwidth_factor;
    let stream_bytes_s = read.stream_bytes_s.min(read.bytes_s);
    let slower = read.remote_latency_factor.max(stream_bytes_s / far_bytes_s);
    slower.is_finite().then_some(slower.max(1.0))
}

fn of_relocation(step: &RelocationStep, basis: &Basis<'_>) -> Option<Expectation> {
    let file = measures::file(basis.facts, step.file)?;
    let (measure, before, expected) = match (step.action, step.why) {
        (Relocate::Drop { .. }, _) => return None,
        (
            _,
            RelocationReason::ReadContention {
                stretch,
                stretch_after,
                ..
            },
        ) => {
            let read = measures::read_of(file) / basis.facts.window.seconds();
            let faster = stretch / stretch_after;
            (Measure::FileReadBytesPerSecond, read, read * faster)
        }
        (
            Relocate::Move { from, to },
            RelocationReason::MakesRoom { .. } | RelocationReason::BroughtLess { .. },
        ) => {
            let (from, to) = (basis.machine.index_of(from)?, basis.machine.index_of(to)?);
            let arrives = step.bytes.min(file.on(from)) as f64 / file.bytes as f64;
            let before = measures::share_on_node(file, to)?;
            (Measure::FileShareOnNode, before, before + arrives)
        }
        (Relocate::Move { from, to }, _) => {
            let (from, to) = (basis.machine.index_of(from)?, basis.machine.index_of(to)?);
            let part = step.bytes.min(file.on(from)) as f64 / file.on(from) as f64;
            let gained = file.read(to, from) as f64 - file.read(from, from) as f64;
            let before = measures::local_share_of_file(file)?;
            let expected = before + part * gained / measures::read_of(file);
            (Measure::FileLocalShare, before, expected)
        }
        (Relocate::Replicate { to, .. }, _) => {
            let before = measures::local_share_of_file(file)?;
            let expected = before + read_elsewhere(file, basis.machine.index_of(to)?);
            (Measure::FileLocalShare, before, expected)
        }
    };
    let is_sound = before.is_finite() && expected.is_finite();
    let takes_ns = step.bytes as f64 / step.bytes_s * 1e9 * COPY_PATIENCE;
    is_sound.then(|| Expectation {
        windows: windows_in(takes_ns, basis).saturating_add(1),
        ..Expectation::next(measure, before, expected)
    })
}

/// Share of a file's reads that threads on a node make from others.
fn read_elsewhere(file: &FileFacts, reader: usize) -> f64 {
    let all = measures::read_of(file);
    let row = file.read_bytes.get(reader).into_iter().flatten();
    let elsewhere = row.map(|bytes| *bytes as f64).sum::<f64>() - file.read(reader, reader) as f64;
    elsewhere / all
}

/// Windows that so much time takes, at most [`MAX_WINDOWS`].
fn windows_in(ns: f64, basis: &Basis<'_>) -> u32 {
    let windows = (ns / basis.facts.window.duration_ns.max(1) as f64).ceil();
    // A cast takes what is no number for 0.
    (windows.min(f64::from(MAX_WINDOWS))) as u32
}
