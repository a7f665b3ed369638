//! Recalls: make the kernel drop cached data before another process changes it.

use super::Leases;
use super::given::Given;
use super::lease::Pages;
use super::times::{LOOK_AGAIN, TAKEN_IN, UNTIL_MADE, UNTIL_SENT};
use crate::kernel::notify::{Forgetting, Kernel, Name};
use egeria_engine::{DirectoryEntry, FileKind, InodeNumber, Recall};
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often pages are dropped again because some were read during a recall.
const MAX_TIMES: u32 = 32;

/// A recall under way. If it ends in a panic, the process that asked for it asks again.
struct UnderWay<'a> {
    leases: &'a Leases,
    ino: InodeNumber,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(lease) = self.leases.shard(self.ino).leases.get_mut(&self.ino.0)
        {
            lease.abandon_recall();
        }
    }
}

impl Leases {
    /// Begin a recall; from now on nothing is granted. Recalls of one inode are serialized: the end of one must not
    /// end grants that came after another. `false`: one is under way; if it covers less, the process that asked for
    /// this one asks again.
    fn begin_recall(&self, recall: Recall) -> bool {
        let mut shard = self.shard(recall.ino);
        let lease = shard.leases.entry(recall.ino.0).or_default();
        lease.begin_recall(recall)
    }

    fn take_missing(&self, ino: InodeNumber) -> HashSet<Box<[u8]>> {
        let mut shard = self.shard(ino);
        let missing = shard.leases.get_mut(&ino.0).map(|lease| &mut lease.missing);
        let missing = missing.map(std::mem::take).unwrap_or_default();
        self.missing.fetch_sub(missing.len(), Ordering::Relaxed);
        missing
    }

    /// End a recall. `false`: repeat it, because a name was moved during the recall or, with `for_readers`, something
    /// was read.
    fn end_recall(&self, recall: Recall, is_known: bool, for_readers: bool) -> bool {
        let mut shard = self.shard(recall.ino);
        if !is_known && recall.ino != InodeNumber::ROOT {
            if let Some(lease) = shard.leases.remove(&recall.ino.0) {
                self.missing
                    .fetch_sub(lease.missing.len(), Ordering::Relaxed);
                self.paged.take(lease.paged_bytes);
            }
        } else if let Some(lease) = shard.leases.get_mut(&recall.ino.0)
            && !lease.end_recall(for_readers)
        {
            return false;
        }
        self.volume.end_recall(recall);
        true
    }

    /// Make the kernel forget an inode that is about to be changed. `is_known`: whether the kernel knows the inode, or
    /// will learn of it from an answer on its way. `has_unsent`: whether an invalidation of earlier changes is still to
    /// come.
    pub(crate) fn recall(
        &self,
        recall: Recall,
        is_known: impl Fn() -> bool,
        has_unsent: impl Fn() -> bool,
        kernel: &Kernel,
    ) {
        let ino = recall.ino;
        if !self.begin_recall(recall) {
            return;
        }
        let attributes = self.volume.attributes(ino);
        let is_directory = attributes.is_ok_and(|found| found.kind() == FileKind::Directory);
        let forget = || {
            if is_directory {
                self.forget_directory(recall, kernel)
            } else {
                self.forget_file(recall, kernel)
            }
        };
        let _under_way = UnderWay { leases: self, ino };
        let mut times = 0;
        loop {
            let begun = Instant::now();
            while !forget() && is_known() && begun.elapsed() < UNTIL_MADE {
                std::thread::sleep(LOOK_AGAIN);
            }
            while has_unsent() && begun.elapsed() < UNTIL_SENT {
                std::thread::sleep(LOOK_AGAIN);
            }
            times += 1;
            // Processes that read pages again and again do not delay a change without limit: their handles are marked.
            let for_readers = is_directory || times < MAX_TIMES;
            if self.end_recall(recall, is_known(), for_readers) {
                if !for_readers {
                    // Pages that were read just before the end have no lease. Later ones have another.
                    kernel.forget_pages(ino, 0, 0);
                }
                return;
            }
        }
    }

    /// `false`: the kernel does not have it (yet).
    fn forget_directory(&self, recall: Recall, kernel: &Kernel) -> bool {
        if !kernel.can_forget_names() {
            return kernel.forget_attributes(recall.ino);
        }
        let mut forgetting = kernel.forgetting();
        // This name never exists; the notification waits for look-ups under way.
        forgetting.name(recall.ino, b"\x01egeria-none", Name::Expired);
        forgetting.send();
        let answered = || self.shard(recall.ino).leases.get(&recall.ino.0)?.answered;
        if !kernel.waits_for_lookups()
            && let Some(answered) = answered()
        {
            std::thread::sleep(TAKEN_IN.saturating_sub(answered.elapsed()));
        }
        for name in self.take_missing(recall.ino) {
            // If this name was created through the kernel since, it exists, and the kernel knows it.
            if self.volume.lookup(recall.ino, &name).is_err() {
                forgetting.name(recall.ino, &name, Name::Dropped);
            }
        }
        if recall.with_names && self.forget_directories(recall.ino, &mut forgetting) {
            // These names were expired, so an answer to a new look-up of one may still be on its way.
            forgetting.send();
            let rest = answered().map(|at| self.rests.until_taken_in.saturating_sub(at.elapsed()));
            if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
                std::thread::sleep(rest);
                self.forget_directories(recall.ino, &mut forgetting);
            }
        }
        forgetting.contents(recall.ino)
    }

    /// `false`: the kernel does not have it (yet).
    fn forget_file(&self, recall: Recall, kernel: &Kernel) -> bool {
        let ino = recall.ino;
        let mut times = 0;
        loop {
            times += 1;
            let has_pages = self.take_pages(ino);
            let has_names = recall.with_names && self.forget_names_of(ino, kernel);
            let is_there = if has_pages {
                kernel.forgetting().contents(ino)
            } else {
                kernel.forget_attributes(ino)
            };
            // A name that the kernel was moving has been moved by now: repeat. A name that it moves again and again is
            // not cached any more.
            if !has_names || times >= MAX_TIMES {
                return is_there;
            }
        }
    }

    /// Whether the kernel may have pages that are to be dropped.
    fn take_pages(&self, ino: InodeNumber) -> bool {
        let mut shard = self.shard(ino);
        let Some(lease) = shard.leases.get_mut(&ino.0) else {
            return false;
        };
        self.paged.take(std::mem::take(&mut lease.paged_bytes));
        lease.given = Given::default();
        std::mem::take(&mut lease.pages) != Pages::None
    }

    /// Whether the kernel may have remembered the file by name.
    fn forget_names_of(&self, ino: InodeNumber, kernel: &Kernel) -> bool {
        let (names, answered) = {
            let mut shard = self.shard(ino);
            let Some(lease) = shard.leases.get_mut(&ino.0) else {
                return false;
            };
            (std::mem::take(&mut lease.names), lease.answered)
        };
        if names.is_empty() {
            return false;
        }
        let how = if self.volume.is_open_in_kernel(ino) {
            Name::Expired
        } else {
            Name::Dropped
        };
        let send = || {
            let mut forgetting = kernel.forgetting();
            for known in &names {
                forgetting.name(known.directory, &known.name, how);
            }
            forgetting.send();
        };
        send();
        let until_taken_in = match (kernel.waits_for_lookups(), how) {
            (false, _) => TAKEN_IN,
            (true, Name::Expired) => self.rests.until_taken_in,
            (true, Name::Dropped) => Duration::ZERO,
        };
        let rest = answered.map(|answered| until_taken_in.saturating_sub(answered.elapsed()));
        if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
            std::thread::sleep(rest);
            send();
        }
        true
    }

    /// Make the kernel look up the names of directories in this one again. They cannot be dropped, because a process
    /// may be in them. Other files have leases of their own for their names. `false`: there are none.
    fn forget_directories(&self, directory: InodeNumber, forgetting: &mut Forgetting<'_>) -> bool {
        let mut are_there = false;
        let mut each = |entry: &DirectoryEntry<'_>| {
            if entry.kind == FileKind::Directory
                && !matches!(entry.name, b"." | b"..")
                && self.volume.is_referenced_by_kernel(entry.ino)
            {
                are_there = true;
                forgetting.name(directory, entry.name, Name::Expired);
            }
            true
        };
        let end = self.volume.directory_end(directory);
        let _ = end.and_then(|end| {
            self.volume
                .read_directory_until(directory, 0, end, &mut each)
        });
        are_there
    }
}
