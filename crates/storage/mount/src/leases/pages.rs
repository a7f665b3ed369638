//! Pages of files that the kernel keeps after the last handle is closed.
//!
//! A handle that reads, or reads and writes, uses the page cache if no other handle writes the file directly. It is
//! marked (module `coherence`) from the beginning: while such handles exist, programs with the preload library go
//! through the kernel. The last of them removes the mark. The pages stay if all of them were read or written under the
//! lease. A process that then wants to change the file has them dropped in the recall of its attributes. Handles that
//! only write, or append, are direct. When the kernel opens one, it drops the pages, unless another handle uses them. The
//! pages do not stay as long as one is open.
//!
//! A write through a page is in the page before the mount learns of it. So the lease comes before the write reaches the
//! engine. A later change by another process then waits for a recall, which drops the page.

use super::Leases;
use super::given::Given;
use super::lease::{Lease, Pages};
use super::times::{LOOK_AGAIN, UNTIL_PAGES_LEFT};
use egeria_engine::{Attributes, InodeNumber};
use fuser::FopenFlags;
use std::ops::Range;
use std::time::Instant;

const BLOCK_BYTES: u64 = 4096;

/// Whether a part of the file has no blocks.
fn has_holes(attributes: &Attributes) -> bool {
    attributes.blocks * BLOCK_BYTES < attributes.size_bytes
}

/// How many bytes more to count for the pages of a file that grew, so that each write of many is not counted by itself.
fn growth_to_count(counted_bytes: u64, file_bytes: u64) -> u64 {
    match counted_bytes {
        // Its pages are about to be dropped.
        0 => 0,
        counted if counted >= file_bytes => 0,
        counted => file_bytes + file_bytes / 2 - counted,
    }
}

impl Leases {
    /// A handle that may change the file is about to be opened with these flags.
    pub(crate) fn begin_writing(&self, ino: InodeNumber, open_flags: FopenFlags) {
        let is_direct = open_flags.contains(FopenFlags::FOPEN_DIRECT_IO);
        let mut shard = self.shard(ino);
        let writers = shard.writers.entry(ino.0).or_default();
        writers.all += 1;
        writers.direct += u32::from(is_direct);
        if is_direct
            && let Some(lease) = shard.leases.get_mut(&ino.0)
            && lease.pages == Pages::Leased
        {
            self.paged.take(std::mem::take(&mut lease.paged_bytes));
            lease.pages = if open_flags.contains(FopenFlags::FOPEN_KEEP_CACHE) {
                Pages::Other
            } else {
                Pages::None
            };
        }
    }

    /// A handle that may change the file was closed.
    pub(crate) fn end_writing(&self, ino: InodeNumber, is_direct: bool) {
        let mut shard = self.shard(ino);
        if let Some(writers) = shard.writers.get_mut(&ino.0) {
            writers.all -= 1;
            writers.direct -= u32::from(is_direct);
            if writers.all == 0 {
                shard.writers.remove(&ino.0);
            }
        }
    }

    /// Whether a handle of the kernel may change the file.
    pub(crate) fn has_writers(&self, ino: InodeNumber) -> bool {
        self.shard(ino).writers.contains_key(&ino.0)
    }

    /// Whether a handle may use the page cache.
    pub(crate) fn may_use_pages(&self, ino: InodeNumber, writes: bool) -> bool {
        if self.has_no_names || !self.may_page(ino, writes) {
            return false;
        }
        if self.grant_attributes(ino).is_none() {
            return false;
        }
        let shard = self.shard(ino);
        let lease = shard.leases.get(&ino.0);
        lease.is_some_and(Lease::is_granted) && !shard.has_direct_writers(ino)
    }

    /// Whether the pages from before are valid for a handle that was just marked. `are_used`: other handles use them.
    pub(crate) fn are_pages_valid(&self, ino: InodeNumber, are_used: bool) -> bool {
        let shard = self.shard(ino);
        let lease = shard.leases.get(&ino.0);
        lease.is_some_and(|lease| match lease.pages {
            Pages::None => false,
            Pages::Leased => true,
            // As long as the mount knows of a handle that uses them: they are dropped with the last one.
            Pages::Other => are_used,
        })
    }

    fn may_page(&self, ino: InodeNumber, writes: bool) -> bool {
        let attributes = self.volume.attributes(ino);
        let may_page = |now: Attributes| {
            let is_of_use = match (now.size_bytes, writes) {
                // There is nothing to read, unless it is written.
                (0, writes) => writes,
                // No request shows whether programs stored into holes. So attributes could not be remembered.
                (_, true) => !has_holes(&now),
                (_, false) => true,
            };
            is_of_use && self.paged.has_room_for(now.size_bytes)
        };
        attributes.is_ok_and(may_page) && !self.volume.is_open_past_kernel(ino)
    }

    /// Pages are about to be read for a handle from `grant_pages`, or were written by it. They get a lease, also
    /// without rest; a recall under way drops them.
    pub(crate) fn cover_pages(&self, ino: InodeNumber, file_bytes: u64) {
        let begun = Instant::now();
        loop {
            let mut shard = self.shard(ino);
            let is_written_directly = shard.has_direct_writers(ino);
            let lease = shard.leases.entry(ino.0).or_default();
            let is_dropped = lease.note_read();
            let is_held =
                is_dropped || !lease.is_recalled_just_now() && self.hold(lease, ino, false);
            if is_held && (is_dropped || is_written_directly) {
                self.paged.take(std::mem::take(&mut lease.paged_bytes));
                lease.pages = Pages::Other;
            }
            if is_held && lease.pages == Pages::Other {
                return;
            }
            if is_held {
                let is_new = lease.pages == Pages::None;
                lease.pages = Pages::Leased;
                let more_bytes = if is_new {
                    file_bytes
                } else {
                    growth_to_count(lease.paged_bytes, file_bytes)
                };
                if more_bytes > 0 {
                    lease.paged_bytes += more_bytes;
                    drop(shard);
                    self.count_pages(ino, more_bytes);
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
        // Nothing makes a change past the kernel drop them, so they are dropped as soon as they were used.
        self.volume.ask_for_recall_of(ino);
    }

    /// These pages are about to be read for the kernel.
    pub(crate) fn note_given(&self, ino: InodeNumber, pages: Range<u64>) {
        if let Some(lease) = self.shard(ino).leases.get_mut(&ino.0) {
            lease.given.add(pages.start, pages.end);
        }
    }

    /// Whether the kernel may have read the page, and so programs may have stored into it.
    pub(crate) fn may_have_page(&self, ino: InodeNumber, page: u64) -> bool {
        let shard = self.shard(ino);
        let lease = shard.leases.get(&ino.0);
        lease.is_some_and(|lease| lease.given.contains(page))
    }

    /// The page is about to be dropped.
    pub(crate) fn forget_page(&self, ino: InodeNumber, page: u64) {
        if let Some(lease) = self.shard(ino).leases.get_mut(&ino.0) {
            lease.given.remove(page);
        }
    }

    /// All pages are about to be dropped.
    pub(crate) fn forget_all_pages(&self, ino: InodeNumber) {
        if let Some(lease) = self.shard(ino).leases.get_mut(&ino.0) {
            lease.given = Given::default();
        }
    }

    /// Pages are about to be read for another handle, or without a lease.
    pub(crate) fn note_other_pages(&self, ino: InodeNumber) {
        let mut shard = self.shard(ino);
        if let Some(lease) = shard.leases.get_mut(&ino.0) {
            self.paged.take(std::mem::take(&mut lease.paged_bytes));
            lease.pages = Pages::Other;
        }
    }

    /// The last marked handle was closed. Returns whether pages may stay; if not, all must be dropped.
    pub(crate) fn may_keep_pages(&self, ino: InodeNumber) -> bool {
        let mut shard = self.shard(ino);
        let is_written = shard.has_direct_writers(ino);
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

    /// The kernel wrote to the file through pages. So its attributes may be remembered again at once, as after other
    /// changes by the kernel.
    pub(crate) fn wrote_through(&self, ino: InodeNumber) {
        let is_granted = |lease: &Lease| lease.is_granted();
        if self.shard(ino).leases.get(&ino.0).is_some_and(is_granted) {
            return;
        }
        if let Ok(now) = self.volume.attributes(ino) {
            self.note_change_by_kernel(ino, now.ctime_ns);
        }
    }

    /// Whether a lease covers all pages that the kernel has of the file, so that changes past the kernel drop them.
    pub(crate) fn has_leased_pages(&self, ino: InodeNumber) -> bool {
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
