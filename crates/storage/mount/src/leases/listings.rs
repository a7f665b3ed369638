//! Leases on listings of directories (see module `listing`).

use super::Leases;
use super::times::{LOOK_AGAIN, UNTIL_LISTING_LEFT};
use crate::kernel::notify::Kernel;
use egeria_engine::InodeNumber;
use std::time::Instant;

impl Leases {
    /// A directory was opened: whether the kernel may keep its listing, and whether the one it kept before is still
    /// valid.
    pub(crate) fn grant_listing(&self, directory: InodeNumber) -> (bool, bool) {
        let is_granted = self.grant_names(directory).is_some();
        let shard = self.shard(directory);
        let lease = shard.leases.get(&directory.0);
        (is_granted, lease.is_some_and(|lease| lease.has_listing()))
    }

    /// A directory is about to be listed for a kernel that keeps the listing in any case. So it gets a lease, also
    /// without rest, and the next recall drops the listing. If a recall is under way, that recall drops it. `false`:
    /// another process has been changing the directory for long.
    pub(crate) fn cover_listing(&self, directory: InodeNumber, is_beginning: bool) -> bool {
        let begun = Instant::now();
        loop {
            let mut shard = self.shard(directory);
            let lease = shard.leases.entry(directory.0).or_default();
            if lease.note_read() {
                return true;
            }
            if !lease.is_recalled_just_now() && self.hold(lease, directory, true) {
                // A handle that was opened without a valid listing has dropped the old one by now.
                if is_beginning {
                    lease.note_listing();
                }
                lease.answered = Some(Instant::now());
                return true;
            }
            drop(shard);
            if begun.elapsed() >= UNTIL_LISTING_LEFT {
                return false;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// A handle is about to read a part of a listing, before it is looked at. `is_covered`: a change past the kernel
    /// drops it.
    pub(crate) fn read_listing(
        &self,
        directory: InodeNumber,
        (handle, is_beginning): (u64, bool),
        is_covered: bool,
        kernel: &Kernel,
    ) {
        let is_older = {
            let mut shard = self.shard(directory);
            let lease = shard.leases.entry(directory.0).or_default();
            let is_older = lease.listing.read(handle, is_beginning);
            if !is_covered {
                lease.listing.spoil();
            }
            is_older
        };
        if is_older {
            kernel.forget_listing(directory);
        }
    }

    /// A handle is about to reach the end of the listing.
    pub(crate) fn end_listing(&self, directory: InodeNumber, handle: u64, kernel: &Kernel) {
        let may_keep = {
            let mut shard = self.shard(directory);
            let lease = shard.leases.get_mut(&directory.0);
            lease.is_some_and(|lease| lease.listing.end(handle))
        };
        if !may_keep {
            kernel.forget_listing(directory);
        }
    }
}
