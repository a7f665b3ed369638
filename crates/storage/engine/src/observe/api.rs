//! What observers ask; and what the data path notes for them.

use crate::observe::callers::CallerReport;
use crate::observe::reports::{PAUSED, ThreadReport};
use crate::observe::{Callers, Users};
use crate::session::layout::*;
use crate::session::slots::{Me, pid_namespace};
use crate::session::volume::{FileReference, Volume};
use crate::types::Outcome;
use egeria_media::emulation::AccessKind;
use std::sync::atomic::Ordering;

/// A thread that writes for one on another CPU, until this is dropped.
struct Writing<'a>(Me<'a>);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.slot.writer_pool.store(0, Ordering::Relaxed);
    }
}

impl Volume {
    /// Begin a new window for later notes. Returns its number, never 0.
    pub fn begin_window(&self) -> u64 {
        let next = |number: u64| (number & !PAUSED) + 1;
        let window = &self.session.header().window;
        let before = window.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| {
            Some(next(number))
        });
        next(before.unwrap_or_else(|number| number))
    }

    /// Observation ends: threads stop noting. The window numbers of the next observer continue after these.
    pub fn end_windows(&self) {
        // The number must never be used again while inodes contain it.
        let window = &self.session.header().window;
        let _ = window.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| {
            (number & PAUSED == 0).then_some(number | PAUSED)
        });
    }

    /// Declare that calls of this process are made for others (a mount's requests): its threads do not count as users
    /// of files.
    pub fn works_on_behalf(&self) {
        self.on_behalf.store(true, Ordering::Relaxed);
        if let Some(process) = (self.process.load(Ordering::Acquire) as usize)
            .checked_sub(1)
            .and_then(|index| self.session.processes().get(index))
        {
            process.on_behalf.store(1, Ordering::Relaxed);
        }
    }

    /// Position in the machine of the node a pool lies on.
    pub fn node_position(&self, pool: usize) -> usize {
        self.session.node_index(pool as u8)
    }

    /// All threads that use the volume now, and their notes of `window`.
    pub fn threads(&self, window: u64) -> Vec<ThreadReport> {
        let slots = self.session.used_threads().iter();
        slots
            .enumerate()
            .filter_map(|(index, slot)| Users::of(self).report_thread(index, slot, window))
            .collect()
    }

    /// Note that the thread used a file.
    #[inline(always)]
    pub(crate) fn note_use(&self, me: Me<'_>, file: FileReference, bytes: u64, kind: AccessKind) {
        let window = self.session.header().window.load(Ordering::Relaxed);
        if window.wrapping_sub(1) < PAUSED - 1 {
            Users::of(self).note_use_in(window, me, file, bytes, kind);
        }
    }

    /// Does the work of a request for a thread; while the session is observed, notes the bytes it moved. `thread_id`
    /// is the kernel's, 0 when no thread asked. The calling thread must do the work.
    pub fn for_caller<T>(&self, thread_id: u32, work: impl FnOnce() -> T) -> T {
        if thread_id == 0 || !Users::of(self).is_watched() {
            return work();
        }
        let before = Callers::of(self).own_bytes();
        let done = work();
        if let (Some(before), Some(after)) = (before, Callers::of(self).own_bytes()) {
            Callers::of(self).note_caller(thread_id, &before, &after);
        }
        done
    }

    /// Does the work of a request that a thread on `cpu` made: its new data goes to that CPU's node, not to the node of
    /// the calling thread. `None`: the CPU is not known.
    pub fn write_from_cpu<T>(&self, cpu: Option<usize>, work: impl FnOnce() -> T) -> T {
        let pools = &self.session.header().pool_of_cpu;
        let Some(pool) = cpu.and_then(|cpu| pools.get(cpu)) else {
            return work();
        };
        let Ok(me) = self.me() else {
            return work();
        };
        let pool = u32::from(pool.load(Ordering::Relaxed)) + 1;
        me.slot.writer_pool.store(pool, Ordering::Relaxed);
        let _writing = Writing(me);
        work()
    }

    /// The threads that came through mounts while the session was observed.
    pub fn callers(&self) -> Vec<CallerReport> {
        let high = self.session.header().caller_high.load(Ordering::Acquire) as usize;
        let slots = self.session.callers()[..high.min(CALLER_SLOTS)].iter();
        slots
            .enumerate()
            .filter_map(|(index, slot)| Callers::of(self).report_caller(index, slot))
            .collect()
    }

    /// Let others see that this process has the volume attached. The first use of a file does so, too.
    ///
    /// # Errors
    /// What [every operation](crate::Errno) can fail with.
    pub fn note_attached(&self) -> Outcome<()> {
        self.process_slot().map(drop)
    }

    /// Whether a process has the volume attached, and [lets others see](Volume::note_attached) it. Its number is that of the
    /// calling process's pid namespace.
    pub fn is_attached_by(&self, process_id: u32) -> bool {
        let is_it = |slot: &&ProcessSlot| slot.pid.load(Ordering::Acquire) == u64::from(process_id);
        let mut own = self.session.used_processes().iter().filter(is_it);
        own.any(|slot| slot.pid_namespace.load(Ordering::Relaxed) == pid_namespace())
    }

    /// From now on, while this process is attached, names are to be changed through a mount.
    ///
    /// # Errors
    /// What [every operation](crate::Errno) can fail with.
    pub fn watch_names(&self) -> Outcome<()> {
        let process = self.process_slot()?;
        let watchers = &self.session.header().watchers;
        // Counted first: a process that dies in between stays counted until the session ends, which costs only speed.
        watchers.fetch_add(1, Ordering::SeqCst);
        if self.session.processes()[process]
            .watches
            .swap(1, Ordering::SeqCst)
            != 0
        {
            watchers.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Whether names are to be changed through a mount.
    #[inline]
    pub fn are_names_watched(&self) -> bool {
        self.session.header().watchers.load(Ordering::SeqCst) != 0
    }
}
