//! Coherence with the kernel's page cache.
//!
//! Opens are direct unless the file has a lease (module `leases`). So the kernel caches pages of other files only where
//! it must: `mmap`, `sendfile`, programs being executed. It reads them with READ requests without a lock owner and
//! writes them back with WRITE requests marked so. The rules:
//!
//! 1. Before such a request is answered, and when the preload library says that a file will be mapped, the inode is
//!    marked kernel-cached, once per open handle. From then on preload goes through the kernel, which keeps its own
//!    `read` and `write` coherent with its pages.
//! 2. After the mount changed a marked inode, it invalidates the pages: a page may have been read between the kernel's
//!    own invalidation and the change. The writer gets its answer after that, so every mapping sees a write that
//!    returned. Until then, stores through mappings are merged with the write (module `merge`).
//! 3. No request reports stores into holes, but `st_blocks`, `SEEK_DATA` and `SEEK_HOLE` depend on them. These are
//!    answered after an invalidation, which makes the kernel write its pages back. This happens at most once each time
//!    the kernel got pages of holes.
//! 4. When the last marked handle is released, first the pages are dropped, then the mark is removed, then the file is
//!    closed. As long as one is open, no other handle's open or release drops pages: that waits for pages that a write
//!    has locked.
//!
//! An invalidation waits for pages that are locked while their READ is served, and it writes dirty pages back. So no
//! thread that serves requests may send one: a separate thread does, and it sends the answers too. Truncations are
//! answered first, since the kernel blocks write-back of the file until then. The same holds for writes without a lock
//! owner, because the kernel locks their pages. This thread waits for a helper process that waits in the kernel
//! (module `notifiers`), so it can be killed.
//!
//! Other users of the engine in this process call [`Coherence::changed`] ([`crate::MountHandle::invalidate`]). Changes
//! by other processes are noticed by time stamps ([`Coherence::watch`], twice a second).

use crate::kernel::notify::Kernel;
use crate::leases::Leases;
use crate::state::merge::Merge;
use egeria_engine::{
    FileReference, InodeNumber, Outcome, Volume, lock_within_patience, wait_within_patience,
    within_patience,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the invalidating thread waits for an inode.
const AFTER_PATIENCE: Duration = Duration::from_millis(1);

/// A range of bytes of an inode; length 0 reaches to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub offset_bytes: u64,
    pub length_bytes: u64,
}

impl Range {
    pub(crate) const ALL: Range = Range {
        offset_bytes: 0,
        length_bytes: 0,
    };
}

/// What is done after an invalidation, on the thread that sends them.
type After = Box<dyn FnOnce() + Send>;

enum Job {
    Invalidate {
        ino: InodeNumber,
        range: Range,
        after: Option<After>,
    },
    Stop,
}

/// A marked inode: its change number at the last check, its marks, and writes that are merged with cached pages.
#[derive(Default)]
struct Watched {
    marks: u32,
    seen: Option<u64>,
    holes: Arc<GivenHoles>,
    merge: Arc<Merge>,
}

/// How often the kernel got pages of holes, which programs may store into, and how many of these it has written back
/// and dropped.
#[derive(Default)]
struct GivenHoles {
    given: AtomicU64,
    dropped: AtomicU64,
}

impl GivenHoles {
    fn is_any_left(&self) -> bool {
        self.given.load(Ordering::Acquire) > self.dropped.load(Ordering::Acquire)
    }
}

/// A write to an inode of which the kernel has no pages. The kernel gets none until the write is done, so the write
/// must not wait for long.
pub(crate) struct Unmarked<'a> {
    coherence: &'a Coherence,
    ino: u64,
}

impl Drop for Unmarked<'_> {
    fn drop(&mut self) {
        let mut writes = locked(&self.coherence.unmarked);
        if let Some(count) = writes.get_mut(&self.ino) {
            *count -= 1;
            if *count == 0 {
                writes.remove(&self.ino);
            }
        }
    }
}

/// How a write is to be made.
pub(crate) enum Writing<'a> {
    /// Keep the old pages, because the kernel may write its cached pages back.
    Beside(Arc<Merge>),
    /// The kernel has no pages.
    Alone(Unmarked<'a>),
}

/// Marks of this mount, and the way to the thread that invalidates.
pub(crate) struct Coherence {
    volume: Arc<Volume>,
    jobs: Mutex<Sender<Job>>,
    marked: Mutex<HashMap<u64, Watched>>,
    /// Writes under way that began before there was a mark, by inode.
    unmarked: Mutex<HashMap<u64, u32>>,
    /// Invalidations that the kernel has not got yet, by inode.
    unsent: Arc<Mutex<HashMap<u64, u32>>>,
}

/// The mark of one open handle, set at most once.
#[derive(Default)]
pub(crate) struct Mark {
    /// The kernel may have pages.
    set: AtomicBool,
    /// The inode is marked for this handle, also while pages are still held back.
    counted: AtomicBool,
    setting: Mutex<()>,
}

impl Coherence {
    /// With the queue of the thread that is to run [`send_invalidations`].
    pub(crate) fn new(volume: Arc<Volume>) -> (Self, Invalidations) {
        let (jobs, queue) = channel();
        let unsent = Arc::new(Mutex::default());
        (
            Coherence {
                volume,
                jobs: Mutex::new(jobs),
                marked: Mutex::default(),
                unmarked: Mutex::default(),
                unsent: unsent.clone(),
            },
            Invalidations { queue, unsent },
        )
    }

    /// The kernel is about to hold pages it got through this handle.
    pub(crate) fn mark(&self, ino: InodeNumber, mark: &Mark) -> Outcome<()> {
        if mark.set.load(Ordering::Acquire) {
            return Ok(());
        }
        let _setting = lock_within_patience(&mark.setting)?;
        if !mark.set.load(Ordering::Acquire) {
            if !mark.counted.load(Ordering::Acquire) {
                self.volume.mark_kernel_cached(ino)?;
                let now = self.volume.change_number(ino);
                let mut marked = locked(&self.marked);
                let watched = marked.entry(ino.0).or_default();
                if watched.marks == 0 {
                    watched.seen = now;
                }
                watched.marks += 1;
                drop(marked);
                mark.counted.store(true, Ordering::Release);
            }
            // A write that did not see the mark keeps no old pages. So every page that the kernel gets through this
            // handle must be read after such writes. They end soon. They wait for the inode only after giving up their
            // note, since the holder of the inode may wait for the page that is delayed here.
            wait_within_patience(|| !locked(&self.unmarked).contains_key(&ino.0))?;
            mark.set.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// How to write to an inode now.
    pub(crate) fn writing(&self, ino: InodeNumber) -> Writing<'_> {
        // Record the write before checking the mark; [`Coherence::mark`] marks first and checks these records then.
        *locked(&self.unmarked).entry(ino.0).or_insert(0) += 1;
        let alone = Unmarked {
            coherence: self,
            ino: ino.0,
        };
        match self.merge(ino) {
            Some(merge) => Writing::Beside(merge),
            None => Writing::Alone(alone),
        }
    }

    /// Whether handles other than this one may use pages of the kernel.
    pub(crate) fn are_pages_used_by_others(&self, ino: InodeNumber, own: &Mark) -> bool {
        let marks = (locked(&self.marked).get(&ino.0)).map_or(0, |watched| watched.marks);
        marks > u32::from(own.counted.load(Ordering::Acquire))
    }

    /// The state that merges writes with cached pages of the kernel. `None`: the kernel has no pages.
    pub(crate) fn merge(&self, ino: InodeNumber) -> Option<Arc<Merge>> {
        let marked = locked(&self.marked);
        marked.get(&ino.0).map(|watched| watched.merge.clone())
    }

    fn holes(&self, ino: InodeNumber) -> Option<Arc<GivenHoles>> {
        let marked = locked(&self.marked);
        marked.get(&ino.0).map(|watched| watched.holes.clone())
    }

    /// Record that the kernel gets pages of holes. Returns whether it had none.
    pub(crate) fn note_given_hole(&self, ino: InodeNumber) -> bool {
        self.holes(ino).is_some_and(|holes| {
            let is_first = !holes.is_any_left();
            holes.given.fetch_add(1, Ordering::AcqRel);
            is_first
        })
    }

    /// Whether the kernel may have pages of holes.
    pub(crate) fn has_given_holes(&self, ino: InodeNumber) -> bool {
        self.holes(ino).is_some_and(|holes| holes.is_any_left())
    }

    /// Have the kernel write back what programs stored, by a thread that may wait for it.
    pub(crate) fn write_stores_back(&self, ino: InodeNumber, kernel: &Kernel) {
        let holes = self.holes(ino).unwrap_or_default();
        let given = holes.given.load(Ordering::Acquire);
        kernel.forget_pages(ino, 0, 0);
        // Pages that it got since then may still be there.
        holes.dropped.fetch_max(given, Ordering::AcqRel);
    }

    /// The handle is closed: drops pages, mark and open file, in this order. The pages stay while another handle uses them,
    /// and with `keeps_pages`, under a lease.
    pub(crate) fn retire(&self, ino: InodeNumber, mark: &Mark, keeps_pages: impl FnOnce() -> bool) {
        if !mark.counted.load(Ordering::Acquire) {
            return self.volume.close(ino);
        }
        let mut marked = locked(&self.marked);
        let mut are_used = false;
        if let Some(watched) = marked.get_mut(&ino.0) {
            watched.marks -= 1;
            are_used = watched.marks > 0;
            if !are_used {
                marked.remove(&ino.0);
            }
        }
        drop(marked);
        let volume = self.volume.clone();
        let after = move || {
            volume.unmark_kernel_cached(ino);
            volume.close(ino);
        };
        if are_used || keeps_pages() {
            after()
        } else {
            self.send(ino, Range::ALL, Some(Box::new(after)))
        }
    }

    /// The mount changed the range: invalidate if need be, then do `after`.
    pub(crate) fn changed_then(
        &self,
        ino: InodeNumber,
        file: FileReference,
        range: Range,
        after: impl FnOnce() + Send + 'static,
    ) {
        if self.volume.is_kernel_cached(file) {
            self.send(ino, range, Some(Box::new(after)))
        } else {
            after()
        }
    }

    /// The range was changed: invalidate soon, if the kernel has pages.
    pub(crate) fn changed(&self, ino: InodeNumber, file: FileReference, range: Range) {
        if self.volume.is_kernel_cached(file) {
            self.send(ino, range, None);
        }
    }

    /// Invalidate marked inodes that any process changed since the last check. `is_leased`: changes past the kernel drop
    /// the pages before they are made.
    pub(crate) fn watch(&self, is_leased: impl Fn(InodeNumber) -> bool) {
        let inodes: Vec<u64> = locked(&self.marked).keys().copied().collect();
        for ino in inodes {
            // Asked first: what is changed later is noticed at the next look.
            let is_leased = is_leased(InodeNumber(ino));
            let now = self.volume.change_number(InodeNumber(ino));
            if now.is_none() {
                continue;
            }
            let mut marked = locked(&self.marked);
            let Some(watched) = marked.get_mut(&ino) else {
                continue;
            };
            let changed = watched.seen != now;
            watched.seen = now;
            drop(marked);
            if changed && !is_leased {
                self.send(InodeNumber(ino), Range::ALL, None);
            }
        }
    }

    /// Ends [`send_invalidations`] after all earlier jobs.
    pub(crate) fn stop(&self) {
        let _ = locked(&self.jobs).send(Job::Stop);
    }

    /// Whether the kernel has yet to get an invalidation of the inode. It ignores the answer to a request for
    /// attributes that an invalidation overtook.
    pub(crate) fn has_unsent(&self, ino: InodeNumber) -> bool {
        locked(&self.unsent).contains_key(&ino.0)
    }

    fn send(&self, ino: InodeNumber, range: Range, after: Option<After>) {
        *locked(&self.unsent).entry(ino.0).or_insert(0) += 1;
        let unsent = locked(&self.jobs)
            .send(Job::Invalidate { ino, range, after })
            .err();
        // The thread and the mount have ended: nothing to invalidate.
        if let Some(Job::Invalidate {
            after: Some(after), ..
        }) = unsent.map(|error| error.0)
        {
            after();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is to be invalidated, in order.
pub(crate) struct Invalidations {
    queue: Receiver<Job>,
    unsent: Arc<Mutex<HashMap<u64, u32>>>,
}

impl Invalidations {
    fn note_sent(&self, ino: InodeNumber) {
        let mut unsent = locked(&self.unsent);
        if let Some(count) = unsent.get_mut(&ino.0) {
            *count -= 1;
            if *count == 0 {
                unsent.remove(&ino.0);
            }
        }
    }
}

/// The invalidating thread.
pub(crate) fn send_invalidations(jobs: Invalidations, kernel: &Kernel, leases: &Leases) {
    while let Ok(Job::Invalidate { ino, range, after }) = jobs.queue.recv() {
        let offset = i64::try_from(range.offset_bytes).unwrap_or(i64::MAX);
        let length = i64::try_from(range.length_bytes).unwrap_or(0);
        kernel.forget_pages(ino, offset, length);
        jobs.note_sent(ino);
        if let Some(after) = after {
            leases.work_for_kernel();
            // Other threads wait for this one, so work that would have to wait for a lock is postponed.
            let _ = within_patience(AFTER_PATIENCE, || {
                after();
                Ok(())
            });
        }
    }
}
