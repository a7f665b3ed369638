//! What is wrong with the placement of programs (ours).
//!
//! There are no rules here: a fault is named after what the planner would do about a window, or after why it does
//! nothing. Where a program is bound, or a node has no room, the planner decides a second time as if that were not so.
//! The difference is what the binding, or the lack of room, costs.

mod verdict;

use std::collections::BTreeMap;

use egeria_facts::{CpuSet, Facts, ProcessAccesses, ProcessKey};
use egeria_machine::Machine;
use serde::{Deserialize, Serialize};

use crate::control::{ControlLoop, Turn};
use crate::planner::{Make, Settings};
use crate::together::LOCAL;
use crate::{Action, ActionKind, ActionRecord, Kept, KeptProcess, ProcessKept, measures};
pub use verdict::Verdict;

/// What a look decides on.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    pub machine: &'a Machine,
    /// The policy, and its settings.
    pub make: Make,
    pub settings: &'a Settings,
    /// What actuators of a steward could do here.
    pub kinds: &'a [ActionKind],
    pub facts: &'a Facts,
}

/// One program.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    pub process: ProcessKey,
    pub verdict: Verdict,
    /// By what part it would be faster without the fault, as the planner estimates; `None` where it estimates nothing.
    pub gain: Option<f64>,
    /// Part of its accesses to memory that cross nodes; `None` where none were seen.
    pub remote_share: Option<f64>,
    /// Part of what it reads and writes of files that is on other nodes; `None` where nothing was counted.
    pub files_remote_share: Option<f64>,
    /// What the planner would do with its threads, its memory and the files that it uses.
    pub would_do: Vec<ActionRecord>,
    /// The same if its owner had not bound it, or the node had room: of the verdicts `bound`, `no_room` and `outgrown`.
    pub if_it_could: Vec<ActionRecord>,
    /// Why the planner leaves it as it is.
    pub kept: Option<KeptProcess>,
    /// Its first thread that stays away from the files that it reads.
    pub kept_thread: Option<Kept>,
}

/// The programs of a window, by process.
pub fn diagnose(look: &Look<'_>) -> Vec<Finding> {
    let turn = decide(look, look.facts);
    let processes = processes(look.facts);
    let findings = processes.iter().map(|process| {
        let mut finding = Finding::of(look, &turn, *process);
        let what_if = match finding.verdict {
            Verdict::Bound => Some(unbound(look, *process)),
            Verdict::NoRoom | Verdict::Outgrown if finding.would_do.is_empty() => {
                Some(with_room(look.facts))
            }
            _ => None,
        };
        if let Some(facts) = what_if {
            let turn = decide(look, &facts);
            finding.if_it_could = actions_of(&facts, &turn, *process);
            finding.gain = gain_of_memory(&turn, *process);
        }
        finding
    });
    findings.collect()
}

/// The decision of a planner that has seen no window before. Nothing carries it out.
fn decide(look: &Look<'_>, facts: &Facts) -> Turn {
    let settings = look.settings.clone();
    ControlLoop::new(look.machine, look.make, settings, look.kinds).turn(facts, &mut [])
}

impl Finding {
    fn of(look: &Look<'_>, turn: &Turn, process: ProcessKey) -> Finding {
        let placement = &turn.decision.placement;
        let accesses = measures::process(look.facts, process);
        let local = accesses
            .and_then(|accesses| measures::local_share(look.machine, accesses, |node| node));
        let kept = placement.kept.iter().find(|kept| kept.process == process);
        let mut finding = Finding {
            process,
            verdict: Verdict::Quiet,
            gain: gain_of_memory(turn, process),
            remote_share: local.map(|local| 1.0 - local),
            files_remote_share: files_remote_share(look, process),
            would_do: actions_of(look.facts, turn, process),
            if_it_could: Vec::new(),
            kept: kept.cloned(),
            kept_thread: kept_thread(turn, process),
        };
        let plain = finding.plain();
        let is_outgrown = accesses.is_some_and(|accesses| is_outgrown(look.machine, accesses));
        finding.verdict = if is_outgrown && plain.is_of_memory() {
            Verdict::Outgrown
        } else {
            plain
        };
        if let Some(ProcessKept::CheaperToStay { gain, .. }) =
            finding.kept.as_ref().map(|kept| &kept.because)
        {
            finding.gain = Some(*gain);
        }
        let of_files = || gain_of_files(look.facts, process, &finding.would_do);
        finding.gain = finding.gain.or_else(of_files);
        finding
    }

    /// The verdict by what the planner would do, or else by why it does nothing.
    fn plain(&self) -> Verdict {
        let of_actions = self
            .would_do
            .iter()
            .filter_map(|record| Verdict::of_action(&record.action));
        if let Some(verdict) = of_actions.min() {
            return verdict;
        }
        if let Some(kept) = &self.kept {
            return Verdict::of_kept(&kept.because);
        }
        if let Some(kept) = &self.kept_thread {
            return Verdict::of_thread(&kept.because);
        }
        let mut shares = [self.remote_share, self.files_remote_share]
            .into_iter()
            .flatten()
            .peekable();
        let is_seen = shares.peek().is_some();
        if is_seen && shares.all(|remote| remote <= LOCAL) {
            Verdict::Local
        } else {
            Verdict::Quiet
        }
    }
}

/// Processes with threads or accesses in the window, each once.
fn processes(facts: &Facts) -> Vec<ProcessKey> {
    let firsts = facts.window.threads.iter().map(|thread| thread.key);
    let firsts = firsts.filter(|key| key.process_id == key.thread_id);
    let firsts = firsts.map(|key| ProcessKey {
        process_id: key.process_id,
        start_ticks: key.start_ticks,
    });
    let mut by_id: BTreeMap<u32, ProcessKey> = firsts
        .map(|process| (process.process_id, process))
        .collect();
    for accesses in &facts.accesses.processes {
        by_id.insert(accesses.process.process_id, accesses.process);
    }
    by_id.into_values().collect()
}

/// Part of what the threads of a process read and write of files that is on other nodes.
fn files_remote_share(look: &Look<'_>, process: ProcessKey) -> Option<f64> {
    let threads = look.facts.window.threads.iter();
    let own = threads.filter(|thread| thread.key.process_id == process.process_id);
    let (mut remote, mut all) = (0.0, 0.0);
    for thread in own {
        let moved = thread.moved_total() as f64;
        let local = thread.local_share(look.machine).unwrap_or(0.0);
        remote += moved * (1.0 - local);
        all += moved;
    }
    (all > 0.0).then(|| remote / all)
}

/// By what part a process becomes faster with its threads and its memory as the planner says.
fn gain_of_memory(turn: &Turn, process: ProcessKey) -> Option<f64> {
    let mut gains = turn.decision.placement.gains.iter();
    let gain = gains.find(|(other, _)| *other == process);
    gain.map(|(_, gain)| *gain)
}

/// By what part a process becomes faster if its files go where the planner says: what its threads need not wait, by
/// their part of the reads, out of the time that they run.
fn gain_of_files(facts: &Facts, process: ProcessKey, records: &[ActionRecord]) -> Option<f64> {
    /// Threads are never taken to wait for more than this part of their time.
    const MAX_WAIT: f64 = 0.9;
    let threads = facts.window.threads.iter();
    let own = threads.filter(|thread| thread.key.process_id == process.process_id);
    let busy_ns: f64 = own.clone().map(|thread| thread.busy_ns as f64).sum();
    let busy = busy_ns / facts.window.duration_ns.max(1) as f64;
    let mut saved = 0.0;
    for record in records {
        let Action::Relocate(step) = &record.action else {
            continue;
        };
        let of_file = own.clone().flat_map(|thread| &thread.files);
        let of_file = of_file.filter(|used| used.file == step.file);
        let read: f64 = of_file.map(|used| used.read_bytes as f64).sum();
        let all = measures::read_of(measures::file(facts, step.file)?);
        saved += step.gain_threads * (read / all.max(1.0)).min(1.0);
    }
    let saved = saved.min(busy * MAX_WAIT);
    (saved > 0.0).then(|| saved / (busy - saved))
}

/// What the planner orders for a process, its threads, its memory, and the files that its threads use.
fn actions_of(facts: &Facts, turn: &Turn, process: ProcessKey) -> Vec<ActionRecord> {
    let id = process.process_id;
    let own = |action: &Action| match action {
        Action::MigrateThread(step) => step.thread.process_id == id,
        Action::MigrateProcess { step, .. } => step.process == process,
        Action::MigrateMemory(step) => step.process == process,
        Action::Relocate(step) => {
            let mut threads = facts.window.threads.iter();
            threads.any(|thread| {
                let mut files = thread.files.iter();
                thread.key.process_id == id && files.any(|used| used.file == step.file)
            })
        }
        Action::SetLimit(_)
        | Action::LiftLimit { .. }
        | Action::SetDelegation { .. }
        | Action::SetMba { .. } => false,
    };
    let records = turn.actions.iter();
    records
        .filter(|record| own(&record.action))
        .cloned()
        .collect()
}

/// The first thread of a process that stays on another node than that of the files that it reads.
fn kept_thread(turn: &Turn, process: ProcessKey) -> Option<Kept> {
    let mut kept = turn.decision.threads.kept.iter();
    let away = |kept: &&Kept| {
        let is_own = kept.thread.process_id == process.process_id;
        is_own && kept.wanted.is_some_and(|wanted| wanted != kept.node)
    };
    kept.find(away).cloned()
}

/// Whether the memory of a process is more than any node has.
fn is_outgrown(machine: &Machine, accesses: &ProcessAccesses) -> bool {
    let resident = accesses.nodes.iter().map(|each| each.resident_bytes);
    let resident = resident.fold(0, u64::saturating_add);
    let largest = machine.nodes.iter().map(|node| node.memory_bytes).max();
    largest.is_some_and(|largest| largest > 0 && resident > largest)
}

/// The facts as they would be if the owner of a process had not bound its threads.
fn unbound(look: &Look<'_>, process: ProcessKey) -> Facts {
    let mut facts = look.facts.clone();
    let all: CpuSet = (look.machine.nodes.iter())
        .flat_map(|node| node.cpus.iter().copied())
        .collect();
    for thread in &mut facts.window.threads {
        if thread.key.process_id == process.process_id {
            (thread.pinned, thread.allowed_cpus) = (false, all.clone());
        }
    }
    for accesses in &mut facts.accesses.processes {
        if accesses.process == process {
            accesses
                .nodes
                .iter_mut()
                .for_each(|each| each.pinned = false);
        }
    }
    facts
}

/// The facts as they would be if every node had room: it is not known how much.
fn with_room(facts: &Facts) -> Facts {
    let mut facts = facts.clone();
    facts.accesses.free_bytes.clear();
    facts
}
