//! A worker: takes tasks, runs their workloads, looks at each.

use super::explore::{Limits, Tally, explore};
use super::judge::LegalState;
use super::operation::Operation;
use super::plan::{Alphabet, Task, TaskKind};
use super::violation::{BadState, Violation};
use super::worker_status::WorkerStatus;
use super::workload::{Setup, Workload};
use super::workspace::{Recorded, Workspace};
use egeria_stats::rng::Rng;
use egeria_stats::text::message_of;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Who is told what a worker does, and says when to stop.
pub(super) trait Listener {
    /// A workload was looked at; whether to go on.
    fn looked(&mut self, tally: Tally, found: Option<Violation>) -> bool;
}

/// Stages that were prepared, and what is wanted of them.
pub(super) struct TaskRunner {
    workspaces: HashMap<Setup, Workspace>,
    seed: u64,
    status: Arc<WorkerStatus>,
    /// See [`super::CrashOptions::without`].
    omitted: Option<String>,
}

/// Images of a second crash at each point.
const IMAGES_IN_RECOVERY: usize = 4;

impl TaskRunner {
    pub(super) fn new(seed: u64, omitted: Option<String>) -> TaskRunner {
        TaskRunner::with_status(seed, omitted, Arc::default())
    }

    /// One that others watch.
    pub(super) fn with_status(
        seed: u64,
        omitted: Option<String>,
        status: Arc<WorkerStatus>,
    ) -> TaskRunner {
        let workspaces = HashMap::new();
        TaskRunner {
            workspaces,
            status,
            seed,
            omitted,
        }
    }

    /// The workspace of a setup, prepared at first use.
    pub(super) fn workspace(&mut self, setup: Setup) -> Result<&mut Workspace, String> {
        use std::collections::hash_map::Entry;
        match self.workspaces.entry(setup) {
            Entry::Occupied(workspace) => Ok(workspace.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Workspace::with_status(setup, &self.status)?)),
        }
    }

    /// The images looked at, each with the setup it is of.
    pub(super) fn images(&self) -> impl Iterator<Item = (Setup, u64)> + '_ {
        let workspaces = self.workspaces.iter();
        workspaces
            .flat_map(|(setup, workspace)| workspace.judge.images().map(|image| (*setup, image)))
    }

    /// Do a task; whether to go on.
    pub(super) fn run(&mut self, task: &Task, listener: &mut dyn Listener) -> Result<bool, String> {
        let limits = Limits {
            images: task.images,
            images_in_recovery: IMAGES_IN_RECOVERY,
            seed: self.seed,
        };
        let (setup, omitted) = (task.setup, self.omitted.clone());
        let workspace = self.workspace(setup)?;
        let mut look = TaskRun {
            workspace,
            setup,
            limits,
            listener,
            omitted,
        };
        match task.kind {
            TaskKind::Sequences {
                alphabet,
                first,
                lengths,
                loaded,
            } => {
                let before = look.workspace.before.clone();
                let operations = alphabet.operations();
                let firsts = &operations[first..=first];
                look.sequences(
                    firsts,
                    &operations,
                    &mut Vec::new(),
                    &before,
                    lengths,
                    loaded,
                )
            }
            TaskKind::Random { seed, length } => {
                let operations = random_sequence(seed, length);
                look.workload(&Workload::Long { operations })
            }
            TaskKind::Pairs { first, every } => look.pairs(first, every),
            TaskKind::Making => look.workload(&Workload::Making),
            TaskKind::Repair => look.workload(&Workload::Repair),
            TaskKind::PoolChange(change) => look.workload(&Workload::PoolChange(change)),
        }
    }
}

/// What came of a run.
enum RunOutcome {
    Recorded(Box<Recorded>),
    /// It changes nothing on media.
    Nothing,
    /// Something is wrong, which was told; whether to go on.
    Panicked(bool),
}

struct TaskRun<'a> {
    workspace: &'a mut Workspace,
    setup: Setup,
    limits: Limits,
    listener: &'a mut dyn Listener,
    omitted: Option<String>,
}

impl TaskRun<'_> {
    fn workload(&mut self, workload: &Workload) -> Result<bool, String> {
        let ran = self.run(|| workload.clone(), |workspace| workspace.record(workload))?;
        match ran {
            RunOutcome::Recorded(recorded) => Ok(self.recorded(*recorded, || workload.clone())),
            RunOutcome::Nothing => Ok(true),
            RunOutcome::Panicked(goes_on) => Ok(goes_on),
        }
    }

    /// Run a workload. A panic is something wrong; the workspace is made anew then.
    fn run(
        &mut self,
        workload: impl Fn() -> Workload,
        record: impl FnOnce(&mut Workspace) -> Result<Option<Recorded>, String>,
    ) -> Result<RunOutcome, String> {
        let recorded = catch_unwind(AssertUnwindSafe(|| {
            self.workspace.judge.status.runs();
            record(self.workspace)
        }));
        let panic = match recorded {
            Ok(recorded) => {
                let boxed = recorded?.map(|recorded| RunOutcome::Recorded(Box::new(recorded)));
                return Ok(boxed.unwrap_or(RunOutcome::Nothing));
            }
            Err(panic) => panic,
        };
        let status = self.workspace.judge.status.clone();
        *self.workspace = Workspace::with_status(self.setup, &status)?;
        let why = format!("panicked while it ran: {}", message_of(&*panic));
        let found = Violation {
            setup: self.setup,
            omitted: self.omitted.clone(),
            workload: workload(),
            wrong: Box::new(BadState::running(why)),
        };
        Ok(RunOutcome::Panicked(
            self.listener.looked(Tally::default(), Some(found)),
        ))
    }

    fn recorded(&mut self, recorded: Recorded, workload: impl Fn() -> Workload) -> bool {
        let mut tally = Tally::default();
        let recorded = recorded.without(self.omitted.as_deref());
        let status = &self.workspace.judge.status;
        status.explores(self.setup, self.omitted.clone(), workload());
        let explored = explore(self.workspace, recorded, self.limits, &mut tally);
        let found = explored.err().map(|wrong| Violation {
            setup: self.setup,
            omitted: self.omitted.clone(),
            workload: workload(),
            wrong,
        });
        self.listener.looked(tally, found)
    }

    /// All sequences that go on from these with one of `firsts`. What is like a shorter one is left out.
    fn sequences(
        &mut self,
        firsts: &[Operation],
        operations: &[Operation],
        sequence: &mut Vec<Operation>,
        before: &LegalState,
        lengths: (usize, usize),
        loaded: bool,
    ) -> Result<bool, String> {
        for operation in firsts {
            sequence.push(operation.clone());
            let workload = || Workload::Sequence {
                operations: sequence.clone(),
                loaded,
            };
            let ran = self.run(workload, |workspace| {
                workspace.record_last(sequence, before, loaded)
            })?;
            let mut goes_on = !matches!(ran, RunOutcome::Panicked(false));
            if let RunOutcome::Recorded(recorded) = ran {
                let after = recorded.legal[1][0].clone();
                if sequence.len() >= lengths.0 {
                    let operations = sequence.clone();
                    goes_on = self.recorded(*recorded, || {
                        let operations = operations.clone();
                        Workload::Sequence { operations, loaded }
                    });
                }
                if goes_on && sequence.len() < lengths.1 {
                    goes_on =
                        self.sequences(operations, operations, sequence, &after, lengths, loaded)?;
                }
            }
            sequence.pop();
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn pairs(&mut self, first: usize, every: usize) -> Result<bool, String> {
        let operations = Alphabet::Few.operations();
        for (number, second) in operations.iter().enumerate() {
            if !(first + number).is_multiple_of(every) {
                continue;
            }
            let operations = [operations[first].clone(), second.clone()];
            let switches = (0..).map(Some).take(64);
            for switch in [None].into_iter().chain(switches) {
                let workload = Workload::Pair {
                    operations: operations.clone(),
                    switch,
                };
                let ran = self.run(|| workload.clone(), |workspace| workspace.record(&workload))?;
                let goes_on = match ran {
                    RunOutcome::Recorded(recorded) => self.recorded(*recorded, || workload.clone()),
                    RunOutcome::Nothing if switch.is_none() => true,
                    RunOutcome::Nothing => break,
                    RunOutcome::Panicked(goes_on) => goes_on,
                };
                if !goes_on {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Operations of the whole grammar, each by one of two attachments.
fn random_sequence(seed: u64, length: usize) -> Vec<(u8, Operation)> {
    let operations = Alphabet::All.operations();
    let mut rng = Rng::new(seed);
    (0..length)
        .map(|_| {
            let part = rng.index(2) as u8;
            (part, operations[rng.index(operations.len())].clone())
        })
        .collect()
}
