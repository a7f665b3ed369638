//! One program, and what is said of it.

use std::path::PathBuf;

use egeria_facts::{Facts, FileKey};
use egeria_machine::{Machine, NodeId, printable};
use egeria_policy::diagnosis::{Finding, Verdict};
use egeria_policy::{Action, ActionRecord};
use egeria_steward::{ActionLine, KeptLine};

use super::super::programs::{MAX_PROGRAMS, ProgramRow};
use super::document::Program;
use super::elsewhere::{Files, FilesElsewhere};
use super::repair::Repairs;
use super::subject::Subject;

/// Programs shown when none is named.
const SHOWN: usize = 8;

/// The programs that are shown: the heaviest, and what is wrong, however little else it does.
pub(super) fn shown(order: &[u32], findings: &[Finding]) -> Vec<u32> {
    let is_fault = |process_id: &u32| {
        let mut findings = findings.iter();
        findings.any(|found| found.process.process_id == *process_id && found.verdict.is_fault())
    };
    let mut shown: Vec<u32> = Vec::new();
    for (index, process_id) in order.iter().enumerate() {
        if index < SHOWN || (is_fault(process_id) && shown.len() < MAX_PROGRAMS) {
            shown.push(*process_id);
        }
    }
    shown
}

/// What a program is looked at with.
pub(super) struct Surroundings<'a> {
    pub(super) machine: &'a Machine,
    pub(super) facts: &'a Facts,
    pub(super) subject: Subject,
    /// The path of a file.
    pub(super) path: &'a dyn Fn(FileKey) -> Option<PathBuf>,
    /// The kernel has weights of nodes, and it is known what memories give.
    pub(super) has_weights: bool,
    /// Root starts the lines that repair.
    pub(super) as_root: bool,
    /// Whether much of the program's memory on other nodes than this is mapped by other processes, too.
    pub(super) is_shared_outside: &'a dyn Fn(NodeId) -> bool,
}

/// What is said of a program.
pub(super) fn program(with: &Surroundings<'_>, row: ProgramRow, finding: &Finding) -> Program {
    let repairs = Repairs {
        machine: with.machine,
        subject: &with.subject,
        finding,
        path: with.path,
        has_weights: with.has_weights,
        as_root: with.as_root,
        is_shared_outside: with.is_shared_outside,
    };
    let files = Files {
        machine: with.machine,
        facts: with.facts,
        path: with.path,
        as_root: with.as_root,
    };
    let lines = |records: &[ActionRecord]| {
        let lines = records.iter().map(|record| {
            let name = name_of(&record.action, with.facts, with.path);
            ActionLine::new(record.clone(), name)
        });
        lines.collect::<Vec<ActionLine>>()
    };
    let is_shown = !matches!(finding.verdict, Verdict::Local | Verdict::Quiet);
    let kept = finding.kept.clone().filter(|_| is_shown);
    Program {
        repairs: repairs.lines(),
        verdict: finding.verdict,
        is_fault: finding.verdict.is_fault(),
        sentence: finding.verdict.to_string(),
        windows: None,
        gain: finding.gain.filter(|gain| gain.is_finite()),
        remote_share: finding.remote_share,
        would_do: lines(&finding.would_do),
        if_it_could: lines(&finding.if_it_could),
        kept: kept.map(|kept| KeptLine::new(kept, row.name.clone())),
        unit: with.subject.unit.clone(),
        files_elsewhere: (!finding.verdict.is_fault())
            .then(|| FilesElsewhere::of(&files, &row))
            .flatten(),
        row,
    }
}

/// The name of the thread or file that an action is about.
fn name_of(action: &Action, facts: &Facts, path: &dyn Fn(FileKey) -> Option<PathBuf>) -> String {
    if let Action::Relocate(step) = action {
        let path = path(step.file);
        return path.map_or(String::new(), |path| printable(&path.to_string_lossy()));
    }
    let step = action.as_thread_move();
    let thread = step.and_then(|step| facts.window.thread(step.thread));
    thread.map_or_else(String::new, |thread| thread.name.clone())
}
