//! Pages of files that the kernel keeps after the last handle is closed.
//!
//! A handle that only reads, of a file that has no other open handle, reads through the page cache. It is marked
//! (module `coherence`) from the beginning: while such handles exist, programs with the preload library go through the
//! kernel. The last of them removes the mark. The pages stay if all of them were read under the lease. A process that
//! then wants to change the file has them dropped in the recall of its attributes. Handles that may write are direct.
//! The kernel drops the pages when it opens one, and no lease on pages is granted while one is open.

use super::Leases;
use super::lease::Pages;
use super::times::{LOOK_AGAIN, UNTIL_PAGES_LEFT};
use egeria_engine::InodeNumber;
use std::time::Instant;

impl Leases {
    /// A handle that may change the file is about to be opened.
    pub(crate) fn begin_writing(&self, ino: InodeNumber) {
        let mut shard = self.shard(ino);
        *shard.writers.entry(ino.0).or_insert(0) += 1;
        if let Some(lease) = shard.leases.get_mut(&ino.0)
            && lease.pages == Pages::Leased
        {
            self.paged.take(std::mem::take(&mut lease.paged_bytes));
            lease.pages = Pages::None;
        }
    }

    /// A handle that may change the file was closed.
    pub(crate) fn end_writing(&self, ino: InodeNumber) {
        let mut shard = self.shard(ino);
        if let Some(writers) = shard.writers.get_mut(&ino.0) {
            *writers -= 1;
            if *writers == 0 {
                shard.writers.remove(&ino.0);
            }
        }
    }

    /// Whether a handle of the kernel may change the file.
    pub(crate) fn has_writers(&self, ino: InodeNumber) -> bool {
        self.shard(ino).writers.contains_key(&ino.0)
    }

    /// Whether a handle that only reads may use the page cache, and whether the pages from before are still valid.
    pub(crate) fn grant_pages(&self, ino: InodeNumber) -> Option<bool> {
        if self.has_no_names || !self.may_page(ino) {
            return None;
        }
        self.grant_attributes(ino)?;
        let shard = self.shard(ino);
        let lease = shard.leases.get(&ino.0)?;
        let is_granted = lease.is_granted() && !shard.writers.contains_key(&ino.0);
        is_granted.then_some(lease.pages == Pages::Leased)
    }

    fn may_page(&self, ino: InodeNumber) -> bool {
        let attributes = self.volume.attributes(ino);
        attributes.is_ok_and(|now| self.paged.has_room_for(now.size_bytes))
            && !self.volume.is_open_past_kernel(ino)
    }

    /// Pages are about to be read for a handle from `grant_pages`. They get a lease, also without rest; a recall under
    /// way drops them.
    pub(crate) fn cover_pages(&self, ino: InodeNumber, file_bytes: u64) {
        let begun = Instant::now();
        loop {
            let mut shard = self.shard(ino);
            if shard.writers.contains_key(&ino.0) {
                break;
            }
            let lease = shard.leases.entry(ino.0).or_default();
            if lease.note_read() {
                self.paged.take(std::mem::take(&mut lease.paged_bytes));
                lease.pages = Pages::Other;
                return;
            }
            if lease.pages == Pages::Other {
                return;
            }
            if !lease.is_recalled_just_now() && self.hold(lease, ino, false) {
                let is_new = lease.pages == Pages::None;
                lease.pages = Pages::Leased;
                if is_new {
                    lease.paged_bytes = file_bytes;
                    drop(shard);
                    self.count_pages(ino, file_bytes);
                }
                return;
            }
            drop(shard);
            if begun.elapsed() >= UNTIL_PAGES_LEFT {
                break;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        self.note_other_pages(ino);
    }

    /// Pages are about to be read for another handle, or without a lease.
    pub(crate) fn note_other_pages(&self, ino: InodeNumber) {
        let mut shard = self.shard(ino);
        if let Some(lease) = shard.leases.get_mut(&ino.0) {
            self.paged.take(std::mem::take(&mut lease.paged_bytes));
            lease.pages = Pages::Other;
        }
    }

    /// A marked handle was closed. Returns whether pages may stay; if not, all must be dropped.
    pub(crate) fn may_keep_pages(&self, ino: InodeNumber) -> bool {
        let mut shard = self.shard(ino);
        let is_written = shard.writers.contains_key(&ino.0);
        let Some(lease) = shard.leases.get_mut(&ino.0) else {
            return false;
        };
        let may_keep = match lease.pages {
            Pages::None => true,
            Pages::Leased => lease.is_held() && !is_written,
            Pages::Other => false,
        };
        if !may_keep {
            self.paged.take(std::mem::take(&mut lease.paged_bytes));
            lease.pages = Pages::None;
        }
        may_keep
    }

    fn has_leased_pages(&self, ino: InodeNumber) -> bool {
        let shard = self.shard(ino);
        let lease = shard.leases.get(&ino.0);
        lease.is_some_and(|lease| lease.pages == Pages::Leased)
    }

    fn count_pages(&self, ino: InodeNumber, bytes: u64) {
        let is_kept = |file: InodeNumber| self.has_leased_pages(file);
        self.paged.add(ino, bytes, is_kept);
        while let Some(file) = self.paged.next_too_much() {
            let bytes = self.stop_counting(file);
            // Through a recall, on a thread that may wait for the kernel.
            if bytes > 0 && !self.volume.ask_for_recall_of(file) {
                // Too many recalls are under way: try again with the next pages.
                self.count_again(file, bytes);
                return;
            }
        }
    }

    /// The bytes that are counted for the pages of a file, which are about to be dropped.
    fn stop_counting(&self, ino: InodeNumber) -> u64 {
        let mut shard = self.shard(ino);
        let lease = shard.leases.get_mut(&ino.0);
        let bytes = lease.map_or(0, |lease| std::mem::take(&mut lease.paged_bytes));
        self.paged.take(bytes);
        bytes
    }

    fn count_again(&self, ino: InodeNumber, bytes: u64) {
        let mut shard = self.shard(ino);
        if let Some(lease) = shard.leases.get_mut(&ino.0)
            && lease.pages == Pages::Leased
            && lease.paged_bytes == 0
        {
            lease.paged_bytes = bytes;
            self.paged.put_back(ino, bytes);
        }
    }
}
