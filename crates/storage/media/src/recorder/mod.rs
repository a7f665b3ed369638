//! Records every store, flush and fence of a set of pools, in order, for crash tests.
//!
//! ```text
//!  pools with a Recorder attached ── run operations ──▶ Recording (base images + events)
//!                                                          │
//!        CrashImages::state_at(point) ◀────────────────────┘
//!              │ persisted image + lines with stores that may or may not have arrived
//!              ▼
//!        choices(seed, limit) ──▶ image(choice) ──▶ pools to recover from
//! ```
//!
//! Flushes and fences are known by their [`Place`] in the program; [`Recording::without`] leaves one place out. A
//! crash test must then find an error; otherwise it proves nothing about this place.
//!
//! The possible crash images follow the media assumptions (DESIGN.md): of each line, any prefix of the stores since it
//! last persisted, cut between aligned 8-byte words; lines in any order. A line persists up to a flush of it when *the
//! thread that flushed* fences. A copy that bypasses the cache counts as store + flush.

mod choices;
mod content;
mod event;
mod images;
mod lines;
mod place;
mod undo;

use std::io;
use std::ops::RangeInclusive;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard};

pub use choices::Choice;
pub use content::PoolSet;
use content::copy_of;
pub use event::Event;
pub use images::{CrashImage, CrashImages, CrashState, PendingLine};
pub use place::{Place, PlaceKind};
use undo::Undo;

use crate::address::{PoolIndex, PoolOffset};
use crate::pool::Pool;

/// Records the pools attached to it; cheap to clone, clones share the record.
#[derive(Clone, Default)]
pub struct Recorder {
    log: Arc<Mutex<Log>>,
    gate: Arc<Mutex<Option<Gate>>>,
}

/// Called by a thread after each of its events, with no lock of the recorder held.
pub type Gate = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Log {
    bases: Vec<Base>,
    events: Vec<Event>,
    ended: bool,
    /// The bytes before each store, for users that take stores back.
    before: Option<Undo>,
}

/// A pool as it was when it was attached.
#[derive(Clone)]
pub(crate) struct Base {
    pub(crate) index: PoolIndex,
    pub(crate) pool: Arc<Pool>,
}

impl Recorder {
    /// A recorder with no pool and no event.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// A recorder that keeps the old bytes of stores, see [`Recorder::undo`].
    pub fn reversible() -> Recorder {
        let recorder = Recorder::default();
        recorder.lock().before = Some(Undo::default());
        recorder
    }

    /// Takes the pool's present content as its durable base and records it from now on. During this call other threads
    /// must not store to the pool. Stores of other processes, or through other mappings of the same file, are not
    /// seen.
    ///
    /// # Errors
    /// `EIO` when the pool cannot be read.
    pub fn attach(&self, index: PoolIndex, pool: &Pool) -> io::Result<()> {
        let base = Base {
            index,
            pool: Arc::new(copy_of(pool)?),
        };
        self.lock().bases.push(base);
        self.follow(index, pool);
        Ok(())
    }

    /// As [`Recorder::attach`], for callers that have the pool's present content elsewhere.
    pub fn follow(&self, index: PoolIndex, pool: &Pool) {
        *pool.attachment().inner() = Some((self.clone(), index));
        pool.set_recorded(true);
    }

    /// Stops recording a pool.
    pub fn detach(pool: &Pool) {
        pool.set_recorded(false);
        *pool.attachment().inner() = None;
    }

    /// Adds a mark between the events.
    pub fn mark(&self, id: u64) {
        self.lock().push(Event::Mark(id));
    }

    /// Ends recording and returns the recording.
    pub fn take(&self) -> Recording {
        let mut log = self.lock();
        log.ended = true;
        Recording {
            bases: std::mem::take(&mut log.bases),
            events: std::mem::take(&mut log.events),
        }
    }

    /// From now on every thread passes this gate after each of its events. The gate may make threads wait for each
    /// other, and so decide which thread goes on.
    pub fn set_gate(&self, gate: Option<Gate>) {
        *self
            .gate
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner()) = gate;
    }

    fn pass_gate(&self) {
        let gate = self
            .gate
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .clone();
        if let Some(gate) = gate {
            gate();
        }
    }

    /// Returns the events since the last call, and goes on.
    pub fn drain(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().events)
    }

    /// Takes back all stores to these pools that a reversible recorder saw, and drops them from the record.
    pub fn undo(&self, pools: &PoolSet) {
        let mut log = self.lock();
        log.events.clear();
        if let Some(before) = &mut log.before {
            before.take_back(pools);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Log {
    fn push(&mut self, event: Event) {
        if !self.ended {
            self.events.push(event);
        }
    }
}

impl PoolSet {
    /// Records all of them.
    pub fn follow(&self, recorder: &Recorder) {
        for (index, pool) in self.numbered() {
            recorder.follow(index, pool);
        }
    }
}

/// A pool's side of the recorder; empty when the pool is not recorded.
#[derive(Default)]
pub(crate) struct Attachment(Mutex<Option<(Recorder, PoolIndex)>>);

impl Attachment {
    fn inner(&self) -> MutexGuard<'_, Option<(Recorder, PoolIndex)>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn get(&self) -> Option<(Recorder, PoolIndex)> {
        self.inner().clone()
    }

    /// Makes a store and records the new content in one step, so that the record has the order in which stores became
    /// visible.
    pub(crate) fn stored<E>(
        &self,
        memory: &Pool,
        at: PoolOffset,
        bytes: usize,
        flushed_by: Option<&'static Location<'static>>,
        store: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((recorder, pool)) = self.get() else {
            return store();
        };
        let mut log = recorder.lock();
        if let Some(before) = &mut log.before {
            before.note(memory, pool, at, bytes);
        }
        let result = store();
        let mut landed = vec![0u8; bytes];
        if bytes > 0 && memory.read_bytes(at, &mut landed).is_ok() {
            let thread = thread_id();
            log.push(Event::Store {
                thread,
                pool,
                at,
                bytes: landed.into(),
            });
            if let Some(caller) = flushed_by {
                log.push(Event::Flush {
                    thread,
                    pool,
                    at,
                    bytes: bytes as u64,
                    caller,
                });
            }
        }
        drop(log);
        recorder.pass_gate();
        result
    }

    #[cold]
    pub(crate) fn flushed(&self, at: PoolOffset, bytes: u64, caller: &'static Location<'static>) {
        if let Some((recorder, pool)) = self.get() {
            recorder.lock().push(Event::Flush {
                thread: thread_id(),
                pool,
                at,
                bytes,
                caller,
            });
            recorder.pass_gate();
        }
    }

    #[cold]
    pub(crate) fn fenced(&self, caller: &'static Location<'static>) {
        if let Some((recorder, _)) = self.get() {
            recorder.lock().push(Event::Fence {
                thread: thread_id(),
                caller,
            });
            recorder.pass_gate();
        }
    }
}

/// A recording: the pools at the beginning, and all events since.
#[derive(Clone)]
pub struct Recording {
    bases: Vec<Base>,
    events: Vec<Event>,
}

impl Recording {
    /// Everything that happened, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Every point at which the machine may have crashed: point `p` is after `p` events.
    pub fn points(&self) -> RangeInclusive<usize> {
        0..=self.events.len()
    }

    /// The points that are sufficient to test: before each fence (it covers all earlier points since the previous
    /// fence), after each mark, and the end.
    pub fn telling_points(&self) -> Vec<usize> {
        let mut points: Vec<usize> = self
            .events
            .iter()
            .enumerate()
            .filter_map(|(index, event)| match event {
                Event::Fence { .. } => Some(index),
                Event::Mark(_) => Some(index + 1),
                Event::Store { .. } | Event::Flush { .. } => None,
            })
            .chain([self.events.len()])
            .collect();
        points.dedup();
        points
    }

    /// The marks made before a point, in order.
    pub fn marks_before(&self, point: usize) -> impl Iterator<Item = u64> + '_ {
        self.events[..point.min(self.events.len())]
            .iter()
            .filter_map(|event| match event {
                Event::Mark(id) => Some(*id),
                _ => None,
            })
    }

    /// The places of the flushes and fences in it, each once.
    pub fn places(&self) -> std::collections::BTreeSet<Place> {
        self.events.iter().filter_map(Place::of).collect()
    }

    /// This recording as if the program had no flush or fence at this place.
    #[must_use]
    pub fn without(&self, place: &Place) -> Recording {
        let mut recording = self.clone();
        recording
            .events
            .retain(|event| Place::of(event).as_ref() != Some(place));
        recording
    }

    pub(crate) fn bases(&self) -> &[Base] {
        &self.bases
    }
}

/// Events of pools with a base that is known elsewhere, see [`Recorder::follow`].
impl From<Vec<Event>> for Recording {
    fn from(events: Vec<Event>) -> Recording {
        let bases = Vec::new();
        Recording { bases, events }
    }
}

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}
