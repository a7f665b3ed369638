//! Programs of a recording: each window is looked at by itself, as `diagnose` looks at this machine, and then counts what
//! most windows say.

use std::collections::BTreeMap;
use std::path::Path;

use egeria_cli::failure::{Failure, Outcome};
use egeria_facts::{Facts, ProcessAccesses, ProcessKey, ThreadFacts, ThreadKey};
use egeria_machine::Machine;
use egeria_policy::ActionKind;
use egeria_policy::diagnosis::{Finding, Look, Verdict, diagnose};
use egeria_policy::planner::System;
use egeria_stats::statistics::median;

use super::super::programs::{ProgramRow, heaviest};
use super::document::{Document, InWindows, Program};
use super::program::{Surroundings, program, shown};
use super::subject::Subject;
use crate::commands::control::recording;
use crate::commands::one_node;

/// What a steward of processes can do, on a machine that lets it.
const KINDS: [ActionKind; 4] = [
    ActionKind::ThreadMigration,
    ActionKind::ProcessMigration,
    ActionKind::MemoryMigration,
    ActionKind::Relocation,
];

/// What is wrong with the programs of a recording, or with one of them.
///
/// # Errors
/// When it cannot be read, or has no such process.
pub(in super::super) fn document(path: &Path, named: Option<u32>) -> Outcome<Document> {
    let mut reader = recording::open(path)?;
    let machine = reader.machine().clone();
    if let Some(line) = one_node::line(&machine) {
        return Ok(Document {
            nothing_because: Some(line.to_owned()),
            ..Document::of(&machine)
        });
    }
    let mut all = All::default();
    for facts in recording::facts(&mut reader) {
        all.add(&machine, &facts?);
    }
    let mut document = all.document(&machine, named);
    document.unseen.extend(reader.warning());
    match named {
        Some(process) if document.programs.is_empty() => Err(Failure::new(format!(
            "process {process} did nothing in this recording; leave it out to see the heaviest programs"
        ))),
        _ => Ok(document),
    }
}

/// All windows together.
#[derive(Default)]
pub(in crate::commands) struct All {
    windows: u64,
    duration_ns: u64,
    /// Threads with what they did in all windows, where they were in the last.
    threads: BTreeMap<ThreadKey, ThreadFacts>,
    /// The last accesses of each process.
    accesses: BTreeMap<ProcessKey, ProcessAccesses>,
    found: BTreeMap<ProcessKey, Found>,
    last: Option<Facts>,
}

/// What was found of a process, window after window.
#[derive(Default)]
struct Found {
    /// How often, the gains, and the last finding.
    by_verdict: BTreeMap<Verdict, (u64, Vec<f64>, Finding)>,
    remote_shares: Vec<f64>,
    files_remote_shares: Vec<f64>,
}

impl All {
    pub(in crate::commands) fn add(&mut self, machine: &Machine, facts: &Facts) {
        let findings = diagnose(&Look {
            machine,
            make: System::All.make(),
            settings: &System::All.settings(),
            kinds: &KINDS,
            facts,
        });
        for finding in findings {
            let found = self.found.entry(finding.process).or_default();
            found.add(finding);
        }
        for thread in &facts.window.threads {
            match self.threads.get_mut(&thread.key) {
                Some(known) => add(known, thread),
                None => {
                    self.threads.insert(thread.key, thread.clone());
                }
            }
        }
        for accesses in &facts.accesses.processes {
            self.accesses.insert(accesses.process, accesses.clone());
        }
        self.windows += 1;
        self.duration_ns = self.duration_ns.saturating_add(facts.window.duration_ns);
        self.last = Some(facts.clone());
    }

    /// What was found, of the process that is named or else of the heaviest.
    pub(in crate::commands) fn document(self, machine: &Machine, named: Option<u32>) -> Document {
        let Some(mut facts) = self.last else {
            return Document {
                windows: Some(0),
                ..Document::of(machine)
            };
        };
        let findings: BTreeMap<u32, (Finding, Option<InWindows>)> = (self.found.into_values())
            .filter_map(Found::verdict)
            .map(|(finding, windows)| (finding.process.process_id, (finding, windows)))
            .collect();
        facts.window.duration_ns = self.duration_ns;
        facts.window.threads = self.threads.into_values().collect();
        facts.accesses.processes = self.accesses.into_values().collect();
        let sees_files = facts.moved_total() > 0;
        let mut unseen = Vec::new();
        if facts.accesses.processes.is_empty() {
            unseen.push("no accesses to memory were recorded".to_owned());
        }
        if !sees_files {
            unseen.push("no reads or writes of files were recorded".to_owned());
        }
        let mut order = heaviest(&facts.window);
        order.retain(|process_id| findings.contains_key(process_id));
        let all: Vec<Finding> = findings.values().map(|found| found.0.clone()).collect();
        let wanted = match named {
            Some(named) => vec![named],
            None => shown(&order, &all),
        };
        let of = |process_id: &u32| {
            let (finding, windows) = findings.get(process_id)?;
            let row = ProgramRow::recorded(machine, &facts, *process_id);
            let row = if sees_files { row } else { row.without_files() };
            let with = Surroundings {
                machine,
                facts: &facts,
                subject: Subject::recorded(*process_id),
                path: &|_| None,
                has_weights: false,
                as_root: true,
                is_shared_outside: &|_| false,
            };
            Some(Program {
                windows: *windows,
                ..program(&with, row, finding)
            })
        };
        let programs: Vec<Program> = wanted.iter().filter_map(of).collect();
        Document {
            observed_ns: self.duration_ns,
            windows: Some(self.windows),
            faults: programs.iter().filter(|program| program.is_fault).count(),
            programs,
            unseen,
            ..Document::of(machine)
        }
    }
}

impl Found {
    fn add(&mut self, finding: Finding) {
        self.remote_shares.extend(finding.remote_share);
        self.files_remote_shares.extend(finding.files_remote_share);
        let gain = finding.gain.filter(|gain| gain.is_finite());
        match self.by_verdict.get_mut(&finding.verdict) {
            Some((count, gains, last)) => {
                *count += 1;
                gains.extend(gain);
                *last = finding;
            }
            None => {
                let first = (1, gain.into_iter().collect(), finding);
                self.by_verdict.insert(first.2.verdict, first);
            }
        }
    }

    /// What most windows say in which the program was busy; of two, the fault.
    fn verdict(mut self) -> Option<(Finding, Option<InWindows>)> {
        let quiet = self.by_verdict.remove(&Verdict::Quiet);
        let busy = self.by_verdict.values().map(|(count, ..)| *count).sum();
        let mut most = quiet;
        // From the last verdict on, so that of two that are as frequent the first counts.
        for each in self.by_verdict.into_values().rev() {
            let is_more = |most: &(u64, Vec<f64>, Finding)| {
                most.2.verdict == Verdict::Quiet || each.0 >= most.0
            };
            if most.as_ref().is_none_or(is_more) {
                most = Some(each);
            }
        }
        let (with_verdict, gains, finding) = most?;
        let windows = (busy > 0).then_some(InWindows { with_verdict, busy });
        let finding = Finding {
            gain: median(&gains),
            remote_share: median(&self.remote_shares),
            files_remote_share: median(&self.files_remote_shares),
            ..finding
        };
        Some((finding, windows))
    }
}

/// Adds what a thread did in a later window.
fn add(known: &mut ThreadFacts, later: &ThreadFacts) {
    let sum = |one: u64, other: u64| one.saturating_add(other);
    let later = later.clone();
    for (own, more) in known.read_bytes.iter_mut().zip(&later.read_bytes) {
        *own = sum(*own, *more);
    }
    for (own, more) in known.written_bytes.iter_mut().zip(&later.written_bytes) {
        *own = sum(*own, *more);
    }
    known.busy_ns = sum(known.busy_ns, later.busy_ns);
    (known.node, known.name) = (later.node, later.name);
}
