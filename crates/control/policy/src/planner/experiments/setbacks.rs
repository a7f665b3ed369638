//! An action that brought less than half of what it should is not repeated for a while (ours). A thread or file is not
//! sent to that node again; a process is not placed again, nor does its memory follow; a node has no limit of the
//! learned controller. Other limits and delegation are decided in trials.rs. Each further miss doubles the time, up to
//! sixteen times.

use std::collections::BTreeMap;

use egeria_facts::{FileKey, ProcessKey};
use egeria_machine::NodeId;

use super::super::decision::Resting;
use super::super::settings::Feedback;
use crate::rest::Rest;
use crate::{ActionResult, Expectation, Kept, KeptBecause, Move, Subject};

/// At most this number of times as long.
const MAX_FACTOR: u32 = 16;

/// Actions that brought too little.
#[derive(Clone, Debug, Default)]
pub(in crate::planner) struct Setbacks {
    known: BTreeMap<Subject, Setback>,
}

#[derive(Clone, Debug)]
struct Setback {
    expected: Expectation,
    measured: f64,
    /// It is not tried again.
    rest: Rest,
    /// Windows after which the entry is dropped.
    memory_windows: u32,
}

impl Setbacks {
    /// Records actions that missed; actions that brought enough are dropped.
    pub(super) fn learn(&mut self, results: &[&ActionResult], settings: &Feedback) {
        for result in results {
            let key = result.action.subject();
            let (Some(expected), Some(measured)) = (result.expected, result.measured) else {
                continue;
            };
            if !result.missed {
                self.known.remove(&key);
                continue;
            }
            let known = self.known.get(&key);
            let mut rest = known.map_or(Rest::default(), |setback| setback.rest);
            let first = settings.rest_windows;
            rest.begin(first, first.saturating_mul(MAX_FACTOR));
            let setback = Setback {
                expected,
                measured,
                memory_windows: rest.windows().saturating_add(1).saturating_mul(2),
                rest,
            };
            self.known.insert(key, setback);
        }
    }

    /// The reason why a thread is not sent there now, if that brought too little before.
    pub(in crate::planner) fn refuses(&self, step: &Move) -> Option<Kept> {
        let (thread, to) = (step.thread, step.to);
        let setback = self.resting_on(&Subject::Thread { thread, to })?;
        Some(Kept {
            thread: step.thread,
            node: step.from,
            wanted: Some(step.to),
            because: KeptBecause::BroughtTooLittle {
                expected: setback.expected,
                measured: setback.measured,
                windows: setback.rest.windows(),
            },
        })
    }

    /// Whether a process is not placed again now: its last placement, or the memory that followed it, brought too
    /// little.
    pub(in crate::planner) fn keep_process(&self, process: ProcessKey) -> bool {
        let subjects = [Subject::Process { process }, Subject::Memory { process }];
        subjects
            .iter()
            .any(|subject| self.resting_on(subject).is_some())
    }

    /// Whether a file's data does not go to a node now.
    pub(in crate::planner) fn keep_file(&self, file: FileKey, to: NodeId) -> bool {
        self.resting_on(&Subject::File { file, to }).is_some()
    }

    /// Whether a node has no limit now.
    pub(in crate::planner) fn keep_unlimited(&self, node: NodeId) -> bool {
        self.resting_on(&Subject::Limit { node }).is_some()
    }

    /// Whether programs that do not ask are not bounded now.
    pub(in crate::planner) fn keep_unbounded(&self) -> bool {
        self.resting_on(&Subject::Mba).is_some()
    }

    /// All actions that are not repeated now, except migrations of threads: the plan has their reasons. The window is
    /// over then.
    pub(in crate::planner) fn end_window(&mut self) -> Vec<Resting> {
        let rests = |(subject, setback): (&Subject, &Setback)| {
            let is_thread = matches!(subject, Subject::Thread { .. });
            (!is_thread && !setback.rest.is_over()).then(|| setback.resting(*subject))
        };
        let resting = self.known.iter().filter_map(rests).collect();
        self.known.retain(|_, setback| {
            setback.rest.pass();
            setback.memory_windows = setback.memory_windows.saturating_sub(1);
            setback.memory_windows > 0
        });
        resting
    }

    fn resting_on(&self, subject: &Subject) -> Option<&Setback> {
        let setback = self.known.get(subject)?;
        (!setback.rest.is_over()).then_some(setback)
    }
}

impl Setback {
    fn resting(&self, subject: Subject) -> Resting {
        Resting {
            subject,
            expected: self.expected,
            measured: self.measured,
            windows: self.rest.windows(),
        }
    }
}
