//! Where workloads run: pools in memory that hold a scene and come back to it after every run.

use super::judge::{Judge, Kind, Legal};
use super::operation::{Actor, Operation};
use super::scene::Scene;
use super::watch::Watched;
use super::workload::Ground;
use egeria_fs::*;
use egeria_media::Pool;
use egeria_media::recorder::{CrashImages, Event, PoolSet, Recorder, Recording};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

/// A run, and what may be found when it is cut off.
pub(super) struct Recorded {
    pub(super) kind: Kind,
    pub(super) recording: Recording,
    /// The point where looking begins: what was before is the matter of a shorter run.
    pub(super) from: usize,
    /// By the sum of the marks passed: what may be found then.
    pub(super) legal: Vec<Vec<Legal>>,
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

/// Pools with a scene, three times: to run on, to form images in, to crash recovery in.
pub(super) struct Stage {
    pub(super) live: PoolSet,
    pub(super) recorder: Recorder,
    pub(super) memory: PrivateMemory,
    pub(super) images: CrashImages,
    pub(super) second: CrashImages,
    /// The scene, as users see it; refused when there is no volume.
    pub(super) before: Legal,
    pub(super) judge: Judge,
    /// The pair last run, and what may be found of it.
    pub(super) pair: Option<([Operation; 2], Vec<Vec<Legal>>)>,
}

impl Stage {
    /// Prepare a scene on so many pools.
    pub(super) fn new(scene: Scene, pools: usize) -> Result<Stage, String> {
        let live = scene.build(pools)?;
        let copy = || {
            live.copy()
                .map_err(|error| format!("no memory for pools: {error}"))
        };
        let (images, second) = (CrashImages::over(copy()?), CrashImages::over(copy()?));
        let recorder = Recorder::reversible();
        live.follow(&recorder);
        let mut judge = Judge::default();
        judge.no_probe = scene == Scene::Full;
        let mut stage = Stage {
            before: Legal::refused(),
            memory: PrivateMemory::default(),
            live,
            recorder,
            images,
            second,
            judge,
            pair: None,
        };
        if scene.is_whole() {
            let volume = stage.attach()?;
            stage.before = Legal::of(&volume, Kind::Sequence)?;
        }
        Ok(stage)
    }

    /// The stage of a worker that is watched.
    pub(super) fn watched(ground: Ground, watched: &Arc<Watched>) -> Result<Stage, String> {
        let mut stage = Stage::new(ground.scene, ground.pools)?;
        stage.judge.watched = watched.clone();
        Ok(stage)
    }

    /// The pools to run on.
    pub(super) fn pools(&self) -> Vec<Arc<Pool>> {
        self.live.iter().cloned().collect()
    }

    /// The scene as it was; what is stored from here on is recorded.
    pub(super) fn reset(&mut self) {
        self.recorder.undo(&self.live);
    }

    /// The scene as it was, attached.
    pub(super) fn attach(&mut self) -> Result<Arc<Volume>, String> {
        self.reset();
        let options = AttachOptions::default();
        let volume = Volume::attach_private(&self.pools(), &mut self.memory, &options);
        volume.map_err(|error| error.to_string())
    }

    /// What a sequence leaves, as users see it.
    pub(super) fn after(&mut self, sequence: &[Operation]) -> Result<Legal, String> {
        let volume = self.attach()?;
        let mut actor = Actor::new(&volume);
        for (step, operation) in sequence.iter().enumerate() {
            let _ = actor.run(operation, step);
        }
        Legal::of(&volume, Kind::Sequence)
    }

    /// Run a sequence, to look at its last operation; `before` is what the others leave. `loaded`: the
    /// session knows all inodes. `None` when the last one changes nothing on media.
    pub(super) fn record_last(
        &mut self,
        sequence: &[Operation],
        before: &Legal,
        loaded: bool,
    ) -> Result<Option<Recorded>, String> {
        let (last, prefix) = sequence.split_last().ok_or("an empty sequence")?;
        let volume = self.attach()?;
        if loaded {
            Legal::of(&volume, Kind::Sequence)?;
        }
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
        let after = Legal::of(&volume, Kind::Sequence)?;
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
        std::thread::scope(|scope| -> Result<(), String> {
            let parts = [&volume, &other].map(|volume| Part::start(scope, volume));
            for (step, (part, operation)) in sequence.iter().enumerate() {
                parts[usize::from(part & 1)].run(operation, step)?;
                self.recorder.mark(1);
                states.push(Legal::of(&volume, Kind::Sequence)?);
            }
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
