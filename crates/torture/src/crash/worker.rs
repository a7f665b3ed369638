//! A worker: takes tasks, runs their workloads, looks at each.

use super::explore::{Limits, Tally, Wrong, explore};
use super::judge::Legal;
use super::operation::Operation;
use super::plan::{Alphabet, Task, Unit};
use super::stage::{Recorded, Stage};
use super::watch::Watched;
use super::workload::{Ground, Workload};
use egeria_harness::text::message_of;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A workload in which something is wrong.
pub(super) struct Found {
    pub(super) ground: Ground,
    pub(super) without: Option<String>,
    pub(super) workload: Workload,
    pub(super) wrong: Box<Wrong>,
}

/// Who is told what a worker does, and says when to stop.
pub(super) trait Listener {
    /// A workload was looked at; whether to go on.
    fn looked(&mut self, tally: Tally, found: Option<Found>) -> bool;
}

/// Stages that were prepared, and what is wanted of them.
pub(super) struct Worker {
    stages: HashMap<Ground, Stage>,
    seed: u64,
    watched: Arc<Watched>,
    /// See [`super::CrashOptions::without`].
    without: Option<String>,
}

/// Images of a second crash at each point.
const IMAGES_IN_RECOVERY: usize = 4;

impl Worker {
    pub(super) fn new(seed: u64, without: Option<String>) -> Worker {
        Worker::watched(seed, without, Arc::default())
    }

    /// One that others watch.
    pub(super) fn watched(seed: u64, without: Option<String>, watched: Arc<Watched>) -> Worker {
        let stages = HashMap::new();
        Worker {
            stages,
            watched,
            seed,
            without,
        }
    }

    /// The stage of a ground, prepared at first use.
    pub(super) fn stage(&mut self, ground: Ground) -> Result<&mut Stage, String> {
        use std::collections::hash_map::Entry;
        match self.stages.entry(ground) {
            Entry::Occupied(stage) => Ok(stage.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Stage::watched(ground, &self.watched)?)),
        }
    }

    /// The images looked at, each with the ground it is of.
    pub(super) fn images(&self) -> impl Iterator<Item = (Ground, u64)> + '_ {
        let stages = self.stages.iter();
        stages.flat_map(|(ground, stage)| stage.judge.images().map(|image| (*ground, image)))
    }

    /// Do a task; whether to go on.
    pub(super) fn run(&mut self, task: &Task, listener: &mut dyn Listener) -> Result<bool, String> {
        let limits = Limits {
            images: task.images,
            images_in_recovery: IMAGES_IN_RECOVERY,
            seed: self.seed,
        };
        let (ground, without) = (task.ground, self.without.clone());
        let stage = self.stage(ground)?;
        let mut look = Look {
            stage,
            ground,
            limits,
            listener,
            without,
        };
        match task.unit {
            Unit::Sequences {
                alphabet,
                first,
                lengths,
                loaded,
            } => {
                let before = look.stage.before.clone();
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
            Unit::Random { seed, length } => {
                let operations = random_sequence(seed, length);
                look.workload(&Workload::Long { operations })
            }
            Unit::Pairs { first, every } => look.pairs(first, every),
            Unit::Making => look.workload(&Workload::Making),
            Unit::Repair => look.workload(&Workload::Repair),
        }
    }
}

/// What came of a run.
enum Ran {
    Recorded(Box<Recorded>),
    /// It changes nothing on media.
    Nothing,
    /// Something is wrong, which was told; whether to go on.
    Panicked(bool),
}

struct Look<'a> {
    stage: &'a mut Stage,
    ground: Ground,
    limits: Limits,
    listener: &'a mut dyn Listener,
    without: Option<String>,
}

impl Look<'_> {
    fn workload(&mut self, workload: &Workload) -> Result<bool, String> {
        let ran = self.run(|| workload.clone(), |stage| workload.record(stage))?;
        match ran {
            Ran::Recorded(recorded) => Ok(self.recorded(*recorded, || workload.clone())),
            Ran::Nothing => Ok(true),
            Ran::Panicked(goes_on) => Ok(goes_on),
        }
    }

    /// Run a workload. A panic is something wrong; the stage is made anew then.
    fn run(
        &mut self,
        workload: impl Fn() -> Workload,
        record: impl FnOnce(&mut Stage) -> Result<Option<Recorded>, String>,
    ) -> Result<Ran, String> {
        let recorded = catch_unwind(AssertUnwindSafe(|| {
            self.stage.judge.watched.runs();
            record(self.stage)
        }));
        let panic = match recorded {
            Ok(recorded) => {
                let boxed = recorded?.map(|recorded| Ran::Recorded(Box::new(recorded)));
                return Ok(boxed.unwrap_or(Ran::Nothing));
            }
            Err(panic) => panic,
        };
        let watched = self.stage.judge.watched.clone();
        *self.stage = Stage::watched(self.ground, &watched)?;
        let why = format!("panicked while it ran: {}", message_of(&*panic));
        let found = Found {
            ground: self.ground,
            without: self.without.clone(),
            workload: workload(),
            wrong: Box::new(Wrong::running(why)),
        };
        Ok(Ran::Panicked(
            self.listener.looked(Tally::default(), Some(found)),
        ))
    }

    fn recorded(&mut self, recorded: Recorded, workload: impl Fn() -> Workload) -> bool {
        let mut tally = Tally::default();
        let recorded = recorded.without(self.without.as_deref());
        let watched = &self.stage.judge.watched;
        watched.explores(self.ground, self.without.clone(), workload());
        let explored = explore(self.stage, recorded, self.limits, &mut tally);
        let found = explored.err().map(|wrong| Found {
            ground: self.ground,
            without: self.without.clone(),
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
        before: &Legal,
        lengths: (usize, usize),
        loaded: bool,
    ) -> Result<bool, String> {
        for operation in firsts {
            sequence.push(operation.clone());
            let workload = || Workload::Sequence {
                operations: sequence.clone(),
                loaded,
            };
            let ran = self.run(workload, |stage| {
                stage.record_last(sequence, before, loaded)
            })?;
            let mut goes_on = !matches!(ran, Ran::Panicked(false));
            if let Ran::Recorded(recorded) = ran {
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
                let ran = self.run(|| workload.clone(), |stage| workload.record(stage))?;
                let goes_on = match ran {
                    Ran::Recorded(recorded) => self.recorded(*recorded, || workload.clone()),
                    Ran::Nothing if switch.is_none() => true,
                    Ran::Nothing => break,
                    Ran::Panicked(goes_on) => goes_on,
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
    let mut state = seed;
    let mut random = move |bound: usize| {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    };
    (0..length)
        .map(|_| {
            let part = random(2) as u8;
            (part, operations[random(operations.len())].clone())
        })
        .collect()
}
