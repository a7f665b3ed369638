//! Leases that this mount grants its kernel (see `egeria_engine`, module `leases`). Under a lease the kernel may cache
//! names, also missing ones, attributes and pages without asking. The lease is recalled before a process changes them
//! past the kernel.
//!
//! Why a cached answer is never stale:
//!
//! 1. A lease is granted before the data it covers is read, and none is granted during a recall.
//! 2. The kernel may store an answer after a recall began. It drops such attributes, because it counts invalidations
//!    of an inode. If it is just creating the inode, the recall waits: the look-up was counted before. A look-up of a
//!    name holds its directory, and a recall of the directory waits for it. A kernel that does not wait (Linux 6.19)
//!    is given time.
//! 3. A missing name is recorded before it is answered, and dropped in the recall of its directory.
//! 4. An existing name stays cached until it is changed itself. Otherwise a process that holds the kernel's lock of a
//!    directory would block every look-up of an uncached name in it. A recall of a file drops the file's name; a
//!    recall of a directory drops the names of the directories in it. Directories and open files are expired instead
//!    of dropped, because a process may be using them. Programs with the preload library change their names only
//!    through the kernel.
//! 5. The name of a file is also dropped before its owner changes. Before it changes a file, the kernel relies on the
//!    cached owner, and a look-up refreshes that. It asks for everything else when the attributes are gone, also to
//!    open a file.
//! 6. The kernel collects listings itself (module `listing`).
//! 7. Pages are for handles that read, and write through them (module `pages`).
//!
//! The threads that recall serve no requests, and a thread that asks for a recall holds no lock. So a recall may wait
//! for a request, but no request waits for a recall. Notifications that can block in the kernel are sent by separate
//! processes (module `notifiers`), so that a killed mount ends.

mod given;
mod lease;
mod listing;
mod listings;
mod paged;
mod pages;
mod recall;
mod times;

use crate::kernel::notify::Kernel;
use crate::options::LeaseTiming;
use egeria_engine::{Attributes, FileKind, InodeNumber, LeaseMount, LookupReferences, Volume};
use lease::Lease;
pub(crate) use lease::{Asker, Epoch};
use paged::Paged;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use times::{DIRECTORY, FILE, NAME, ROOT, Rests};

const SHARDS: usize = 16;
/// Most missing names that the kernel may remember, of one directory and in all.
const MAX_MISSING: usize = 1024;
const MAX_MISSING_IN_ALL: usize = 1 << 16;
/// Most names of one file that the kernel may remember; it moves names itself.
const MAX_NAMES: usize = 4;

#[derive(Default)]
struct Shard {
    leases: HashMap<u64, Lease>,
    writers: HashMap<u64, Writers>,
}

/// Number of open handles of the kernel that may change a file.
#[derive(Default)]
struct Writers {
    all: u32,
    /// Those that write past the page cache.
    direct: u32,
}

impl Shard {
    /// Whether a handle of the kernel may change the file past the page cache.
    fn has_direct_writers(&self, ino: InodeNumber) -> bool {
        let writers = self.writers.get(&ino.0);
        writers.is_some_and(|writers| writers.direct > 0)
    }
}

/// Leases of one mount, by inode.
pub(crate) struct Leases {
    volume: Arc<Volume>,
    references: Option<LookupReferences>,
    /// Set once this mount grants leases. It does not while another mount of the session does, or if the session has
    /// no room.
    mount: OnceLock<LeaseMount>,
    /// The mount ends.
    is_over: AtomicBool,
    /// Counts grants of leases.
    epochs: AtomicU64,
    /// The kernel cannot be notified to forget names.
    has_no_names: bool,
    rests: Rests,
    shards: [Mutex<Shard>; SHARDS],
    missing: AtomicUsize,
    paged: Paged,
}

/// How long the kernel may remember a name that is there.
pub(crate) fn name_validity(is_granted: bool) -> Duration {
    if is_granted { NAME } else { Duration::ZERO }
}

/// How long the kernel may remember attributes.
pub(crate) fn attribute_validity(is_granted: bool, attributes: &Attributes) -> Duration {
    match (is_granted, attributes.kind()) {
        (false, _) => Duration::ZERO,
        (true, _) if attributes.ino == InodeNumber::ROOT => ROOT,
        (true, FileKind::Directory) => DIRECTORY,
        (true, _) => FILE,
    }
}

impl Leases {
    pub(crate) fn new(
        volume: Arc<Volume>,
        references: Option<LookupReferences>,
        can_forget_names: bool,
        timing: LeaseTiming,
        max_page_bytes: u64,
    ) -> Leases {
        let leases = Leases {
            volume,
            references,
            mount: OnceLock::new(),
            is_over: AtomicBool::new(false),
            epochs: AtomicU64::new(0),
            has_no_names: !can_forget_names,
            rests: Rests::new(timing),
            shards: Default::default(),
            missing: AtomicUsize::new(0),
            paged: Paged::new(max_page_bytes),
        };
        leases.try_to_begin();
        leases
    }

    /// Grant leases from now on, unless another mount of the session does.
    pub(crate) fn try_to_begin(&self) {
        if self.mount.get().is_none()
            && !self.is_over.load(Ordering::Acquire)
            && let Some(references) = self.references
            && let Some(mount) = self.volume.grant_leases(references)
        {
            let _ = self.mount.set(mount);
        }
    }

    /// End all leases: no thread is left to recall them.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(references) = self.references {
            self.volume.end_leases_of(references);
        }
    }

    fn is_off(&self) -> bool {
        self.mount.get().is_none() || self.is_over.load(Ordering::Acquire)
    }

    /// Declares that this thread works for the kernel of this mount.
    pub(crate) fn work_for_kernel(&self) {
        egeria_engine::work_for_kernel(self.mount.get().copied());
    }

    fn shard(&self, ino: InodeNumber) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[ino.0 as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the kernel may remember what is read of the inode from now on.
    fn grant(&self, ino: InodeNumber, with_names: bool) -> Option<Epoch> {
        if self.is_off() || with_names && self.has_no_names {
            return None;
        }
        if let Some(lease) = self.shard(ino).leases.get(&ino.0)
            && let Some(epoch) = lease.epoch_for(with_names)
        {
            return Some(epoch);
        }
        // Before locking the shard, because it may read the log.
        let now = self.volume.attributes(ino).ok()?;
        let mut shard = self.shard(ino);
        let lease = shard.leases.entry(ino.0).or_default();
        if !lease.may_be_granted(&self.rests, &now) || !self.hold(lease, ino, with_names) {
            return None;
        }
        lease.grant(|| Epoch(self.epochs.fetch_add(1, Ordering::Relaxed) + 1))
    }

    /// Take the lease in the engine. `false`: another process is changing the inode.
    fn hold(&self, lease: &mut Lease, ino: InodeNumber, with_names: bool) -> bool {
        if !lease.is_held_for(with_names) && self.volume.lease(ino, with_names) {
            lease.hold(with_names);
        }
        lease.is_held_for(with_names)
    }

    /// Whether the kernel may cache attributes that were read under this lease.
    ///
    /// The first attributes of an inode that the kernel already has may not be cached. The kernel marks its old ones
    /// as valid a moment before it replaces them, and another thread may read them. The replacement is done when the
    /// same thread asks again.
    pub(crate) fn show(&self, ino: InodeNumber, epoch: Epoch, is_new: bool, asker: Asker) -> bool {
        let mut shard = self.shard(ino);
        let lease = shard.leases.get_mut(&ino.0);
        lease.is_some_and(|lease| lease.show(epoch, is_new, asker))
    }

    /// Record that a look-up in a directory is about to be answered. `false` if its lease was recalled since.
    pub(crate) fn note_answer(&self, directory: InodeNumber, epoch: Epoch) -> bool {
        let mut shard = self.shard(directory);
        let lease = shard.leases.get_mut(&directory.0);
        let lease = lease.filter(|lease| lease.has(epoch));
        lease.is_some_and(|lease| {
            lease.answered = Some(Instant::now());
            true
        })
    }

    /// Whether the kernel may remember what a name in the directory, looked up from now on, means.
    pub(crate) fn grant_names(&self, directory: InodeNumber) -> Option<Epoch> {
        self.grant(directory, true)
    }

    /// The kernel is about to move a name into the directory.
    pub(crate) fn note_moved_name(&self, directory: InodeNumber) {
        if self.is_off() {
            return;
        }
        if let Some(lease) = self.shard(directory).leases.get_mut(&directory.0) {
            lease.note_move();
        }
        self.volume.note_moved_name(directory);
    }

    /// The kernel is about to get the answer to its change of the inode. It marks its cached attributes as old, but an
    /// answer from before the change that is still on its way would replace them.
    pub(crate) fn changed_by_kernel(&self, ino: InodeNumber, kernel: &Kernel) {
        self.end_grant(ino, |_| true, kernel);
    }

    /// As `changed_by_kernel`, of a change of names in a directory. The kernel then asks for all attributes, so it needs
    /// a notification only if answers to other threads are on their way.
    pub(crate) fn names_changed_by_kernel(
        &self,
        directory: InodeNumber,
        (asker, removes): (Asker, bool),
        kernel: &Kernel,
    ) {
        let are_on_their_way = |lease: &mut Lease| {
            lease.note_name_change(asker, removes);
            !lease.has_answered_only(asker)
        };
        self.end_grant(directory, are_on_their_way, kernel);
    }

    /// A change by the kernel ends the grant. `are_on_their_way`: whether answers from before the change may come later.
    fn end_grant(
        &self,
        ino: InodeNumber,
        are_on_their_way: impl FnOnce(&mut Lease) -> bool,
        kernel: &Kernel,
    ) {
        // A change that comes before this notification needs a notification too.
        let is_to_be_notified = match self.shard(ino).leases.get_mut(&ino.0) {
            Some(lease) => {
                let is_needed = are_on_their_way(lease) && lease.is_granted();
                let is_to_be_notified = is_needed || lease.notifying > 0;
                lease.end_grant();
                lease.notifying += u32::from(is_to_be_notified);
                is_to_be_notified
            }
            None => false,
        };
        if is_to_be_notified {
            kernel.forget_attributes(ino);
            if let Some(lease) = self.shard(ino).leases.get_mut(&ino.0) {
                lease.notifying = lease.notifying.saturating_sub(1);
            }
        }
        if let Ok(now) = self.volume.attributes(ino) {
            self.note_change_by_kernel(ino, now.ctime_ns);
        }
    }

    /// Whether a name that this thread looks up in the directory is likely to be removed next. A lease on it would be
    /// work for nothing.
    pub(crate) fn is_removing(&self, directory: InodeNumber, asker: Asker) -> bool {
        let mut shard = self.shard(directory);
        let lease = shard.leases.get_mut(&directory.0);
        lease.is_some_and(|lease| lease.take_removing(asker))
    }

    /// The kernel made or changed an inode that it knows. So it may get a lease at once.
    pub(crate) fn note_change_by_kernel(&self, ino: InodeNumber, ctime_ns: i64) {
        if !self.is_off() {
            let mut shard = self.shard(ino);
            let lease = shard.leases.entry(ino.0).or_default();
            lease.changed_by_kernel_ns = Some(ctime_ns);
        }
    }

    /// The kernel is about to move a name of the file, together with its validity.
    pub(crate) fn begin_move_of_file(
        &self,
        ino: InodeNumber,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) {
        if let Some(lease) = self.shard(ino).leases.get_mut(&ino.0)
            // A recall may have removed the old name from the list before dropping it.
            && (lease.is_recalling() || lease.has_name(from.0, from.1))
        {
            lease.add_name(to.0, to.1);
        }
    }

    /// The file lost this name, or never got it: the kernel has nothing cached by it any more.
    pub(crate) fn end_move_of_file(&self, ino: InodeNumber, left: (InodeNumber, &[u8])) {
        if let Some(lease) = self.shard(ino).leases.get_mut(&ino.0) {
            lease.names.retain(|known| !known.is(left.0, left.1));
        }
    }

    /// Whether the kernel may cache the file under this name, as long as its attributes. `false` if these were
    /// recalled since.
    pub(crate) fn note_file(
        &self,
        ino: InodeNumber,
        epoch: Epoch,
        directory: InodeNumber,
        name: &[u8],
    ) -> bool {
        let mut shard = self.shard(ino);
        let lease = shard.leases.get_mut(&ino.0);
        lease.is_some_and(|lease| {
            let is_noted = lease.has(epoch)
                && (lease.names.len() < MAX_NAMES || lease.has_name(directory, name));
            if is_noted {
                lease.add_name(directory, name);
                lease.answered = Some(Instant::now());
            }
            is_noted
        })
    }

    /// Whether attributes of the inode that are read from now on may be remembered.
    pub(crate) fn grant_attributes(&self, ino: InodeNumber) -> Option<Epoch> {
        self.grant(ino, false)
    }

    /// How long the kernel may cache that a name is missing. The name was looked up after `grant_names`.
    pub(crate) fn note_missing(
        &self,
        directory: InodeNumber,
        name: &[u8],
        epoch: Epoch,
    ) -> Duration {
        let mut shard = self.shard(directory);
        let Some(lease) = shard.leases.get_mut(&directory.0) else {
            return Duration::ZERO;
        };
        let is_full = lease.missing.len() >= MAX_MISSING
            || self.missing.load(Ordering::Relaxed) >= MAX_MISSING_IN_ALL;
        if !lease.has(epoch) || (is_full && !lease.missing.contains(name)) {
            return Duration::ZERO;
        }
        lease.answered = Some(Instant::now());
        if lease.missing.insert(name.into()) {
            self.missing.fetch_add(1, Ordering::Relaxed);
        }
        NAME
    }

    /// The kernel forgot the inode.
    pub(crate) fn forget(&self, ino: InodeNumber) {
        if self.is_off() {
            return;
        }
        let mut shard = self.shard(ino);
        if let Some(lease) = shard.leases.remove(&ino.0) {
            self.missing
                .fetch_sub(lease.missing.len(), Ordering::Relaxed);
            self.paged.take(lease.paged_bytes);
            if let Some(left) = lease.after_forget() {
                shard.leases.insert(ino.0, left);
            }
        }
        self.volume.end_lease(ino);
    }
}
