//! The bracket around every access of pool memory by a data path: what must be done before and after a copy is
//! done here, and nowhere else. Paths of their own for usual calls ask once whether there is anything to do
//! ([`PathMode::NORMAL`]), and then copy without it.
//!
//! ```text
//! begin ─ (run: before ─ copy ─ after)* ─ end        `end` outside of all locks: it may sleep
//! ```

use crate::data::traffic::Traffic;
use crate::session::path_mode::PathMode;
use crate::session::slots::{Me, count};
use crate::types::Outcome;
use crate::volume::Volume;
use egeria_media::emulation::AccessKind;
use egeria_media::{Pool, PoolIndex, PoolOffset};

/// A run of bytes of a pool.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) pool: PoolIndex,
    pub(crate) at: PoolOffset,
    pub(crate) bytes: usize,
}

/// One read or write under way. What it accessed counts when it ends; dropped, it counts nothing.
pub(crate) struct Access<'a> {
    volume: &'a Volume,
    me: Me<'a>,
    kind: AccessKind,
    mode: PathMode,
    traffic: Traffic,
}

impl<'a> Access<'a> {
    /// What follows is the access, not the thread's own computing.
    #[inline(always)]
    pub(crate) fn begin(volume: &'a Volume, me: Me<'a>, kind: AccessKind) -> Access<'a> {
        let access = Access::again(volume, me, kind);
        if access.mode.is_timed() {
            volume.session.emulation().begin_access(&me.slot.emulated);
        }
        access
    }

    /// Another try of an access that began before.
    #[inline(always)]
    pub(crate) fn again(volume: &'a Volume, me: Me<'a>, kind: AccessKind) -> Access<'a> {
        Access {
            volume,
            me,
            kind,
            mode: volume.path_mode(),
            traffic: Traffic::default(),
        }
    }

    /// Access a run for the caller.
    #[inline(always)]
    pub(crate) fn run<T>(
        &mut self,
        run: Run,
        copy: impl FnOnce(&Pool) -> Outcome<T>,
    ) -> Outcome<T> {
        let copied = copy(self.volume.pool(run.pool)?)?;
        self.note(run);
        Ok(copied)
    }

    /// A run was accessed.
    #[inline(always)]
    fn note(&mut self, run: Run) {
        self.traffic.add(run.pool.0, run.bytes as u64);
        if self.mode.is_timed() {
            let (thread, node) = (&self.me.slot.emulated, self.volume.node_index(run.pool.0));
            let (place, bytes) = (self.volume.emulated_place(run), run.bytes as u64);
            let emulation = self.volume.session.emulation();
            emulation.touch(thread, node, place, bytes, self.kind);
        }
    }

    /// Access a run that is not the caller's data, or not all of it: edges, zeros, whole blocks that are
    /// verified. It is neither counted nor charged.
    #[inline(always)]
    pub(crate) fn upkeep<T>(
        volume: &Volume,
        run: Run,
        copy: impl FnOnce(&Pool) -> Outcome<T>,
    ) -> Outcome<T> {
        copy(volume.pool(run.pool)?)
    }

    /// What was accessed so far is of no use, and accessed again elsewhere.
    pub(crate) fn start_over(&mut self) {
        self.traffic = Traffic::default();
    }

    /// Count what was accessed and, on an emulated machine, wait as long as it takes there.
    pub(crate) fn end(self) {
        let here = self.volume.pool_here(self.me);
        let counters = &self.me.slot.counters;
        let of_pool = match self.kind {
            AccessKind::Read => &counters.read_bytes,
            AccessKind::Write => &counters.written_bytes,
        };
        for (pool, bytes) in self.traffic.by_pool() {
            count(&of_pool[pool], bytes);
            if pool != here {
                count(&counters.remote_bytes, bytes);
            }
        }
        if self.mode.is_timed() {
            let by_pool = self.traffic.by_pool();
            let mut parts =
                by_pool.map(|(pool, bytes)| (self.volume.memory_index(pool as u8), bytes));
            let emulation = self.volume.session.emulation();
            emulation.access_striped(&self.me.slot.emulated, &mut parts, self.kind);
        }
    }
}
