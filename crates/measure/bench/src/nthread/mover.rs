//! Who moves threads while programs run: the steward, or nobody.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use egeria_engine::Volume;
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_steward::{LogReader, Record, Steward, StewardOptions, WindowRecord};

use super::plan::Pace;
use super::setup::Setup;
use crate::emulated::{steward, steward_options};
use egeria_harness::{Error, Result};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Moves {
    /// Threads, each time counted.
    pub(super) all: u64,
    /// Of the thread that moved most after everything should be at rest.
    pub(super) of_one_thread: u64,
}

/// Windows in which a stable workload comes to rest, also where no warm-up is left out.
const WINDOWS_TO_REST: u64 = 3;

/// A steward at work, or none.
pub(super) struct Mover(Option<Working>);

struct Working {
    steward: Steward,
    log: PathBuf,
    /// From the first window with I/O on, ns of machine time.
    rest_after_ns: u64,
}

impl Mover {
    /// Looks after the threads of this process's descendants, unless the policy is off.
    pub(super) fn start(
        volume: &Arc<Volume>,
        machine: &Machine,
        setup: &Setup,
        pace: &Pace,
        log: &Path,
    ) -> Result<Mover> {
        if setup.policy == System::Off {
            return Ok(Mover(None));
        }
        let options = StewardOptions {
            settings: setup.policy_settings()?,
            given: Vec::new(),
            window_ns: pace.window_ns,
            decision_log: Some(log.to_owned()),
            ..steward_options(machine, setup.policy)
        };
        let steward = steward(volume, options)?;
        let warmup_ns = pace.warmup.as_nanos() as f64 / pace.dilation;
        Ok(Mover(Some(Working {
            steward,
            log: log.to_owned(),
            rest_after_ns: (warmup_ns as u64).max(WINDOWS_TO_REST * pace.window_ns),
        })))
    }

    /// Ends it; threads get their CPUs back.
    pub(super) fn stop(self) -> Result<Moves> {
        let Some(working) = self.0 else {
            return Ok(Moves::default());
        };
        let summary = working.steward.stop();
        let most = max_moves_at_rest(&working.log, working.rest_after_ns).map_err(|error| {
            let doing = format!("cannot read {}", working.log.display());
            Error::io(doing, error, "free some memory")
        })?;
        Ok(Moves {
            all: summary.moves,
            of_one_thread: most,
        })
    }
}

/// As [`max_moves`], of a log on disk.
fn max_moves_at_rest(log: &Path, rest_after_ns: u64) -> io::Result<u64> {
    let mut log = LogReader::open(log)?;
    let mut decisions = Vec::new();
    while let Some(record) = log.next_record()? {
        if let Record::Window(decision) = record {
            decisions.push(*decision);
        }
    }
    Ok(max_moves(&decisions, rest_after_ns))
}

/// Moves of the thread that moved most in windows that began so long after the first with I/O.
fn max_moves(decisions: &[WindowRecord], rest_after_ns: u64) -> u64 {
    let first_ns = decisions.first().map_or(0, |first| first.start_ns);
    let at_rest = |decision: &&WindowRecord| decision.start_ns >= first_ns + rest_after_ns;
    let mut moves: HashMap<_, u64> = HashMap::new();
    for decision in decisions.iter().filter(at_rest) {
        let done = decision.actions.iter().filter(|line| line.is_done());
        for step in done.filter_map(|line| line.as_thread_move()) {
            *moves.entry(step.thread).or_default() += 1;
        }
    }
    moves.into_values().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_facts::ThreadKey;
    use egeria_machine::NodeId;
    use egeria_policy::{Action, ActionOutcome, ActionRecord, Move, Reason};
    use egeria_steward::ActionLine;

    fn window(start_ns: u64, threads: &[u32], outcome: ActionOutcome) -> WindowRecord {
        let reason = Reason::RemoteReads {
            target: NodeId(0),
            target_bytes_s: 1e9,
            next_bytes_s: 0.0,
            margin_bytes_s: 200e6,
        };
        let line = |thread_id: &u32| ActionLine {
            record: ActionRecord {
                action: Action::MigrateThread(Move {
                    thread: ThreadKey {
                        process_id: 9,
                        thread_id: *thread_id,
                        start_ticks: 1,
                    },
                    from: NodeId(1),
                    to: NodeId(0),
                    reason: reason.clone(),
                }),
                expected: None,
                outcome: outcome.clone(),
            },
            name: String::new(),
            sentence: String::new(),
        };
        WindowRecord {
            start_ns,
            duration_ns: 10,
            actions: threads.iter().map(line).collect(),
            ..WindowRecord::default()
        }
    }

    #[test]
    fn moves_before_rest_do_not_count_as_ping_pong() {
        let done = || ActionOutcome::Done;
        let windows = [
            window(1000, &[1, 2], done()),
            window(1010, &[1, 2], done()),
            window(1030, &[1], done()),
            window(1040, &[1, 2], done()),
            window(1050, &[1], ActionOutcome::Vanished),
        ];
        assert_eq!(max_moves(&windows, 30), 2);
        assert_eq!(max_moves(&windows, 40), 1);
        assert_eq!(max_moves(&windows, 0), 4);
        assert_eq!(max_moves(&[], 0), 0);
    }
}
