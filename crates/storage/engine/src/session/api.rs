//! What callers ask of a volume as a whole, of uses of its inodes and of admission.

use crate::failure_cause;
use crate::failure_cause::FailureCause;
use crate::format::MAX_POOLS;
use crate::requests::{Counters, DescriptionSlot, RecoveryReport};
use crate::session::data_paths::admission::{
    LimitedBy, NO_LIMIT, PoolAdmission, release_waiters, selector,
};
use crate::session::inodes::descriptions::{MAX_LOOKS, load};
use crate::session::layout::*;
use crate::session::path_mode::PathMode;
use crate::session::slots::count;
use crate::session::volume::{FileReference, Origin, Reporter, Severity, Volume};
use crate::session::wait_notes::LongWait;
use crate::session::{Admitting, Reports, Slots, Uses, Waits};
use crate::types::*;
use egeria_media::emulation::Emulation;
use egeria_media::{Pool, PoolIndex};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

impl Volume {
    /// UUID of the volume.
    pub fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::from_bytes(self.superblock().volume)
    }

    /// Version of the format.
    pub fn format_version(&self) -> u32 {
        self.superblock().version
    }

    /// Paths of the pools, by pool index.
    pub fn pool_paths(&self) -> Vec<PathBuf> {
        self.paths.to_vec()
    }

    /// Index of the pool at a path.
    pub fn pool_at(&self, path: &std::path::Path) -> Option<u8> {
        let path = std::fs::canonicalize(path).ok()?;
        let index = self.paths.iter().position(|pool| *pool == path)?;
        u8::try_from(index).ok()
    }

    /// Whether there is a pool with this index that was not removed.
    pub fn has_pool(&self, pool: usize) -> bool {
        self.superblock().has_pool(pool)
    }

    /// Node of each pool, by pool index; of a removed pool the node it had.
    pub fn pool_nodes(&self) -> Vec<u16> {
        self.look_for_added_pools();
        self.superblock()
            .pools
            .iter()
            .map(|pool| pool.node)
            .collect()
    }

    /// Whether every change is refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether this attach made the session: then its [`crate::AttachOptions`] apply to all processes.
    pub fn made_session(&self) -> bool {
        self.origin != Origin::Joined
    }

    /// Where new data of the whole session goes.
    pub fn allocation(&self) -> AllocationPolicy {
        match self.session.header().allocation.load(Ordering::Relaxed) {
            0 => AllocationPolicy::Local,
            1 => AllocationPolicy::Random,
            STRIPED_ALLOCATION => AllocationPolicy::Striped,
            pool => AllocationPolicy::Pool(pool.saturating_sub(16) as u8),
        }
    }

    /// Where new data goes; changed for the whole session.
    pub fn set_allocation(&self, policy: AllocationPolicy) {
        let word = match policy {
            AllocationPolicy::Local => 0,
            AllocationPolicy::Random => 1,
            AllocationPolicy::Striped => STRIPED_ALLOCATION,
            AllocationPolicy::Pool(pool) => 16 + pool as u64,
        };
        self.session
            .header()
            .allocation
            .store(word, Ordering::Relaxed);
    }

    /// Emulated timing on or off (off while data is prepared); false when no machine is emulated. Other volumes on the
    /// machine are not affected.
    pub fn set_timing(&self, on: bool) -> bool {
        let (mode, untimed) = (&self.session.header().path_mode, PathMode::UNTIMED.0);
        if on {
            mode.fetch_and(!untimed, Ordering::AcqRel)
        } else {
            mode.fetch_or(untimed, Ordering::AcqRel)
        };
        // Accesses without timing were not charged to the machine.
        self.session.emulation().forget();
        self.is_emulated()
    }

    /// Whether accesses take as long as on an emulated machine.
    pub fn is_emulated(&self) -> bool {
        self.path_mode().is_emulated()
    }

    /// The emulated machine's state in the session.
    pub fn emulation(&self) -> &Emulation {
        self.session.emulation()
    }

    /// The media pools, for benchmarks' bare copies.
    pub fn pools(&self) -> &[Arc<Pool>] {
        self.look_for_added_pools();
        &self.media
    }

    /// Set the function to call with events: damage and blocks that fail (once each), stopped processes that others
    /// wait for, dead processes that were reaped. Can be set once. A library inside another program sets none. Events
    /// found earlier, by recovery, are in [`Volume::recovery`].
    pub fn set_reporter(&self, reporter: Reporter) {
        Waits::of(self).pass_over_noted_waits();
        let _ = self.reporter.set(reporter);
        for (index, pool) in self.media.iter().enumerate() {
            self.report_blocks_of(index, pool);
        }
    }

    /// Report blocks of a pool that fail from now on.
    pub(crate) fn report_blocks_of(&self, index: usize, pool: &Pool) {
        let volume = self.weak.clone();
        pool.set_failure_handler(Box::new(move |at| {
            if let Some(volume) = volume.upgrade() {
                Reports::of(&volume).report_block(index, at.block().0);
            }
        }));
    }

    /// What was done to the volume when this attach made the session; `None` when it joined one.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.recovery.get()
    }

    /// Cause of the last `EIO` of an operation of this thread, since [`crate::forget_failure_cause`].
    pub fn failure_cause(&self) -> Option<FailureCause> {
        failure_cause::last().or_else(|| {
            let failed = |(index, pool): (usize, &Arc<Pool>)| {
                Some(FailureCause::Medium {
                    pool: PoolIndex(index as u8),
                    block: pool.failure()?.block(),
                })
            };
            self.media.iter().enumerate().find_map(failed)
        })
    }

    /// Size now.
    ///
    /// # Errors
    /// What [every operation](crate::Errno) can fail with, when the inode is not loaded.
    pub fn size_bytes(&self, file: FileReference) -> Outcome<u64> {
        if file.inode().state.load(Ordering::Acquire) != LOADED {
            return Ok(self.lock_beside_leases(file.ino.0)?.size_bytes());
        }
        Ok(file.inode().size_bytes.load(Ordering::Acquire))
    }

    /// Whether a process has the inode open.
    pub fn is_open(&self, ino: InodeNumber) -> bool {
        let inode = self.inode(ino.0);
        inode.is_ok_and(|inode| self.session.is_open_anywhere(ino.0, inode))
    }

    /// Whether a mount has the inode open, for a program that its kernel serves.
    pub fn is_open_in_kernel(&self, ino: InodeNumber) -> bool {
        let is_mount = |process: &ProcessSlot| process.on_behalf.load(Ordering::Relaxed) != 0;
        let inode = self.inode(ino.0);
        inode.is_ok_and(|inode| self.session.is_open_by(ino.0, inode, is_mount))
    }

    /// Whether a process that is no mount has the inode open.
    pub fn is_open_past_kernel(&self, ino: InodeNumber) -> bool {
        let is_other = |process: &ProcessSlot| process.on_behalf.load(Ordering::Relaxed) == 0;
        let inode = self.inode(ino.0);
        inode.is_ok_and(|inode| self.session.is_open_by(ino.0, inode, is_other))
    }

    /// Whether a process that is no mount and not this process has the inode open.
    pub fn is_open_past_kernel_by_others(&self, ino: InodeNumber) -> bool {
        let own = self.process_slot().ok();
        let own = own.map(|own| &raw const self.session.processes()[own]);
        let is_other = |process: &ProcessSlot| {
            process.on_behalf.load(Ordering::Relaxed) == 0 && own != Some(&raw const *process)
        };
        let inode = self.inode(ino.0);
        inode.is_ok_and(|inode| self.session.is_open_by(ino.0, inode, is_other))
    }

    /// Hold an inode open in this process: it stays when its last name is removed. Counted: call `close` as often.
    /// Waits for no other thread, unless the inode has no name.
    ///
    /// # Errors
    /// `ESTALE` when there is no such inode, or `generation` is given and another one lives there now.
    pub fn open(&self, ino: InodeNumber, generation: Option<u32>) -> Outcome<FileReference> {
        let inode = self.inode(ino.0)?;
        Uses::of(self).note_open(ino.0)?;
        // Note the open first, then check the name; a thread that removes the last name does both in the other order.
        fence(Ordering::SeqCst);
        let same = |found: u32| generation.is_none_or(|wanted| wanted == found);
        match self.attributes(ino) {
            Ok(found) if found.nlink > 0 && same(found.generation) => {
                Ok(FileReference::new(ino, inode))
            }
            _ => Uses::of(self).open_noted(ino, same),
        }
    }

    /// The file of an open that is noted already, as by [`Volume::create_open`], with the inode loaded: its first
    /// access needs no lock.
    ///
    /// # Errors
    /// `ESTALE` when there is no such inode.
    pub fn file(&self, ino: InodeNumber) -> Outcome<FileReference> {
        let inode = self.inode(ino.0)?;
        if inode.state.load(Ordering::Acquire) != LOADED {
            self.attributes(ino)?;
        }
        Ok(FileReference::new(ino, inode))
    }

    /// Give back one `open`.
    pub fn close(&self, ino: InodeNumber) {
        if !Uses::of(self).lose_named_use(ino, || Uses::of(self).note_close(ino.0)) {
            Uses::of(self).close_nameless(ino);
        }
    }

    /// Take a slot for a new open description; None when all are taken.
    pub fn description_allocate(&self) -> Option<DescriptionSlot> {
        let process = self.process_slot().ok()? as u64 + 1;
        let entries = self.session.descriptions();
        let high = &self.session.header().description_high;
        let start =
            self.description_hint.fetch_add(1, Ordering::Relaxed) as usize % DESCRIPTION_SLOTS;
        (start..DESCRIPTION_SLOTS).chain(0..start).find_map(|at| {
            self.session.back(&entries[at]).ok()?;
            let owner = &entries[at].owner;
            let free = owner.load(Ordering::Relaxed) == 0;
            if free {
                // Before the slot is taken: the reaper stops at this bound.
                high.fetch_max(at as u64 + 1, Ordering::AcqRel);
            }
            // The owner is stored in the same step that takes the slot: a death in between loses nothing.
            (free
                && owner
                    .compare_exchange(0, process, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok())
            .then_some(DescriptionSlot(at as u32))
        })
    }

    /// Give a slot back.
    pub fn description_free(&self, slot: DescriptionSlot) {
        if let Some(entry) = self.session.descriptions().get(slot.0 as usize) {
            entry.owner.store(0, Ordering::Release);
        }
    }

    /// Run `body` under the slot's lock (survives a dead owner). The lock is held across the kernel's
    /// lseek calls, never across anything that takes engine locks of another slot.
    ///
    /// # Errors
    /// `EBADF` for a slot that does not exist; `EIO` when its lock cannot be used any more. `body` did not run.
    pub fn description_locked<T>(
        &self,
        slot: DescriptionSlot,
        body: impl FnOnce() -> T,
    ) -> Outcome<T> {
        let entry = self.session.descriptions().get(slot.0 as usize);
        // It protects the kernel's position only, which is whole at any time.
        entry.ok_or(Errno(libc::EBADF))?.mutex.with(|| (), body)
    }

    /// Sum over all threads, living and dead, of the session.
    pub fn counters(&self) -> Counters {
        // A thread that ends during the computation would count twice: in its slot, and among the ended threads.
        let ended = || self.session.header().ended.all().map(load);
        for _ in 0..MAX_LOOKS {
            let before: Vec<u64> = ended().collect();
            let sum = self.session.counters_now();
            if ended().eq(before) {
                return sum;
            }
        }
        self.session.counters_now()
    }

    /// Count a call served directly (preload), passed on (preload), or a request (mount) for this thread.
    #[inline]
    pub fn count_direct(&self) {
        if let Ok(me) = self.me() {
            count(&me.slot.counters.direct_calls, 1);
        }
    }

    /// See `count_direct`.
    pub fn count_passed(&self) {
        if let Ok(me) = self.me() {
            count(&me.slot.counters.passed_calls, 1);
        }
    }

    /// See `count_direct`.
    pub fn count_mount_request(&self) {
        if let Ok(me) = self.me() {
            count(&me.slot.counters.mount_requests, 1);
        }
    }

    /// The times of an inode are about to be shown to a program: its next change gets a later time. A caller that
    /// looks at attributes for decisions of its own does not call this. What changes between the caller's look and
    /// this call counts as a change before the look.
    #[inline]
    pub fn note_times_shown(&self, ino: InodeNumber) {
        let Ok(inode) = self.inode(ino.0) else {
            return;
        };
        // Usually it is set already, and the line stays shared.
        if inode.times_shown.load(Ordering::Relaxed) == 0 {
            inode.times_shown.store(1, Ordering::Relaxed);
        }
    }

    /// Limit how many threads access a pool at once; `None`: any number. Holds for all processes of the session, until it is
    /// changed.
    ///
    /// # Errors
    /// `EINVAL` when there is no such pool; `EBUSY` for a planner where the limit was set by hand; `ENOMEM` when the session's
    /// memory has no room.
    pub fn limit_admission(
        &self,
        pool: PoolIndex,
        limit: Option<NonZeroU32>,
        by: LimitedBy,
    ) -> Outcome<()> {
        let gates = self.session.gates();
        let gate = gates.get(pool.0 as usize).ok_or(Errno(libc::EINVAL))?;
        if limit.is_none() && !self.path_mode().is_limited() {
            return Ok(());
        }
        self.session.open_gates()?;
        if by == LimitedBy::Planner
            && gate.limited_by.load(Ordering::Acquire) == LimitedBy::Hand as u64
        {
            return Err(Errno(libc::EBUSY));
        }
        let owner = limit.map_or(0, |_| by as u64);
        gate.limited_by.store(owner, Ordering::Release);
        selector(gate).set_limit(limit.map_or(NO_LIMIT, NonZeroU32::get));
        Admitting::of(self).set_limited();
        release_waiters(gate);
        Ok(())
    }

    /// What set the limit of a pool; `None` when there is no limit or no such pool.
    pub fn limited_by(&self, pool: PoolIndex) -> Option<LimitedBy> {
        let gate = self.session.gates().get(pool.0 as usize)?;
        let by = self
            .path_mode()
            .is_limited()
            .then(|| gate.limited_by.load(Ordering::Acquire))?;
        [LimitedBy::Hand, LimitedBy::Planner]
            .into_iter()
            .find(|each| *each as u64 == by)
    }

    /// Remove all limits that a planner set.
    ///
    /// # Errors
    /// As [`Volume::limit_admission`].
    pub fn lift_planned_limits(&self) -> Outcome<()> {
        if self.session.header().has_gates.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        for (pool, gate) in self.session.gates().iter().enumerate() {
            if gate.limited_by.load(Ordering::Acquire) == LimitedBy::Planner as u64 {
                self.limit_admission(PoolIndex(pool as u8), None, LimitedBy::Planner)?;
            }
        }
        Ok(())
    }

    /// Whether requests are counted although no pool has a limit; planners base limits on these counts.
    ///
    /// # Errors
    /// `ENOMEM` when the session's memory has no room.
    pub fn measure_admission(&self, on: bool) -> Outcome<()> {
        if on {
            self.session.open_gates()?;
        }
        let measures = &self.session.header().measures_admission;
        measures.store(on.into(), Ordering::Release);
        Admitting::of(self).set_limited();
        Ok(())
    }

    /// Whether demand is measured.
    pub fn measures_admission(&self) -> bool {
        self.session
            .header()
            .measures_admission
            .load(Ordering::Acquire)
            != 0
    }

    /// The limits of all pools and the threads that use or wait for them now; `reset` restarts the maxima of demand.
    pub fn admission(&self, reset: bool) -> Vec<PoolAdmission> {
        let is_limited = self.path_mode().is_limited();
        let at_pools = if is_limited {
            self.session.threads_at_pools()
        } else {
            [0; MAX_POOLS]
        };
        let each = |(pool, gate): (usize, &AdmissionGate)| {
            if !is_limited {
                return PoolAdmission {
                    limit: None,
                    admitted: 0,
                    waiting: 0,
                    max_demand: 0,
                    lent: 0,
                };
            }
            let selector = selector(gate);
            let (admitted, waiting) = (selector.admitted(), selector.waiting());
            let max_demand = if reset {
                gate.max_demand.swap(0, Ordering::Relaxed)
            } else {
                gate.max_demand.load(Ordering::Relaxed)
            };
            PoolAdmission {
                limit: NonZeroU32::new(selector.limit()).filter(|limit| limit.get() < NO_LIMIT),
                admitted,
                waiting,
                max_demand: (max_demand as u32).max(admitted + waiting + at_pools[pool]),
                lent: gate.lent.load(Ordering::Relaxed),
            }
        };
        self.session.gates().iter().enumerate().map(each).collect()
    }

    /// Call in the child after fork: forget the parent's slots. Only stores, so async-signal-safe.
    pub fn after_fork_in_child(&self) {
        self.era.fetch_add(1, Ordering::Relaxed);
        self.process.store(0, Ordering::Release);
        self.opens.reset_after_fork();
        self.delegates.reset_after_fork();
    }

    /// Wait until no thread is changing an inode. The inode is not locked afterwards.
    ///
    /// # Errors
    /// What [every operation](crate::Errno) can fail with; `EAGAIN` within [`crate::within_patience`].
    pub fn wait_for_inode(&self, ino: InodeNumber) -> Outcome<()> {
        self.lock_unloaded(self.me()?, ino.0).map(drop)
    }

    /// Report the waits that others have noted since the last call. Called at intervals by a process that reports.
    pub fn report_noted_waits(&self) {
        let Ok(mut seen) = self.noted_waits.lock() else {
            return;
        };
        let mut told: Vec<LongWait> = Vec::new();
        let places = self.session.header().wait_notes.places.iter();
        for (note, seen) in places.zip(seen.iter_mut()) {
            let number = note.number.load(Ordering::Acquire);
            if number == 0 || number == *seen {
                continue;
            }
            let wait = Waits::of(self).read_note(note);
            // Another note may have been written there during the read: the next call reports it.
            if note.number.load(Ordering::Acquire) != number {
                continue;
            }
            *seen = number;
            // Several may wait for the same thread.
            if let Some(wait) = wait.filter(|wait| !told.contains(wait)) {
                self.report(Severity::Warning, &wait.to_string());
                told.push(wait);
            }
        }
    }

    /// This thread ends: give its slot back.
    pub fn thread_exit(&self) {
        Slots::of(self).release_all();
    }
}
