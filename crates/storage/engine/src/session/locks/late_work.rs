//! Leaving work to later, and doing it.

use crate::format::Extent;
use crate::session::late::Late;
use crate::session::{LateWork, patience};
use crate::types::Outcome;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often to try to lock the list of deferred work while another thread holds it.
const LATE_TRIES: u32 = 10_000;
/// How long to wait for locks when doing deferred work.
const LATE_PATIENCE: Duration = Duration::from_millis(1);

impl LateWork<'_> {
    /// Leave work to `reap` if it needs a lock that this thread may not wait for.
    pub(crate) fn later(self, what: Late) {
        // The wait is bounded: a fork may have happened while another thread held the list.
        for _ in 0..LATE_TRIES {
            if let Ok(mut late) = self.volume.late.try_lock() {
                late.push((self.volume.era.load(Ordering::Relaxed), what));
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Do deferred work, as far as locks are free now.
    pub(crate) fn do_late(self) {
        let late = self
            .volume
            .late
            .try_lock()
            .map(|mut late| std::mem::take(&mut *late));
        let era = self.volume.era.load(Ordering::Relaxed);
        // Work deferred before a fork is left to the parent.
        let own = late.unwrap_or_default().into_iter();
        for (_, what) in own.filter(|(of, _)| *of == era) {
            let _ = patience::within(LATE_PATIENCE, || self.do_one_late(what));
        }
    }

    /// Give back space that was left to later, once a try is worthwhile. For a thread that holds inodes and waits for
    /// no lock. The words of this thread's slot that name such space must be free.
    pub(crate) fn give_back_late(self, is_meant: impl Fn(&Late) -> bool) {
        if !self.volume.space_busy.is_over() {
            return;
        }
        let era = self.volume.era.load(Ordering::Relaxed);
        let late = self.volume.late.try_lock().map(|mut late| {
            let own = |(of, what): &mut (u64, Late)| *of == era && is_meant(what);
            let meant: Vec<_> = late.extract_if(.., own).collect();
            if !late.iter().any(|(_, what)| what.is_space()) {
                self.volume.space_busy.clear();
            }
            meant
        });
        for (_, what) in late.unwrap_or_default() {
            let _ = self.do_one_late(what);
        }
    }

    fn do_one_late(self, what: Late) -> Outcome<()> {
        match what {
            Late::Close(ino) => self.volume.close(ino),
            Late::Unmark(ino) => self.volume.unmark_kernel_cached(ino),
            Late::Run(extent) => {
                self.volume
                    .give_back_run(self.volume.me()?, Extent::decode(extent));
            }
            Late::Number(ino) => {
                let me = self.volume.me()?;
                me.slot.pending_inode.store(ino, Ordering::Release);
                self.volume.free_inode(me.slot, ino);
            }
        }
        Ok(())
    }
}
