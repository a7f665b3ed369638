//! Where workloads run: pools in memory that hold an initial state and come back to it after every run.

use super::actor::Actor;
use super::initial_state::InitialState;
use super::instant::{self, UnderWay, end_snapshot};
use super::judge::{Judge, Kind, LegalState};
use super::operation::Operation;
use super::worker_status::WorkerStatus;
use super::workload::Setup;
use egeria_engine::*;
use egeria_media::Pool;
use egeria_media::recorder::{CrashImages, Event, PoolSet, Recorder, Recording};
use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

/// Operations of a long sequence during each snapshot.
const STEPS_OF_A_SNAPSHOT: usize = 7;

/// A run, and what may be found when it is cut off.
pub(super) struct Recorded {
    pub(super) kind: Kind,
    pub(super) recording: Recording,
    /// The point where looking begins: what was before is the matter of a shorter run.
    pub(super) from: usize,
    /// By the sum of the marks passed: what may be found then.
    pub(super) legal: Vec<Vec<LegalState>>,
}

impl Recorded {
    /// The same, had the engine none of the flushes and fences whose place, as it is shown, contains this.
    pub(super) fn without(mut self, place: Option<&str>) -> Recorded {
        let Some(wanted) = place else { return self };
        for place in self.recording.places() {
            if place.to_string().contains(wanted) {
                self.recording = self.recording.without(&place);
            }
        }
        self
    }
}

/// Pools with an initial state, three times: to run on, to form images in, to crash recovery in.
pub(super) struct Workspace {
    pub(super) live: PoolSet,
    pub(super) recorder: Recorder,
    pub(super) memory: PrivateMemory,
    pub(super) images: CrashImages,
    pub(super) second: CrashImages,
    /// The initial state, as users see it; refused when there is no volume.
    pub(super) before: LegalState,
    pub(super) judge: Judge,
    /// The pair last run, and what may be found of it.
    pub(super) pair: Option<([Operation; 2], Vec<Vec<LegalState>>)>,
    delegated: bool,
    snapshot: bool,
}

impl Workspace {
    /// Prepare an initial state on so many pools.
    pub(super) fn new(setup: Setup) -> Result<Workspace, String> {
        let Setup {
            initial_state,
            pools,
            delegated,
            snapshot,
        } = setup;
        let live = initial_state.build(pools)?;
        let copy = || {
            live.copy()
                .map_err(|error| format!("no memory for pools: {error}"))
        };
        let (images, second) = (CrashImages::over(copy()?), CrashImages::over(copy()?));
        let recorder = Recorder::reversible();
        live.follow(&recorder);
        let mut judge = Judge::default();
        judge.no_probe = initial_state == InitialState::Full;
        let mut workspace = Workspace {
            before: LegalState::refused(),
            memory: PrivateMemory::default(),
            live,
            recorder,
            images,
            second,
            judge,
            pair: None,
            delegated,
            snapshot,
        };
        if initial_state.is_whole() {
            let volume = workspace.attach()?;
            workspace.before = LegalState::of(&volume, Kind::Sequence)?;
        }
        Ok(workspace)
    }

    /// The workspace of a worker whose status others read.
    pub(super) fn with_status(
        setup: Setup,
        status: &Arc<WorkerStatus>,
    ) -> Result<Workspace, String> {
        let mut workspace = Workspace::new(setup)?;
        workspace.judge.status = status.clone();
        Ok(workspace)
    }

    /// The pools to run on.
    pub(super) fn pools(&self) -> Vec<Arc<Pool>> {
        self.live.iter().cloned().collect()
    }

    /// The initial state as it was; what is stored from here on is recorded.
    pub(super) fn reset(&mut self) {
        self.recorder.undo(&self.live);
    }

    /// The initial state as it was, attached.
    pub(super) fn attach(&mut self) -> Result<Arc<Volume>, String> {
        self.reset();
        let options = AttachOptions::default();
        let volume = Volume::attach_private(&self.pools(), &mut self.memory, &options);
        let volume = volume.map_err(|error| error.to_string())?;
        if self.delegated {
            let rule = DelegationRule {
                delegates: NonZeroU8::MIN,
                min_read_bytes: 1,
                min_write_bytes: 1,
                always: true,
            };
            let set = volume.set_delegation(Some(rule), true);
            set.map_err(|errno| errno.to_string())?;
        }
        Ok(volume)
    }

    /// Begin a snapshot, if this setup has one, of a volume in this state.
    pub(super) fn begin_snapshot(
        &self,
        volume: &Arc<Volume>,
        state: &LegalState,
    ) -> Result<Option<UnderWay>, String> {
        let may_end = self.judge.no_probe;
        let begin = || instant::begin_snapshot(volume, state, may_end);
        self.snapshot.then(begin).transpose()
    }

    /// What a sequence leaves, as users see it.
    pub(super) fn after(&mut self, sequence: &[Operation]) -> Result<LegalState, String> {
        let volume = self.attach()?;
        let mut actor = Actor::new(&volume);
        for (step, operation) in sequence.iter().enumerate() {
            let _ = actor.run(operation, step);
        }
        LegalState::of(&volume, Kind::Sequence)
    }

    /// Run a sequence, to look at its last operation; `before` is what the others leave. `loaded`: the
    /// session knows all inodes. `None` when the last one changes nothing on media.
    pub(super) fn record_last(
        &mut self,
        sequence: &[Operation],
        before: &LegalState,
        loaded: bool,
    ) -> Result<Option<Recorded>, String> {
        let (last, prefix) = sequence.split_last().ok_or("an empty sequence")?;
        let volume = self.attach()?;
        if loaded {
            LegalState::of(&volume, Kind::Sequence)?;
        }
        let snapshot = self.begin_snapshot(&volume, &self.before)?;
        let mut actor = Actor::new(&volume);
        for (step, operation) in prefix.iter().enumerate() {
            let _ = actor.run(operation, step);
        }
        let mut events = self.recorder.drain();
        let from = events.len();
        let returned = actor.run(last, prefix.len());
        self.recorder.mark(1);
        let of_last = self.recorder.drain();
        if of_last.len() == 1 {
            return Ok(None);
        }
        events.extend(of_last);
        end_snapshot(snapshot);
        let after = LegalState::of(&volume, Kind::Sequence)?;
        // One that failed, for want of room say, may have stored what means nothing.
        let after = if returned.is_ok() {
            after
        } else {
            before.clone()
        };
        Ok(Some(Recorded {
            kind: Kind::Sequence,
            recording: events.into(),
            from,
            legal: vec![vec![before.clone(), after.clone()], vec![after]],
        }))
    }

    /// Run a sequence, each operation by one of two attachments, to look at all of it. The attachments are
    /// on threads of their own, as two processes would be.
    pub(super) fn record_long(&mut self, sequence: &[(u8, Operation)]) -> Result<Recorded, String> {
        let volume = self.attach()?;
        let other = volume.join_private();
        let mut states = vec![self.before.clone()];
        let mut snapshot = self.begin_snapshot(&volume, &self.before)?;
        std::thread::scope(|scope| -> Result<(), String> {
            let parts = [&volume, &other].map(|volume| Part::start(scope, volume));
            for (step, (part, operation)) in sequence.iter().enumerate() {
                parts[usize::from(part & 1)].run(operation, step)?;
                self.recorder.mark(1);
                states.push(LegalState::of(&volume, Kind::Sequence)?);
                if step % STEPS_OF_A_SNAPSHOT == STEPS_OF_A_SNAPSHOT - 1 {
                    end_snapshot(snapshot.take());
                    snapshot = self.begin_snapshot(&volume, &states[states.len() - 1])?;
                }
            }
            end_snapshot(snapshot.take());
            Ok(())
        })?;
        let mut events = self.recorder.drain();
        // What closing leaves to do is no operation of the sequence.
        let is_mark = |event: &Event| matches!(event, Event::Mark(_));
        events.truncate(events.iter().rposition(is_mark).map_or(0, |last| last + 1));
        let legal = (0..states.len()).map(|first| {
            let until = (first + 2).min(states.len());
            states[first..until].to_vec()
        });
        Ok(Recorded {
            kind: Kind::Sequence,
            recording: events.into(),
            from: 0,
            legal: legal.collect(),
        })
    }
}

/// A thread that runs operations when told.
struct Part<'v> {
    told: Sender<(&'v Operation, usize)>,
    done: Receiver<()>,
}

impl<'v> Part<'v> {
    fn start<'scope>(scope: &'scope Scope<'scope, 'v>, volume: &'v Volume) -> Part<'v> {
        let (told, tasks) = channel::<(&Operation, usize)>();
        let (ended, done) = channel();
        scope.spawn(move || {
            let mut actor = Actor::new(volume);
            for (operation, step) in tasks {
                let _ = actor.run(operation, step);
                if ended.send(()).is_err() {
                    break;
                }
            }
            volume.thread_exit();
        });
        Part { told, done }
    }

    fn run(&self, operation: &'v Operation, step: usize) -> Result<(), String> {
        let gone = "an operation panicked";
        self.told.send((operation, step)).map_err(|_| gone)?;
        self.done.recv().map_err(|_| gone.to_owned())
    }
}
