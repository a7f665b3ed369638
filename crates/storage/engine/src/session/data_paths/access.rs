//! The bracket around every access of pool memory by a data path: all steps before and after a copy are done here, and
//! nowhere else. Fast paths for usual calls check once whether there is anything to do ([`PathMode::NORMAL`]), and
//! then copy without the bracket.
//!
//! ```text
//! begin ─ (run: before ─ copy ─ after)* ─ end        `end` outside of all locks: it may sleep
//! ```

use crate::format::BLOCK;
use crate::session::path_mode::PathMode;
use crate::session::slots::{Me, count};
use crate::session::traffic::Traffic;
use crate::session::volume::Volume;
use crate::types::{Errno, Outcome};
use egeria_media::emulation::{AccessKind, Handover};
use egeria_media::{CallerDestination, CallerSource, Pool, PoolIndex, PoolOffset};

/// A run of bytes of a pool.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) pool: PoolIndex,
    pub(crate) at: PoolOffset,
    pub(crate) bytes: usize,
}

/// One read or write. Its accesses are counted when it ends; when it is dropped, nothing is counted.
pub(crate) struct Access<'a> {
    volume: &'a Volume,
    me: Me<'a>,
    kind: AccessKind,
    mode: PathMode,
    traffic: Traffic,
    /// Copies runs for the caller, if set.
    delegation: Option<&'a dyn DelegatedCopy>,
}

/// Delegates that copy runs for the caller (data floor): between the caller's memory and a pool.
pub(crate) trait DelegatedCopy {
    /// Have a run read by a delegate. `false`: the caller reads it.
    fn read(&self, pool: usize, at: PoolOffset, to: CallerDestination<'_>) -> bool;

    /// Have a run written by a delegate. `false`: the caller writes it.
    fn write(&self, pool: usize, at: PoolOffset, from: CallerSource<'_>) -> bool;

    /// Wait until all runs are copied. `false`: one was not, and the caller copies all of them.
    fn settle(&self) -> bool;

    /// Forget the runs so far.
    fn start_over(&self);

    /// Bytes that delegates copied for the caller, by pool; reading them resets them.
    fn take_traffic(&self) -> Traffic;

    /// On an emulated machine, have the caller's next access charged for what handing over took longer than it waited.
    fn charge_handing_over(&self);
}

impl<'a> Access<'a> {
    /// Begin an access: what follows is not the thread's own computing.
    #[inline(always)]
    pub(crate) fn begin(volume: &'a Volume, me: Me<'a>, kind: AccessKind) -> Access<'a> {
        let access = Access::again(volume, me, kind);
        if access.mode.is_timed() {
            volume.session.emulation().begin_access(&me.slot.emulated);
        }
        access
    }

    /// Repeat an access that began before.
    #[inline(always)]
    pub(crate) fn again(volume: &'a Volume, me: Me<'a>, kind: AccessKind) -> Access<'a> {
        Access {
            volume,
            me,
            kind,
            mode: volume.path_mode(),
            traffic: Traffic::default(),
            delegation: None,
        }
    }

    /// Begin an access with runs copied by delegates, if there are any.
    #[inline(always)]
    pub(crate) fn begin_long(
        volume: &'a Volume,
        me: Me<'a>,
        kind: AccessKind,
        delegation: Option<&'a impl DelegatedCopy>,
    ) -> Access<'a> {
        match delegation {
            None => Access::begin(volume, me, kind),
            // Handing the access over counts as the thread's own computing.
            Some(delegation) => Access {
                delegation: Some(delegation),
                ..Access::again(volume, me, kind)
            },
        }
    }

    /// Copy a run to the caller's memory, now or until [`Access::settle`].
    #[inline(always)]
    pub(crate) fn copy_out(&mut self, run: Run, to: CallerDestination<'_>) -> Outcome<()> {
        match self.delegation {
            Some(delegation) if delegation.read(run.pool.0 as usize, run.at, to) => Ok(()),
            _ => self.run(run, |pool| pool.copy_out(run.at, to).map_err(Errno::from)),
        }
    }

    /// Copy a run of the caller's memory to the pool, now or until [`Access::settle`].
    #[inline(always)]
    pub(crate) fn copy_in(&mut self, run: Run, from: CallerSource<'_>) -> Outcome<()> {
        match self.delegation {
            Some(delegation) if delegation.write(run.pool.0 as usize, run.at, from) => Ok(()),
            _ => self.run(run, |pool| pool.copy_in(run.at, from).map_err(Errno::from)),
        }
    }

    /// Wait until all runs are copied. `false`: some were not, and from now on the caller copies all of them itself.
    #[inline(always)]
    pub(crate) fn settle(&mut self) -> bool {
        match self.delegation {
            None => true,
            Some(delegation) => {
                delegation.settle() || {
                    self.delegation = None;
                    self.start_over();
                    false
                }
            }
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
            let (thread, node) = (
                &self.me.slot.emulated,
                self.volume.session.node_index(run.pool.0),
            );
            let (place, bytes) = (emulated_place(self.volume, run), run.bytes as u64);
            let emulation = self.volume.session.emulation();
            emulation.touch(thread, node, place, bytes, self.kind);
        }
    }

    /// Access a run that is not the caller's data, or not all of it: edges, zeros, whole blocks for verification. It
    /// is neither counted nor charged.
    #[inline(always)]
    pub(crate) fn upkeep<T>(
        volume: &Volume,
        run: Run,
        copy: impl FnOnce(&Pool) -> Outcome<T>,
    ) -> Outcome<T> {
        copy(volume.pool(run.pool)?)
    }

    /// Discard the accesses so far; they are repeated elsewhere.
    pub(crate) fn start_over(&mut self) {
        self.traffic = Traffic::default();
        if let Some(delegation) = self.delegation {
            delegation.start_over();
        }
    }

    /// Count what was accessed. On an emulated machine, wait as long as the access takes there.
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
                count(&counters.remote_bytes[pool], bytes);
            }
        }
        if let Some(delegation) = self.delegation {
            // By threads of the pool's node, so nothing of it is remote.
            for (pool, bytes) in delegation.take_traffic().by_pool() {
                count(&of_pool[pool], bytes);
                count(&counters.delegated_bytes, bytes);
            }
        }
        self.charge();
    }

    /// As [`Access::charge`], by a delegate: for a thread of this node, which handed over this many pieces.
    pub(crate) fn charge_delegated(self, home: usize, pieces: u64) {
        if self.mode.is_timed() {
            let emulation = self.volume.session.emulation();
            for (pool, bytes) in self.traffic.by_pool() {
                let part = (self.volume.session.memory_index(pool as u8), bytes);
                let handover = Handover { home, pieces };
                emulation.access_delegated(&self.me.slot.emulated, part, self.kind, handover);
            }
        }
    }

    /// On an emulated machine, wait as long as it takes there.
    #[inline(always)]
    pub(crate) fn charge(self) {
        if self.mode.is_timed() {
            let by_pool = self.traffic.by_pool();
            let mut parts =
                by_pool.map(|(pool, bytes)| (self.volume.session.memory_index(pool as u8), bytes));
            let emulation = self.volume.session.emulation();
            match self.delegation {
                None => emulation.access_striped(&self.me.slot.emulated, &mut parts, self.kind),
                // Charge at least the thread's computing, even if there was no access.
                Some(delegation) => {
                    delegation.charge_handing_over();
                    let own = self
                        .volume
                        .session
                        .memory_index(self.volume.pool_here(self.me) as u8);
                    let mut parts = std::iter::once((own, 0)).chain(parts);
                    emulation.access_striped(&self.me.slot.emulated, &mut parts, self.kind);
                }
            }
        }
    }
}

/// The place of a run for the caches of the emulated machine. Volumes share these caches, so places of different
/// volumes differ.
fn emulated_place(volume: &Volume, run: Run) -> (PoolIndex, PoolOffset) {
    const APART_BYTES: u64 = (1 << 50) - BLOCK as u64;
    let apart = u64::from_le_bytes(
        volume.superblock().volume[..8]
            .try_into()
            .unwrap_or_default(),
    );
    (run.pool, PoolOffset(run.at.0 + (apart & APART_BYTES)))
}
