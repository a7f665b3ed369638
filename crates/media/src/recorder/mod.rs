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
//! What may have arrived follows the media assumptions (DESIGN.md): of each line, any
//! prefix of the stores to it since it last persisted, cut between aligned 8-byte words;
//! lines in any order. A line persists up to a flush of it when *the thread that
//! flushed* fences. A copy that bypasses the cache counts as store + flush.

mod choices;
mod images;
mod lines;

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};

pub use choices::Choice;
pub use images::{CrashImage, CrashImages, CrashState, PendingLine};

use crate::address::{PoolIndex, PoolOffset};
use crate::pool::Pool;

/// One thing that happened to the recorded pools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Bytes were stored; visible, not yet durable.
    Store {
        /// The kernel's id of the thread.
        thread: u32,
        /// Where.
        pool: PoolIndex,
        /// First byte.
        at: PoolOffset,
        /// What is there now.
        bytes: Box<[u8]>,
    },
    /// The lines that the range touches were written back.
    Flush {
        /// The kernel's id of the thread.
        thread: u32,
        /// Where.
        pool: PoolIndex,
        /// First byte.
        at: PoolOffset,
        /// Length of the range.
        bytes: u64,
    },
    /// What the thread flushed before is durable from here on.
    Fence {
        /// The kernel's id of the thread.
        thread: u32,
    },
    /// A place the test marked, as "operation 7 returned".
    Mark(u64),
}

/// Records the pools attached to it; cheap to clone, clones share the record.
#[derive(Clone, Default)]
pub struct Recorder {
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    bases: Vec<Base>,
    events: Vec<Event>,
    ended: bool,
    flushes: Skip,
    fences: Skip,
}

/// Counts events and leaves out the one it was told to.
#[derive(Default)]
struct Skip {
    seen: u64,
    left_out: Option<u64>,
}

impl Skip {
    fn keeps_next(&mut self) -> bool {
        self.seen += 1;
        self.left_out != Some(self.seen - 1)
    }
}

/// A pool as it was when it was attached.
#[derive(Clone)]
pub(crate) struct Base {
    pub(crate) pool: PoolIndex,
    pub(crate) image: Arc<File>,
    pub(crate) bytes: u64,
}

impl Recorder {
    /// A recorder with no pool and no event.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// Takes the pool's present content as its durable base and records it from now
    /// on. Other threads must not store to the pool meanwhile. Stores of other
    /// processes, or through other mappings of the same file, are not seen.
    ///
    /// # Errors
    /// When there is no memory for the base or the pool cannot be read.
    pub fn attach(&self, index: PoolIndex, pool: &Pool) -> io::Result<()> {
        let image = Arc::new(memory_file(pool.bytes())?);
        save(pool, &image)?;
        self.lock().bases.push(Base {
            pool: index,
            image,
            bytes: pool.bytes(),
        });
        *pool.attachment().inner() = Some((self.clone(), index));
        pool.set_hooked(true);
        Ok(())
    }

    /// Stops recording a pool.
    pub fn detach(pool: &Pool) {
        pool.set_hooked(false);
        *pool.attachment().inner() = None;
    }

    /// Adds a mark between the events.
    pub fn mark(&self, id: u64) {
        self.lock().push(Event::Mark(id));
    }

    /// Ends recording and hands over what was recorded.
    pub fn take(&self) -> Recording {
        let mut log = self.lock();
        log.ended = true;
        Recording {
            bases: std::mem::take(&mut log.bases),
            events: std::mem::take(&mut log.events),
        }
    }

    /// Leaves the `n`th flush from the start (counting from 0) out of the record: a
    /// test of crash consistency must notice, else it proves nothing.
    pub fn drop_nth_flush(&self, n: u64) {
        self.lock().flushes.left_out = Some(n);
    }

    /// As [`Recorder::drop_nth_flush`], for fences.
    pub fn drop_nth_fence(&self, n: u64) {
        self.lock().fences.left_out = Some(n);
    }

    /// Flushes and fences seen so far, dropped ones included.
    pub fn seen(&self) -> (u64, u64) {
        let log = self.lock();
        (log.flushes.seen, log.fences.seen)
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Log {
    fn push(&mut self, event: Event) {
        if self.ended {
            return;
        }
        let keep = match event {
            Event::Flush { .. } => self.flushes.keeps_next(),
            Event::Fence { .. } => self.fences.keeps_next(),
            Event::Store { .. } | Event::Mark(_) => true,
        };
        if keep {
            self.events.push(event);
        }
    }
}

/// A pool's side of the recorder; empty when nobody records.
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

    /// Does a store and records what is there afterwards, as one step: the record
    /// has the order in which the stores became visible.
    pub(crate) fn stored<E>(
        &self,
        memory: &Pool,
        at: PoolOffset,
        bytes: usize,
        flushes: bool,
        store: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((recorder, pool)) = self.get() else {
            return store();
        };
        let mut log = recorder.lock();
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
            if flushes {
                log.push(Event::Flush {
                    thread,
                    pool,
                    at,
                    bytes: bytes as u64,
                });
            }
        }
        result
    }

    #[cold]
    pub(crate) fn flushed(&self, at: PoolOffset, bytes: u64) {
        if let Some((recorder, pool)) = self.get() {
            recorder.lock().push(Event::Flush {
                thread: thread_id(),
                pool,
                at,
                bytes,
            });
        }
    }

    #[cold]
    pub(crate) fn fenced(&self) {
        if let Some((recorder, _)) = self.get() {
            recorder.lock().push(Event::Fence {
                thread: thread_id(),
            });
        }
    }
}

/// What a recorder saw: the pools as they were, and everything since.
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

    /// The points that suffice: before each fence (what can be found at an earlier
    /// point since the fence before, can be found there too), after each mark, the end.
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

    pub(crate) fn bases(&self) -> &[Base] {
        &self.bases
    }
}

fn thread_id() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// A file in memory, all holes.
fn memory_file(bytes: u64) -> io::Result<File> {
    use std::os::fd::FromRawFd;
    // SAFETY: the name is a constant; the descriptor is fresh and ours.
    let file = unsafe {
        match libc::memfd_create(c"egeria-image".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(io::Error::last_os_error()),
            descriptor => File::from_raw_fd(descriptor),
        }
    };
    file.set_len(bytes)?;
    Ok(file)
}

/// Writes a pool's content to a file of its size that is all zeros; holes stay holes.
fn save(pool: &Pool, file: &File) -> io::Result<()> {
    let mut chunk = vec![0u8; 256 << 10];
    let mut at = 0;
    while at < pool.bytes() {
        let bytes = (pool.bytes() - at).min(chunk.len() as u64) as usize;
        pool.read_bytes(PoolOffset(at), &mut chunk[..bytes])
            .map_err(io::Error::other)?;
        if chunk[..bytes].iter().any(|&byte| byte != 0) {
            file.write_all_at(&chunk[..bytes], at)?;
        }
        at += bytes as u64;
    }
    Ok(())
}
