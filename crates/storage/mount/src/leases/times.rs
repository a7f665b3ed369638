//! All times of leases in one place: the value, its cause, and what happens when it is exceeded.
//!
//! | time | value | cause | beyond it |
//! | --- | --- | --- | --- |
//! | [`REST`] | 100 ms | another process changed the inode and may do so again soon | a lease is granted |
//! | [`REST_AFTER_RECALL`] | 1 s, doubled up to 64 s | a lease was recalled, so another process changes the inode | a lease is granted |
//! | [`UNTIL_CHANGED`] | 300 us | the process that asked for a recall has yet to make its change | a lease is granted, and recalled for the change |
//! | [`UNTIL_REPLACED`] | 20 ms | the kernel marks old attributes as valid before it replaces them (`fuse_update_attributes`, all kernels) | attributes may be cached |
//! | [`UNTIL_TAKEN_IN`] | 20 ms | the kernel processes an answer about a name that it had already without a lock | a name is expired once more, and then taken for unknown |
//! | [`TAKEN_IN`] | 100 ms | Linux 6.19 does not wait for look-ups in a directory before it drops a name | a name is dropped once more, and then taken for unknown |
//! | [`UNTIL_MADE`] | 2 s | the kernel is just creating the inode, on a thread that may be preempted | the recall ends; the kernel's answer is not covered by a lease |
//! | [`UNTIL_SENT`] | 20 ms | invalidations are sent one after the other, and may wait for pages | a `read` at that moment may see the size from before the change |
//! | [`UNTIL_PAGES_LEFT`] | 10 ms | another process is changing the file | the pages are read without a lease, and dropped right after |
//! | [`UNTIL_LISTING_LEFT`] | 4 ms | another process is changing the directory | the listing is not kept |
//! | [`NAME`], [`FILE`], [`DIRECTORY`], [`ROOT`] | 1 h, 10 min, 10 s, 1 s | validity of cached answers; a notification ends it earlier | the kernel asks again |

use crate::options::LeaseTiming;
use std::time::Duration;

/// Another process that changed an inode a moment ago is likely to change it again: no lease during this time. Changes
/// by this kernel need no recall.
pub(super) const REST: Duration = Duration::from_millis(100);
/// Rest after a recall; each further recall doubles it.
pub(super) const REST_AFTER_RECALL: Duration = Duration::from_secs(1);
/// How often the rest after a recall is doubled at most.
pub(super) const MAX_DOUBLINGS: u32 = 6;
/// How soon after a recall the process that asked for it changes the inode.
pub(super) const UNTIL_CHANGED: Duration = Duration::from_micros(300);
/// How long the kernel may take to replace cached attributes by those of an answer, even if its CPU is preempted.
pub(super) const UNTIL_REPLACED: Duration = Duration::from_millis(20);
/// How long the kernel may take to process an answer about a name that it had already: it holds no lock during that.
pub(super) const UNTIL_TAKEN_IN: Duration = Duration::from_millis(20);
/// How long a kernel that does not wait for look-ups in a directory may take to store an answer.
pub(super) const TAKEN_IN: Duration = Duration::from_millis(100);
/// How long to wait for an inode that the kernel is just creating: as long as one of its threads may be preempted.
pub(super) const UNTIL_MADE: Duration = Duration::from_secs(2);
/// How long a recall waits for invalidations of earlier changes. One of another inode may wait before them.
pub(super) const UNTIL_SENT: Duration = Duration::from_millis(20);
/// How long to wait for a process that changes a file before its pages are read.
pub(super) const UNTIL_PAGES_LEFT: Duration = Duration::from_millis(10);
/// How long to wait for a process that changes a directory before it is listed.
pub(super) const UNTIL_LISTING_LEFT: Duration = Duration::from_millis(4);
/// How often a waiting thread looks again.
pub(super) const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// How long the kernel may cache a name, unless it is notified earlier.
pub(super) const NAME: Duration = Duration::from_secs(3600);
/// How long it may cache attributes of files, so that a tree that is rarely read costs no requests. Those of an open
/// file outlive the mount.
pub(super) const FILE: Duration = Duration::from_secs(600);
/// How long it may cache attributes of directories. After this time a path through a dead mount fails.
pub(super) const DIRECTORY: Duration = Duration::from_secs(10);
/// How long it may cache attributes of the root, which is part of every path.
pub(super) const ROOT: Duration = Duration::from_secs(1);

/// The times that a mount's options decide.
pub(super) struct Rests {
    /// See [`REST`].
    pub after_change: Duration,
    /// See [`REST_AFTER_RECALL`].
    pub after_recall: Duration,
    /// See [`UNTIL_TAKEN_IN`].
    pub until_taken_in: Duration,
}

impl Rests {
    pub(super) fn new(leases: LeaseTiming) -> Rests {
        match leases {
            LeaseTiming::Rested => Rests {
                after_change: REST,
                after_recall: REST_AFTER_RECALL,
                until_taken_in: UNTIL_TAKEN_IN,
            },
            // Without any rest after a recall, the process that asked for it might never get to its change.
            LeaseTiming::AtOnce => Rests {
                after_change: Duration::ZERO,
                after_recall: Duration::from_millis(2),
                until_taken_in: Duration::from_millis(2),
            },
        }
    }
}
