//! What the stops came to.

use super::calls::{Call, Observation};
use super::stack::Stack;
use crate::kill::processes::AccessPath;
use crate::text::lined;
use serde::Serialize;
use std::collections::BTreeMap;

/// What the stops came to.
#[derive(Serialize, Default, Debug)]
pub struct StopReport {
    /// Workers stopped in the middle of a call that is not the kernel's.
    pub stops: u64,
    /// Workers stopped elsewhere: between calls, or behind one of the kernel's.
    pub stops_elsewhere: u64,
    /// Longest wait of anybody who does not change what the stopped one was changing.
    pub longest_wait_ms: f64,
    /// Longest wait of who changes the same inode, and may wait.
    pub longest_allowed_wait_ms: f64,
    /// Longest wait of anybody while nobody was stopped: what the machine alone does.
    pub longest_undisturbed_ms: f64,
    /// Longest time during a stop that the machine kept a thread that only sleeps from running.
    pub longest_pause_ms: f64,
    /// How long he should wait at most, beside a pause of the machine.
    pub wanted_wait_ms: f64,
    /// Stops during which somebody waited longer than he should.
    pub stops_waited_for: u64,
    /// Calls that failed, threads that waited on after the end of a stop.
    pub failed: u64,
    /// How long it took.
    pub seconds: f64,
    /// What was stopped.
    pub by_call: Vec<CallRow>,
    pub by_observer: Vec<ObserverRow>,
    /// Stops that others waited for, by where they were; stacks are known where `gdb` is installed and asked for.
    pub stacks: Vec<StackRow>,
    /// A line for each failure.
    pub faults: Vec<String>,
}

/// Stops in calls of one kind.
#[derive(Serialize, Debug)]
pub struct CallRow {
    /// How the worker reaches the files.
    pub access_path: AccessPath,
    /// What it was doing.
    pub call: Call,
    pub stops: u64,
    /// Those of them during which somebody waited longer than he should.
    pub waited_for: u64,
}

/// Observers of one kind.
#[derive(Serialize, Debug)]
pub struct ObserverRow {
    /// How it reaches the files.
    pub access_path: AccessPath,
    pub what: Observation,
    /// How often it did it.
    pub calls: u64,
    /// As in [`StopReport`].
    pub longest_wait_ms: f64,
    /// `None` where nobody it may wait for was stopped.
    pub longest_allowed_wait_ms: Option<f64>,
    /// As in [`StopReport`].
    pub longest_undisturbed_ms: f64,
    /// Stops during which it waited longer than it should.
    pub waits: u64,
}

/// Where stopped ones were that others waited for.
#[derive(Serialize, Default, Debug)]
pub struct StackRow {
    pub stops: u64,
    /// Innermost function first; empty where it is not known.
    pub stack: Stack,
    pub waiting_calls: Vec<String>,
    /// What threads of the mount were waiting in meanwhile.
    pub server_stacks: Vec<Stack>,
}

/// What an observer saw.
#[derive(Clone, Copy, Default)]
pub struct ObserverTotals {
    pub wait_ns: u64,
    pub allowed_ns: Option<u64>,
    pub undisturbed_ns: u64,
    pub waits: u64,
    pub calls: u64,
}

/// What is noted while it runs.
#[derive(Default)]
pub struct Notes {
    pub pause_ns: u64,
    pub stops: BTreeMap<(AccessPath, Call), (u64, u64)>,
    pub elsewhere: u64,
    pub seen: BTreeMap<(AccessPath, Observation), ObserverTotals>,
    pub stacks: BTreeMap<Stack, StackRow>,
    pub faults: Vec<String>,
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl StopReport {
    pub(super) fn of(notes: Notes, wanted_wait_ms: f64, seconds: f64) -> StopReport {
        let seen = || notes.seen.values();
        let longest = |of: &dyn Fn(&ObserverTotals) -> u64| ms(seen().map(of).max().unwrap_or(0));
        let by_call = notes
            .stops
            .iter()
            .map(|((access_path, call), counts)| CallRow {
                access_path: *access_path,
                call: *call,
                stops: counts.0,
                waited_for: counts.1,
            });
        let by_observer = notes
            .seen
            .iter()
            .map(|((access_path, what), seen)| ObserverRow {
                access_path: *access_path,
                what: *what,
                calls: seen.calls,
                longest_wait_ms: ms(seen.wait_ns),
                longest_allowed_wait_ms: seen.allowed_ns.map(ms),
                longest_undisturbed_ms: ms(seen.undisturbed_ns),
                waits: seen.waits,
            });
        StopReport {
            stops: notes.stops.values().map(|counts| counts.0).sum(),
            stops_elsewhere: notes.elsewhere,
            stops_waited_for: notes.stops.values().map(|counts| counts.1).sum(),
            wanted_wait_ms,
            longest_pause_ms: ms(notes.pause_ns),
            longest_wait_ms: longest(&|seen| seen.wait_ns),
            longest_allowed_wait_ms: longest(&|seen| seen.allowed_ns.unwrap_or(0)),
            longest_undisturbed_ms: longest(&|seen| seen.undisturbed_ns),
            failed: notes.faults.len() as u64,
            seconds,
            by_call: by_call.collect(),
            by_observer: by_observer.collect(),
            stacks: stacks(notes.stacks),
            faults: notes.faults,
        }
    }

    /// What must not be, in a line; nothing when all is well.
    pub fn verdict(&self) -> Option<String> {
        if self.failed > 0 {
            return Some(format!(
                "{} calls or waits beside stopped workers went wrong; see above",
                self.failed
            ));
        }
        (self.stops_waited_for > 0).then(|| {
            format!(
                "during {} of {} stops somebody waited longer than {} ms, {:.0} ms at most, who had nothing to do with the stopped; \
                 compare with {:.0} ms while nobody was stopped, and try again on an idle machine",
                self.stops_waited_for,
                self.stops,
                self.wanted_wait_ms,
                self.longest_wait_ms, self.longest_undisturbed_ms
            )
        })
    }

    /// The report as tables.
    pub fn table(&self) -> String {
        let rows = [
            ("stopped in the middle of a call", self.stops.to_string()),
            ("stopped elsewhere", self.stops_elsewhere.to_string()),
            ("of them waited for", self.stops_waited_for.to_string()),
            ("longest wait of others", told(self.longest_wait_ms)),
            ("of who may wait", told(self.longest_allowed_wait_ms)),
            ("nobody stopped", told(self.longest_undisturbed_ms)),
            ("pause of the machine", told(self.longest_pause_ms)),
            ("time", format!("{:.0} s", self.seconds)),
        ];
        let mut text = lined(rows.map(|(what, value)| vec![what.to_owned(), value]), &[]);
        let head = [
            "access path",
            "while somebody is stopped",
            "longest wait",
            "may wait",
            "nobody stopped",
            "waits",
        ];
        let observers = self.by_observer.iter().map(|row| {
            vec![
                row.access_path.name().to_owned(),
                row.what.name().to_owned(),
                told(row.longest_wait_ms),
                row.longest_allowed_wait_ms.map_or(String::new(), told),
                told(row.longest_undisturbed_ms),
                row.waits.to_string(),
            ]
        });
        text += &format!("\n{}", lined(observers, &head));
        let head = ["access path", "stopped in", "stops", "waited for"];
        let calls = self.by_call.iter().map(|row| {
            let access_path = row.access_path.name().to_owned();
            let (stops, waited) = (row.stops.to_string(), row.waited_for.to_string());
            vec![access_path, row.call.name().to_owned(), stops, waited]
        });
        text += &format!("\n{}", lined(calls, &head));
        for place in &self.stacks {
            text += &format!("\n{} stops in {}", place.stops, place.stack.join(" < "));
            text += &format!("\n  waiting_calls: {}", place.waiting_calls.join(", "));
            for thread in &place.server_stacks {
                text += &format!("\n  the mount in: {}", thread.join(" < "));
            }
        }
        for fault in &self.faults {
            text += &format!("\n{fault}");
        }
        text
    }
}

fn told(ms: f64) -> String {
    format!("{ms:.0} ms")
}

fn stacks(notes: BTreeMap<Stack, StackRow>) -> Vec<StackRow> {
    let mut rows: Vec<StackRow> = notes.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.stops));
    rows
}
