//! Long accesses of striped files, made by delegates of all pools in parallel (OdinFS §4.1, §4.2). The caller hands
//! the runs of each pool to threads that stay on the pool's node, and waits.
//!
//! * Delegates are threads of the same process, so they die with the caller. The caller waits until each job has ended
//!   (`job`). So neither its memory nor a block is used after it went on.
//! * A caller that finds no free job, or gets no delegate for its jobs, accesses the pools itself. A delegate's
//!   failure is not reported: the caller repeats the whole access itself and gets its own result.
//! * Callers hold no place at a pool (`session::admission`) while they wait; delegates ask for one.
//! * A planner or a person sets for the session which accesses are delegated, and to how many delegates. Each process
//!   measures how long accesses take and learns where delegation does not help (`learned`).

mod worker;

use crate::data::Delegating;
use crate::format::{BLOCK, MAX_POOLS};
use crate::session::access::DelegatedCopy;
use crate::session::delegation::board::{Board, JobRun, RUNS, wait};
use crate::session::delegation::job::JobEnd;
use crate::session::delegation::learned::Way;
use crate::session::layout::ThreadSlot;
use crate::session::slots::Me;
use crate::session::traffic::Traffic;
use crate::session::volume::{FileReference, Volume};
use arrayvec::ArrayVec;
use egeria_media::emulation::AccessKind;
use egeria_media::{CallerDestination, CallerSource, PoolOffset};
use std::cell::{Cell, RefCell};
use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Maximum number of jobs that one access waits for; the caller accesses the rest itself.
const MAX_POSTED: usize = 128;
/// How often a caller checks the progress of delegates.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Delegates that end no job for this long, and for some multiple of the duration of their jobs, get no CPU.
const MIN_PATIENCE: Duration = Duration::from_millis(20);
const PATIENCE_JOBS: u32 = 4;

pub(crate) use crate::session::delegation::board::MAX_DELEGATES;
use crate::space::striping::DEFAULT_STRIPE_BLOCKS;

/// Which accesses of striped files are delegated, in this session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelegationRule {
    /// Threads per pool and process that access it for others, at most 16.
    pub delegates: NonZeroU8,
    /// Reads of at least this many bytes.
    pub min_read_bytes: u32,
    /// Writes of at least this many bytes.
    pub min_write_bytes: u32,
    /// Whether accesses that would be faster without delegates are delegated too.
    pub always: bool,
}

/// An access with delegated runs.
pub(crate) struct Delegation<'a> {
    volume: &'a Volume,
    me: Me<'a>,
    kind: AccessKind,
    board: &'a Arc<Board>,
    delegates: usize,
    /// Position of the caller's node on an emulated machine.
    home: usize,
    /// Time on the clock of an emulated machine when it began, ns.
    begun_ns: u64,
    /// Runs of each pool that are expected, in stripes of the default size.
    runs: usize,
    /// Runs of each of its jobs, by pool; 0: it has none yet.
    runs_of_job: [Cell<usize>; MAX_POOLS],
    /// Runs that were handed over.
    pieces: Cell<u64>,
    /// Jobs that are being filled, by pool, + 1.
    filling: [Cell<u8>; MAX_POOLS],
    /// Pool and place.
    posted: RefCell<ArrayVec<(u8, u8), MAX_POSTED>>,
    traffic: Cell<Traffic>,
}

impl<'a> Delegation<'a> {
    fn new(
        volume: &'a Volume,
        me: Me<'a>,
        (kind, bytes): (AccessKind, usize),
        delegates: usize,
    ) -> Delegation<'a> {
        let runs = bytes.div_ceil(DEFAULT_STRIPE_BLOCKS as usize * BLOCK);
        let emulated = volume.emulated();
        let make = || Box::new(Arc::new(Board::new(volume.media.len())));
        let board = volume.delegates.board.get_or_init(make);
        Delegation {
            volume,
            me,
            kind,
            board,
            delegates,
            home: emulated.map_or(0, |emulation| emulation.node_of_thread(&me.slot.emulated)),
            begun_ns: emulated.map_or(0, |emulation| emulation.now_ns()),
            runs: runs.div_ceil(volume.media.len()),
            runs_of_job: Default::default(),
            pieces: Cell::new(0),
            filling: Default::default(),
            posted: RefCell::new(ArrayVec::new()),
            traffic: Cell::new(Traffic::default()),
        }
    }

    fn add(&self, pool: usize, at: PoolOffset, address: usize, bytes: usize) -> bool {
        let (Some(of_pool), Some(filling)) = (self.board.pools.get(pool), self.filling.get(pool))
        else {
            return false;
        };
        let place = match filling.get().checked_sub(1) {
            Some(place) => place,
            None => {
                let filled = self.filling.iter().filter(|place| place.get() != 0).count();
                let is_full = self.posted.borrow().len() + filled >= MAX_POSTED;
                let reserved = (!is_full).then(|| of_pool.reserve(self.me.index)).flatten();
                let Some(place) = reserved else {
                    return false;
                };
                of_pool.job(place).begin(self.kind, self.home);
                if self.runs_of_job[pool].get() == 0 {
                    let runs = self.runs.div_ceil(of_pool.shares(self.delegates));
                    self.runs_of_job[pool].set(runs.min(RUNS));
                }
                filling.set(place + 1);
                place
            }
        };
        let run = JobRun { at, address, bytes };
        let count = of_pool.job(place).add(run);
        self.pieces.set(self.pieces.get() + 1);
        let mut traffic = self.traffic.get();
        traffic.add(pool as u8, bytes as u64);
        self.traffic.set(traffic);
        if count >= self.runs_of_job[pool].get() {
            self.post(pool);
        }
        true
    }

    /// Post the runs collected for a pool. On an emulated machine, this takes what handing over takes there.
    fn post(&self, pool: usize) {
        (self.volume).wait_uncharged(self.me.slot, || self.post_now(pool));
    }

    fn post_now(&self, pool: usize) {
        let Some(place) = self.filling[pool].replace(0).checked_sub(1) else {
            return;
        };
        let of_pool = &self.board.pools[pool];
        of_pool.post(place);
        self.posted.borrow_mut().push((pool as u8, place));
        let someone_sleeps = of_pool.ring();
        if !someone_sleeps && of_pool.worker_count() < self.delegates {
            // If no delegate can be started, the job is taken back when it is waited for.
            let may_start = self.volume.delegates.may_start.get();
            if may_start.is_none_or(|may| may()) {
                Delegating::of(self.volume).start_delegate(self.board, pool, self.delegates);
            }
        }
    }

    fn settle_now(&self) -> bool {
        for pool in 0..self.board.pools.len() {
            self.post_now(pool);
        }
        let posted = self.posted.take();
        let _awaiting = Awaiting::begin(self.me.slot, &posted);
        let mut are_all_copied = true;
        for (pool, place) in posted {
            are_all_copied &= self.wait_for(pool as usize, place) != JobEnd::Failed;
        }
        if !are_all_copied {
            self.traffic.take();
        }
        are_all_copied
    }

    fn wait_for(&self, pool: usize, place: u8) -> JobEnd {
        let of_pool = &self.board.pools[pool];
        let job = of_pool.job(place);
        let mut seen = (of_pool.ended.load(Ordering::Relaxed), Instant::now());
        loop {
            if let Some(end) = job.word.ended() {
                of_pool.free(place);
                return end;
            }
            let long = Duration::from_nanos(of_pool.long_ns.load(Ordering::Relaxed));
            let is_stuck = seen.1.elapsed() > MIN_PATIENCE + long * PATIENCE_JOBS;
            if (is_stuck || of_pool.worker_count() == 0) && job.word.take() {
                let done = Delegating::of(self.volume).do_job(self.me, pool, job);
                let end = match done {
                    Ok(()) => JobEnd::Done,
                    Err(_) => JobEnd::Failed,
                };
                // No delegate looks at it now.
                job.word.end(end);
                continue;
            }
            if let Some(word) = job.word.sleep_on() {
                let _ = wait(job.word.word(), word, LOOK_AGAIN);
            }
            let ended = of_pool.ended.load(Ordering::Relaxed);
            if ended != seen.0 {
                seen = (ended, Instant::now());
            }
        }
    }
}

impl DelegatedCopy for Delegation<'_> {
    fn read(&self, pool: usize, at: PoolOffset, to: CallerDestination<'_>) -> bool {
        self.add(pool, at, to.address(), to.bytes())
    }

    fn write(&self, pool: usize, at: PoolOffset, from: CallerSource<'_>) -> bool {
        self.add(pool, at, from.address(), from.bytes())
    }

    /// Wait for all posted jobs. Afterwards no delegate uses the caller's memory.
    fn settle(&self) -> bool {
        let settle = || self.settle_now();
        match self.volume.emulated() {
            None => settle(),
            Some(emulation) => emulation.wait_for_delegates(&self.me.slot.emulated, settle),
        }
    }

    fn start_over(&self) {
        let _ = self.settle();
        self.traffic.take();
    }

    fn take_traffic(&self) -> Traffic {
        self.traffic.take()
    }

    /// Delegates begin with the first piece while the others are handed over.
    fn charge_handing_over(&self) {
        if let Some(emulation) = self.volume.emulated() {
            emulation.charge_handing_over(
                &self.me.slot.emulated,
                self.pieces.take(),
                self.begun_ns,
            );
        }
    }
}

impl Drop for Delegation<'_> {
    fn drop(&mut self) {
        let _ = self.settle();
    }
}

/// While a thread waits for delegates, its slot names their pools.
struct Awaiting<'a>(&'a ThreadSlot);

impl<'a> Awaiting<'a> {
    fn begin(slot: &'a ThreadSlot, posted: &[(u8, u8)]) -> Awaiting<'a> {
        let pools = posted.iter().fold(0, |pools, (pool, _)| pools | 1 << pool);
        slot.awaited_pools.store(pools, Ordering::Relaxed);
        Awaiting(slot)
    }
}

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        self.0.awaited_pools.store(0, Ordering::Relaxed);
    }
}

/// A long access of a striped file while accesses are delegated: made by delegates or by the caller, and timed.
pub(crate) struct LongAccess<'a> {
    volume: &'a Volume,
    kind: AccessKind,
    bytes: usize,
    begun: Instant,
    /// Unless it goes the direct way.
    pub(crate) delegation: Option<Delegation<'a>>,
}

impl LongAccess<'_> {
    pub(crate) fn end(self) {
        let way = match self.delegation {
            Some(_) => Way::Delegated,
            None => Way::Direct,
        };
        let took_us = self.begun.elapsed().as_micros().min(u128::from(u32::MAX)) as u32;
        let learned = &self.volume.delegates.learned;
        learned.learn(self.kind, self.bytes, way, took_us);
    }
}

/// The rule in a word of the session; 0: none.
pub(in crate::data) fn pack(rule: Option<DelegationRule>) -> u64 {
    // In units of 256 bytes, 24 bits each.
    let size = |bytes: u32| u64::from(bytes.div_ceil(256).min(0xFF_FFFF));
    rule.map_or(0, |rule| {
        let delegates = u64::from(rule.delegates.get().min(MAX_DELEGATES as u8));
        let always = if rule.always { ALWAYS } else { 0 };
        always | delegates | size(rule.min_read_bytes) << 8 | size(rule.min_write_bytes) << 32
    })
}

pub(in crate::data) fn unpack(word: u64) -> Option<DelegationRule> {
    let size = |units: u64| (units & 0xFF_FFFF) as u32 * 256;
    NonZeroU8::new(word as u8).map(|delegates| DelegationRule {
        delegates,
        min_read_bytes: size(word >> 8),
        min_write_bytes: size(word >> 32),
        always: word & ALWAYS != 0,
    })
}

/// Delegate regardless of what was learned.
const ALWAYS: u64 = 1 << 62;
/// Set by a person: no planner changes it.
pub(in crate::data) const BY_HAND: u64 = 1 << 63;

impl<'v> Delegating<'v> {
    /// Whether long accesses of this file are delegated.
    #[inline(always)]
    pub(crate) fn may_delegate(self, file: FileReference) -> bool {
        file.inode().is_written_in_place()
            && self
                .volume
                .session
                .header()
                .delegation
                .load(Ordering::Relaxed)
                & !BY_HAND
                != 0
    }

    /// Begin a long access of such a file, unless it is too short.
    pub(crate) fn long_access(
        self,
        me: Me<'v>,
        kind: AccessKind,
        bytes: usize,
    ) -> Option<LongAccess<'v>> {
        let word = self
            .volume
            .session
            .header()
            .delegation
            .load(Ordering::Relaxed);
        let rule = unpack(word)?;
        let min_bytes = match kind {
            AccessKind::Read => rule.min_read_bytes,
            AccessKind::Write => rule.min_write_bytes,
        };
        let is_delegate = me.slot.notes.delegate_of.load(Ordering::Relaxed) != 0;
        if bytes < (min_bytes as usize).max(1) || self.volume.media.len() < 2 || is_delegate {
            return None;
        }
        let way = if rule.always {
            Way::Delegated
        } else {
            self.volume.delegates.learned.choose(kind, bytes)
        };
        let delegates = usize::from(rule.delegates.get());
        let delegation = (way == Way::Delegated)
            .then(|| Delegation::new(self.volume, me, (kind, bytes), delegates));
        Some(LongAccess {
            volume: self.volume,
            kind,
            bytes,
            begun: Instant::now(),
            delegation,
        })
    }
}
