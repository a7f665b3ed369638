//! Leases that this mount grants its kernel (see `egeria_fs`, module `leases`): names, also missing ones, and
//! attributes that it may remember without asking, until somebody is about to change them past it.
//!
//! What makes an answer of the kernel right at any time:
//!
//! 1. A lease is granted before what it is for is read, and nothing is granted while one is recalled.
//! 2. The kernel takes an answer in after the recall may have begun. Attributes it then drops, as it counts
//!    invalidations of an inode; an inode it is about to make is waited for, since it was counted as looked up
//!    before. A look-up of a name holds its directory, and a recall of the directory waits for that; a kernel that does
//!    not wait (Linux 6.19) is given time.
//! 3. A missing name is noted before it is answered, and forgotten in the recall of its directory.
//! 4. A name that is there stays: programs with the preload library change names whose inodes the kernel may know
//!    through the kernel alone. For all others the recall forgets every such name. Directories and open files are
//!    expired instead of dropped, as somebody may be in them.
//!
//! The threads that recall serve no requests, and whoever asks for a recall holds nothing: a recall may wait for a
//! request, but no request waits for a recall. What can wait in the kernel is told by processes of their own (module
//! `messengers`), so that a killed mount ends.

use crate::LeaseTiming;
use crate::notify::{Forgetting, Kernel, Name};
use egeria_fs::{
    Attributes, DirectoryEntry, FileKind, InodeNumber, LookupReferences, Recall, Volume,
};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SHARDS: usize = 16;
/// Most missing names that the kernel may remember, of one directory and in all.
const MAX_MISSING: usize = 1024;
const MAX_MISSING_IN_ALL: usize = 1 << 16;
/// What changed a moment ago is likely to change again: no lease yet.
const REST: Duration = Duration::from_millis(100);
/// After a recall: doubled by each that follows.
const REST_AFTER_RECALL: Duration = Duration::from_secs(1);
const MAX_DOUBLINGS: u32 = 6;
/// How long an inode that the kernel is about to make is waited for: as long as one of its threads may be kept from
/// running.
const UNTIL_MADE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// How long who changes a directory is waited for.
const UNTIL_LEFT: Duration = Duration::from_millis(4);
/// How long a kernel that does not wait for look-ups in a directory may take to take an answer in.
const TAKEN_IN: Duration = Duration::from_millis(100);

/// How long the kernel may remember: until it is told otherwise.
const LONG: Duration = Duration::from_secs(3600);
/// Attributes of directories: each way through one whose mount died ends there.
const DIRECTORY: Duration = Duration::from_secs(10);
/// Those of the root, which every way begins with.
const ROOT: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Lease {
    is_granted: bool,
    covers_names: bool,
    recalled_now: Option<Recall>,
    /// The kernel's listing of the directory, if it has one, was read under this lease.
    has_listing: bool,
    /// Names that the kernel may remember as missing.
    missing: HashSet<Box<[u8]>>,
    /// When a look-up was last answered with a name, or with none.
    answered: Option<Instant>,
    /// When the last recall ended, and how many came before it.
    recalled: Option<(Instant, u32)>,
}

/// How long what changes often has no lease.
struct Rests {
    after_change: Duration,
    after_recall: Duration,
}

impl Rests {
    fn new(leases: LeaseTiming) -> Rests {
        match leases {
            LeaseTiming::Rested => Rests {
                after_change: REST,
                after_recall: REST_AFTER_RECALL,
            },
            // Without any rest after a recall, who asked for it might never come to his change.
            LeaseTiming::AtOnce => Rests {
                after_change: Duration::ZERO,
                after_recall: Duration::from_millis(2),
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
    fn may_be_granted(&self, rests: &Rests) -> bool {
        let is_rested = |(at, recalls): (Instant, u32)| {
            at.elapsed() >= rests.after_recall * (1 << recalls.min(MAX_DOUBLINGS))
        };
        self.recalled_now.is_none() && self.recalled.is_none_or(is_rested)
    }
}

/// What comes of a recall.
enum Begun {
    Now,
    /// Another one under way does the same.
    ByAnother,
    /// Another one under way does less.
    Later,
}

/// Leases of one mount, by inode.
pub(crate) struct Leases {
    volume: Arc<Volume>,
    /// Another mount of the session grants leases, or the session has no room.
    is_off: bool,
    /// The kernel cannot be told to forget names.
    has_no_names: bool,
    rests: Rests,
    shards: [Mutex<HashMap<u64, Lease>>; SHARDS],
    missing: AtomicUsize,
}

/// How long the kernel may remember a name that is there.
pub(crate) fn name_validity(is_granted: bool) -> Duration {
    match is_granted {
        true => LONG,
        false => Duration::ZERO,
    }
}

/// How long the kernel may remember attributes.
pub(crate) fn attribute_validity(is_granted: bool, attributes: &Attributes) -> Duration {
    match (is_granted, attributes.kind()) {
        (false, _) => Duration::ZERO,
        (true, _) if attributes.ino == InodeNumber::ROOT => ROOT,
        (true, FileKind::Directory) => DIRECTORY,
        (true, _) => LONG,
    }
}

impl Leases {
    pub(crate) fn new(
        volume: Arc<Volume>,
        references: Option<LookupReferences>,
        can_forget_names: bool,
        timing: LeaseTiming,
    ) -> Leases {
        let is_granting = references.is_some_and(|references| volume.grant_leases(references));
        Leases {
            volume,
            is_off: !is_granting,
            has_no_names: !can_forget_names,
            rests: Rests::new(timing),
            shards: Default::default(),
            missing: AtomicUsize::new(0),
        }
    }

    fn shard(&self, ino: InodeNumber) -> MutexGuard<'_, HashMap<u64, Lease>> {
        let shard = &self.shards[ino.0 as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the kernel may remember what is read of the inode from now on.
    fn grant(&self, ino: InodeNumber, with_names: bool) -> bool {
        if self.is_off || with_names && self.has_no_names {
            return false;
        }
        if let Some(lease) = self.shard(ino).get(&ino.0)
            && lease.is_granted
            && (lease.covers_names || !with_names)
        {
            return true;
        }
        // Before the shard is held: these take locks of the engine.
        let is_at_rest = self
            .volume
            .attributes(ino)
            .is_ok_and(|now| self.rests.has_rested(&now));
        if !is_at_rest {
            return false;
        }
        let mut shard = self.shard(ino);
        let lease = shard.entry(ino.0).or_default();
        let is_granted = lease.may_be_granted(&self.rests) && self.volume.lease(ino, with_names);
        lease.is_granted |= is_granted;
        lease.covers_names |= is_granted && with_names;
        is_granted
    }

    /// A look-up in a directory is about to be answered; false when its lease was recalled meanwhile.
    pub(crate) fn note_answer(&self, directory: InodeNumber) -> bool {
        let mut shard = self.shard(directory);
        let lease = shard.get_mut(&directory.0);
        let lease = lease.filter(|lease| lease.is_granted && lease.covers_names);
        lease.is_some_and(|lease| {
            lease.answered = Some(Instant::now());
            true
        })
    }

    /// Whether the kernel may remember what a name in the directory, looked up from now on, means.
    pub(crate) fn grant_names(&self, directory: InodeNumber) -> bool {
        self.grant(directory, true)
    }

    /// The kernel is about to move a name into the directory.
    pub(crate) fn note_moved_name(&self, directory: InodeNumber) {
        if !self.is_off {
            self.volume.note_moved_name(directory);
        }
    }

    /// Whether attributes of the inode that are read from now on may be remembered.
    pub(crate) fn grant_attributes(&self, ino: InodeNumber) -> bool {
        self.grant(ino, false)
    }

    /// How long the kernel may remember that a name is missing, which was looked up after `grant_names`.
    pub(crate) fn note_missing(&self, directory: InodeNumber, name: &[u8]) -> Duration {
        let mut shard = self.shard(directory);
        let Some(lease) = shard.get_mut(&directory.0) else {
            return Duration::ZERO;
        };
        let is_full = lease.missing.len() >= MAX_MISSING
            || self.missing.load(Ordering::Relaxed) >= MAX_MISSING_IN_ALL;
        if !lease.is_granted || (is_full && !lease.missing.contains(name)) {
            return Duration::ZERO;
        }
        lease.answered = Some(Instant::now());
        if lease.missing.insert(name.into()) {
            self.missing.fetch_add(1, Ordering::Relaxed);
        }
        LONG
    }

    /// The kernel forgot the inode.
    pub(crate) fn forget(&self, ino: InodeNumber) {
        if self.is_off {
            return;
        }
        let mut shard = self.shard(ino);
        if let Some(lease) = shard.remove(&ino.0) {
            self.missing
                .fetch_sub(lease.missing.len(), Ordering::Relaxed);
            if lease.recalled_now.is_some() {
                // Nothing is granted anew before the recall ends, or its end would end that.
                let ended = Lease {
                    recalled_now: lease.recalled_now,
                    ..Lease::default()
                };
                shard.insert(ino.0, ended);
            }
        }
        self.volume.end_lease(ino);
    }

    /// A directory was opened; whether the kernel may keep its listing, and whether that of before is still good.
    pub(crate) fn grant_listing(&self, directory: InodeNumber) -> (bool, bool) {
        let is_granted = self.grant_names(directory);
        let shard = self.shard(directory);
        let lease = shard.get(&directory.0);
        (is_granted, lease.is_some_and(|lease| lease.has_listing))
    }

    /// A directory is about to be listed for a kernel that keeps the listing, whatever we say: so it gets a lease,
    /// rested or not; then, or when one is being recalled, the listing goes in the next recall, or in that one. `false`:
    /// somebody is changing the directory, for long.
    pub(crate) fn cover_listing(&self, directory: InodeNumber, from_its_beginning: bool) -> bool {
        let begun = Instant::now();
        loop {
            let mut shard = self.shard(directory);
            let lease = shard.entry(directory.0).or_default();
            if lease.recalled_now.is_some() {
                return true;
            }
            if lease.is_granted && lease.covers_names || self.volume.lease(directory, true) {
                lease.is_granted = true;
                lease.covers_names = true;
                // Who opened it without a good listing has dropped the old one by now.
                lease.has_listing |= from_its_beginning;
                lease.answered = Some(Instant::now());
                return true;
            }
            drop(shard);
            if begun.elapsed() >= UNTIL_LEFT {
                return false;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// From now on nothing is granted. Recalls of an inode come one after the other: the end of one must not end what
    /// was granted after another. `false`: one that is under way does for this one, too.
    fn begin_recall(&self, recall: Recall) -> bool {
        loop {
            match self.try_begin_recall(recall) {
                Begun::Now => return true,
                Begun::ByAnother => return false,
                Begun::Later => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    fn try_begin_recall(&self, recall: Recall) -> Begun {
        let mut shard = self.shard(recall.ino);
        let lease = shard.entry(recall.ino.0).or_default();
        match lease.recalled_now {
            Some(now) if now.with_names || !recall.with_names => Begun::ByAnother,
            Some(_) => Begun::Later,
            None => {
                lease.is_granted = false;
                lease.covers_names = false;
                lease.has_listing = false;
                lease.recalled_now = Some(recall);
                Begun::Now
            }
        }
    }

    fn take_missing(&self, ino: InodeNumber) -> HashSet<Box<[u8]>> {
        let mut shard = self.shard(ino);
        let missing = shard.get_mut(&ino.0).map(|lease| &mut lease.missing);
        let missing = missing.map(std::mem::take).unwrap_or_default();
        self.missing.fetch_sub(missing.len(), Ordering::Relaxed);
        missing
    }

    fn end_recall(&self, recall: Recall, is_known: bool) {
        let mut shard = self.shard(recall.ino);
        if !is_known && recall.ino != InodeNumber::ROOT {
            shard.remove(&recall.ino.0);
        } else if let Some(lease) = shard.get_mut(&recall.ino.0) {
            let recalls = lease.recalled.map_or(0, |(_, recalls)| recalls + 1);
            lease.recalled = Some((Instant::now(), recalls));
            lease.recalled_now = None;
        }
        self.volume.end_recall(recall);
    }

    /// Have the kernel forget what somebody is about to change.
    /// `is_known`: whether the kernel knows the inode, or learns of it from an answer under way.
    pub(crate) fn recall(&self, recall: Recall, is_known: impl Fn() -> bool, kernel: &Kernel) {
        let ino = recall.ino;
        if !self.begin_recall(recall) {
            return;
        }
        let attributes = self.volume.attributes(ino);
        let is_directory = attributes.is_ok_and(|found| found.kind() == FileKind::Directory);
        let forget = || match is_directory {
            true => self.forget_directory(recall, kernel),
            false => kernel.forget_attributes(ino),
        };
        let begun = Instant::now();
        while !forget() && is_known() && begun.elapsed() < UNTIL_MADE {
            std::thread::sleep(LOOK_AGAIN);
        }
        self.end_recall(recall, is_known());
    }

    /// `false`: the kernel does not have it (yet).
    fn forget_directory(&self, recall: Recall, kernel: &Kernel) -> bool {
        if !kernel.can_forget_names() {
            return kernel.forget_attributes(recall.ino);
        }
        let mut forgetting = kernel.forget_in(recall.ino);
        // No name of ours: waits for look-ups under way.
        forgetting.name(b"\x01egeria-none", Name::Expired);
        forgetting.tell();
        let answered = || self.shard(recall.ino).get(&recall.ino.0)?.answered;
        if !kernel.waits_for_lookups()
            && let Some(answered) = answered()
        {
            std::thread::sleep(TAKEN_IN.saturating_sub(answered.elapsed()));
        }
        for name in self.take_missing(recall.ino) {
            // One that was made through the kernel since is there, and known to it.
            if self.volume.lookup(recall.ino, &name).is_err() {
                forgetting.name(&name, Name::Dropped);
            }
        }
        if recall.with_names {
            self.forget_names(recall.ino, &mut forgetting);
        }
        forgetting.listing()
    }

    fn forget_names(&self, directory: InodeNumber, forgetting: &mut Forgetting<'_>) {
        let mut each = |entry: &DirectoryEntry<'_>| {
            let is_dots = matches!(entry.name, b"." | b"..");
            if !is_dots && self.volume.is_referenced_by_kernel(entry.ino) {
                let is_used =
                    entry.kind == FileKind::Directory || self.volume.is_open_in_kernel(entry.ino);
                let how = match is_used {
                    true => Name::Expired,
                    false => Name::Dropped,
                };
                forgetting.name(entry.name, how);
            }
            true
        };
        let end = self.volume.directory_end(directory);
        let _ = end.and_then(|end| {
            self.volume
                .read_directory_until(directory, 0, end, &mut each)
        });
    }
}
