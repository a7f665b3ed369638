//! Leases that this mount grants its kernel (see `egeria_engine`, module `leases`): names, also missing ones, attributes
//! and pages that it may remember without asking, until somebody is about to change them past it.
//!
//! What makes an answer of the kernel right at any time:
//!
//! 1. A lease is granted before what it is for is read, and nothing is granted while one is recalled.
//! 2. The kernel takes an answer in after the recall may have begun. Attributes it then drops, as it counts
//!    invalidations of an inode; an inode it is about to make is waited for, since it was counted as looked up
//!    before. A look-up of a name holds its directory, and a recall of the directory waits for that; a kernel that does
//!    not wait (Linux 6.19) is given time.
//! 3. A missing name is noted before it is answered, and forgotten in the recall of its directory.
//! 4. A name that is there stays until it is changed itself: who holds the kernel's lock of a directory holds up every
//!    look-up in it of what is not remembered. The name of a file goes in a recall of the file, those of directories in
//!    one of the directory they are in. Directories and open files are expired instead of dropped, as somebody may be
//!    in them; programs with the preload library change their names through the kernel alone.
//! 5. The name of a file goes before its owner changes, too: before it changes a file, the kernel relies on the owner
//!    that it knows, and a look-up brings that. All else it asks for when its attributes are gone, also to open a file.
//! 6. Listings are collected by the kernel (module `listing`).
//! 7. Pages are for handles that only read (module `pages`).
//!
//! The threads that recall serve no requests, and whoever asks for a recall holds nothing: a recall may wait for a
//! request, but no request waits for a recall. What can wait in the kernel is told by processes of their own (module
//! `notifiers`), so that a killed mount ends.

mod listing;
mod listings;
mod paged;
mod pages;
mod recall;

use crate::LeaseTiming;
use crate::notify::Kernel;
use egeria_engine::{
    Attributes, FileKind, InodeNumber, LeaseMount, LookupReferences, Recall, Volume,
};
use listing::Listing;
use paged::Paged;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SHARDS: usize = 16;
/// Most missing names that the kernel may remember, of one directory and in all.
const MAX_MISSING: usize = 1024;
const MAX_MISSING_IN_ALL: usize = 1 << 16;
/// What somebody else changed a moment ago is likely to be changed by them again: no lease yet. Changes by this kernel need
/// no recall.
const REST: Duration = Duration::from_millis(100);
/// After a recall: doubled by each that follows.
const REST_AFTER_RECALL: Duration = Duration::from_secs(1);
const MAX_DOUBLINGS: u32 = 6;
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// How long the kernel may take to replace attributes by those that it was answered, also where its CPU is taken from it
/// for some time.
const UNTIL_REPLACED: Duration = Duration::from_millis(20);
/// How soon after a recall who asked for it changes the inode.
const UNTIL_CHANGED: Duration = Duration::from_micros(300);
/// Most names of one file that the kernel may remember; it moves names itself.
const MAX_NAMES: usize = 4;

/// How long the kernel may remember a name: until it is told otherwise.
const NAME: Duration = Duration::from_secs(3600);
/// Attributes of files, so that a tree looked at now and then costs no requests. Those of one that is open outlive the mount.
const FILE: Duration = Duration::from_secs(600);
/// Attributes of directories: each way through one whose mount died ends there.
const DIRECTORY: Duration = Duration::from_secs(10);
/// Those of the root, which every way begins with.
const ROOT: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Lease {
    /// Whoever is about to change the inode past the kernel has it recalled.
    is_held: bool,
    /// Answers may be remembered.
    is_granted: bool,
    /// Of the last grant.
    epoch: Epoch,
    /// When attributes were first answered since, and to whom.
    shown: Option<(Instant, Asker)>,
    covers_names: bool,
    recalled_now: Option<Recall>,
    /// Changes by the kernel that are about to be answered, after their notification.
    notifying: u32,
    /// The kernel's listing of the directory, if it has one, was read under this lease.
    has_listing: bool,
    listing: Listing,
    /// Names that the kernel may remember as missing.
    missing: HashSet<Box<[u8]>>,
    /// Names by which the kernel may remember the inode, which is no directory.
    names: Vec<FileName>,
    /// What it may have read of the file.
    pages: Pages,
    /// Counted for them.
    paged_bytes: u64,
    /// During the recall that is under way pages or names were read.
    is_read_meanwhile: bool,
    /// During the recall that is under way the kernel began to move a name here.
    is_moved_meanwhile: bool,
    /// When a look-up was last answered with a name, or with none; of a file, with its name.
    answered: Option<Instant>,
    /// When the last recall ended, and how many came before it.
    recalled: Option<(Instant, u32)>,
    /// Change time of the inode after the last change by this kernel. While the inode has it, nobody else changed it since.
    changed_by_kernel_ns: Option<i64>,
}

/// The thread that sent a request; 0 where the kernel does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker(pub u32);

impl Asker {
    /// A thread takes an answer in before it asks again.
    fn has_taken_in(self, first: Asker) -> bool {
        self.0 != 0 && self == first
    }
}

/// Which grant of a lease.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// How long what changes often has no lease.
struct Rests {
    after_change: Duration,
    after_recall: Duration,
    /// How long an answer about a name that the kernel had, and asked about again, may take to be taken in: nothing in
    /// the kernel is held for it.
    until_taken_in: Duration,
}

impl Rests {
    fn new(leases: LeaseTiming) -> Rests {
        match leases {
            LeaseTiming::Rested => Rests {
                after_change: REST,
                after_recall: REST_AFTER_RECALL,
                until_taken_in: Duration::from_millis(20),
            },
            // Without any rest after a recall, who asked for it might never come to his change.
            LeaseTiming::AtOnce => Rests {
                after_change: Duration::ZERO,
                after_recall: Duration::from_millis(2),
                until_taken_in: Duration::from_millis(2),
            },
        }
    }

    /// Whether the last change is some time ago.
    fn has_rested(&self, attributes: &Attributes) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ns = now.map_or(0, |now| now.as_nanos() as i64);
        now_ns.saturating_sub(attributes.ctime_ns) >= self.after_change.as_nanos() as i64
    }
}

impl Lease {
    fn may_be_granted(&self, rests: &Rests, now: &Attributes) -> bool {
        let is_rested = |(at, recalls): (Instant, u32)| {
            at.elapsed() >= rests.after_recall * (1 << recalls.min(MAX_DOUBLINGS))
        };
        let is_at_rest = self.changed_by_kernel_ns == Some(now.ctime_ns) || rests.has_rested(now);
        is_at_rest && self.recalled_now.is_none() && self.recalled.is_none_or(is_rested)
    }

    fn has(&self, epoch: Epoch) -> bool {
        self.is_granted && self.epoch == epoch
    }

    /// Whoever had it recalled is to come to his change before it is granted anew.
    fn is_recalled_just_now(&self) -> bool {
        self.recalled
            .is_some_and(|(at, _)| at.elapsed() < UNTIL_CHANGED)
    }

    fn has_name(&self, directory: InodeNumber, name: &[u8]) -> bool {
        self.names.iter().any(|known| known.is(directory, name))
    }

    fn add_name(&mut self, directory: InodeNumber, name: &[u8]) {
        if !self.has_name(directory, name) {
            let name = name.into();
            self.names.push(FileName { directory, name });
        }
    }
}

/// A name and the directory that it is in.
#[derive(PartialEq, Eq)]
struct FileName {
    directory: InodeNumber,
    name: Box<[u8]>,
}

impl FileName {
    fn is(&self, directory: InodeNumber, name: &[u8]) -> bool {
        self.directory == directory && *self.name == *name
    }
}

/// Pages of a file in the kernel.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Pages {
    /// None that a new handle may use.
    #[default]
    None,
    /// All of them were read under the lease.
    Leased,
    /// Some were not.
    Other,
}

#[derive(Default)]
struct Shard {
    leases: HashMap<u64, Lease>,
    /// Handles of the kernel that may change the file.
    writers: HashMap<u64, u32>,
}

/// Leases of one mount, by inode.
pub(crate) struct Leases {
    volume: Arc<Volume>,
    references: Option<LookupReferences>,
    /// Once this mount grants leases: not while another mount of the session does, or the session has no room.
    mount: OnceLock<LeaseMount>,
    /// The mount ends.
    is_over: AtomicBool,
    /// Of leases that were granted.
    epochs: AtomicU64,
    /// The kernel cannot be told to forget names.
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

    /// Nobody is there any more to recall leases.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(references) = self.references {
            self.volume.end_leases_of(references);
        }
    }

    fn is_off(&self) -> bool {
        self.mount.get().is_none() || self.is_over.load(Ordering::Acquire)
    }

    /// From now on this thread works for the kernel of this mount.
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
            && lease.is_granted
            && (lease.covers_names || !with_names)
        {
            return Some(lease.epoch);
        }
        // Before the shard is held: it may read the log.
        let now = self.volume.attributes(ino).ok()?;
        let mut shard = self.shard(ino);
        let lease = shard.leases.entry(ino.0).or_default();
        if !lease.may_be_granted(&self.rests, &now) || !self.hold(lease, ino, with_names) {
            return None;
        }
        if !lease.is_granted {
            lease.is_granted = true;
            lease.shown = None;
            lease.epoch = Epoch(self.epochs.fetch_add(1, Ordering::Relaxed) + 1);
        }
        Some(lease.epoch)
    }

    /// `false`: somebody is changing the inode.
    fn hold(&self, lease: &mut Lease, ino: InodeNumber, with_names: bool) -> bool {
        let is_held = lease.is_held && (lease.covers_names || !with_names);
        if !is_held && self.volume.lease(ino, with_names) {
            lease.is_held = true;
            lease.covers_names |= with_names;
            return true;
        }
        is_held
    }

    /// Whether the kernel may remember attributes that were read under this lease.
    ///
    /// The first that it gets, of an inode that it has, it may not: it calls what it has valid a moment before it
    /// replaces that, and others may look at it. It has done so when the thread that got them asks for more.
    pub(crate) fn show(&self, ino: InodeNumber, epoch: Epoch, is_new: bool, asker: Asker) -> bool {
        let mut shard = self.shard(ino);
        let Some(lease) = shard.leases.get_mut(&ino.0) else {
            return false;
        };
        let is_replaced = match lease.shown {
            Some((at, first)) => asker.has_taken_in(first) || at.elapsed() >= UNTIL_REPLACED,
            None => {
                lease.shown = Some((Instant::now(), asker));
                false
            }
        };
        lease.has(epoch) && (is_new || is_replaced)
    }

    /// A look-up in a directory is about to be answered; false when its lease was recalled meanwhile.
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
            lease.is_moved_meanwhile = lease.recalled_now.is_some();
            lease.answered = Some(Instant::now());
        }
        self.volume.note_moved_name(directory);
    }

    /// The kernel is about to be answered that it changed the inode. It marks what it has of it as old, but an answer
    /// under way, of before the change, would replace that.
    pub(crate) fn changed_by_kernel(&self, ino: InodeNumber, kernel: &Kernel) {
        // What changes before the kernel is told is told, too.
        let is_to_be_told = match self.shard(ino).leases.get_mut(&ino.0) {
            Some(lease) if lease.is_granted || lease.notifying > 0 => {
                lease.is_granted = false;
                lease.notifying += 1;
                true
            }
            _ => false,
        };
        if is_to_be_told {
            kernel.forget_attributes(ino);
            if let Some(lease) = self.shard(ino).leases.get_mut(&ino.0) {
                lease.notifying = lease.notifying.saturating_sub(1);
            }
        }
        if let Ok(now) = self.volume.attributes(ino) {
            self.note_change_by_kernel(ino, now.ctime_ns);
        }
    }

    /// The kernel made or changed an inode that it knows. So it may get a lease at once.
    pub(crate) fn note_change_by_kernel(&self, ino: InodeNumber, ctime_ns: i64) {
        if !self.is_off() {
            let mut shard = self.shard(ino);
            let lease = shard.leases.entry(ino.0).or_default();
            lease.changed_by_kernel_ns = Some(ctime_ns);
        }
    }

    /// The kernel is about to move a name of the file, and takes along how long it is valid.
    pub(crate) fn begin_move_of_file(
        &self,
        ino: InodeNumber,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) {
        if let Some(lease) = self.shard(ino).leases.get_mut(&ino.0)
            // A recall may have taken the old name, and not come to it.
            && (lease.recalled_now.is_some() || lease.has_name(from.0, from.1))
        {
            lease.add_name(to.0, to.1);
        }
    }

    /// The file does not have this name any more, or has not got it: what the kernel remembered by it, it does not.
    pub(crate) fn end_move_of_file(&self, ino: InodeNumber, left: (InodeNumber, &[u8])) {
        if let Some(lease) = self.shard(ino).leases.get_mut(&ino.0) {
            lease.names.retain(|known| !known.is(left.0, left.1));
        }
    }

    /// Whether the kernel may remember the file by this name, as long as its attributes; false when these were recalled
    /// meanwhile.
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

    /// How long the kernel may remember that a name is missing, which was looked up after `grant_names`.
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
            if lease.recalled_now.is_some() {
                // Nothing is granted anew before the recall ends, or its end would end that.
                let ended = Lease {
                    recalled_now: lease.recalled_now,
                    ..Lease::default()
                };
                shard.leases.insert(ino.0, ended);
            }
        }
        self.volume.end_lease(ino);
    }
}
