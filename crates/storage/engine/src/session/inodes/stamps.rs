//! Times of changes. They are read from the kernel's tick, which is cheap to read and advances every few ms. But a
//! reader that saw the times of an inode must notice its next change. So such a change gets a time with ns resolution,
//! as in the kernel's own file systems since Linux 6.13 (multigrain timestamps).
//!
//! A later change never has an earlier time, even on another inode: so the last fine time is a lower bound for all of
//! the session until the tick is past it.

use crate::session::Stamps;
use crate::session::inode::Locked;
use crate::session::layout::SessionInode;
use egeria_media::clock;
use std::sync::atomic::Ordering;

/// More than a tick. A fine time further ahead than this is from before the clock was set back.
const MAX_TICK_NS: i64 = 20_000_000;

impl Stamps<'_> {
    /// Now, ns since the epoch, by the kernel's tick.
    #[inline(always)]
    pub(crate) fn now_ns(self) -> i64 {
        if self.volume.clock_ns.load(Ordering::Relaxed) != 0 {
            return self.volume.clock_ns.fetch_add(1, Ordering::Relaxed);
        }
        let tick_ns = clock::now_ns(libc::CLOCK_REALTIME_COARSE);
        let last_ns = self
            .volume
            .session
            .header()
            .last_stamp
            .0
            .load(Ordering::Relaxed);
        // Below 0 is far above the limit.
        if (last_ns.wrapping_sub(tick_ns) as u64) < MAX_TICK_NS as u64 {
            last_ns
        } else {
            tick_ns
        }
    }

    /// The time of a change of an inode: later than its times that were read. Under its lock.
    #[inline(always)]
    pub(crate) fn stamp_ns(self, inode: &SessionInode) -> i64 {
        let now_ns = self.now_ns();
        match inode.times_shown.load(Ordering::Relaxed) {
            0 => now_ns,
            _ => self.stamp_after_look(inode, now_ns),
        }
    }

    #[cold]
    fn stamp_after_look(self, inode: &SessionInode, now_ns: i64) -> i64 {
        inode.times_shown.store(0, Ordering::Relaxed);
        // A clock set by a test advances with each read, so that runs are repeatable.
        let is_set = self.volume.clock_ns.load(Ordering::Relaxed) != 0;
        if is_set || now_ns > inode.ctime_ns.load(Ordering::Relaxed) as i64 {
            return now_ns;
        }
        let fine_ns = clock::now_ns(libc::CLOCK_REALTIME);
        // The clock may have been set back: then the last time is ignored.
        let next = |last_ns: i64| match last_ns.saturating_sub(fine_ns) {
            0..MAX_TICK_NS => last_ns + 1,
            _ => fine_ns,
        };
        let last = &self.volume.session.header().last_stamp.0;
        let update = |last_ns| Some(next(last_ns));
        let before = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        before.map_or(fine_ns, next)
    }

    /// The time of a change of several inodes: later than what was shown of any of them. Under their locks.
    #[inline]
    pub(crate) fn stamp_all_ns(self, changed: &[&Locked<'_>]) -> i64 {
        let now_ns = self.now_ns();
        let is_shown = |locked: &&Locked<'_>| locked.inode.times_shown.load(Ordering::Relaxed) != 0;
        if changed.iter().any(is_shown) {
            let shown = changed.iter().filter(|locked| is_shown(locked));
            let stamps = shown.map(|locked| self.stamp_after_look(locked.inode, now_ns));
            return stamps.max().unwrap_or(now_ns);
        }
        now_ns
    }
}
