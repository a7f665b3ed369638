//! Limits how many threads access the memory of a pool at once (PATS §IV, Algorithm 1): the Selector of
//! `egeria_admission` over words that all processes share, one per pool and thread slot.
//!
//! A thread asks before it takes any lock, and ends after it has released all locks. Every wait ends:
//!
//! * a dead thread's word is cleared with its slot;
//! * the place of a thread that holds it longer than its request takes (it may be stopped) is lent to others by the
//!   waiting threads ([`MAX_HELD_MS`]);
//! * any thread may release waiters (`turn`), and waiters check again every [`LOOK_AGAIN`].
//!
//! A thread that asks while it is admitted already, as in a signal handler, goes on at once.

mod demand;
#[cfg(test)]
mod tests;

use crate::format::MAX_POOLS;
use crate::session::Admitting;
use crate::session::layout::{AdmissionGate, THREAD_SLOTS, ThreadSlot};
use crate::session::map::Session;
use crate::session::path_mode::PathMode;
use crate::session::patience::{self, coarse_now_ms};
use crate::session::slots::{Me, count};
use crate::session::traffic::Traffic;
use crate::types::Outcome;
use arrayvec::ArrayVec;
use demand::Accessing;
use egeria_admission::{Admission, Bypass, Request, Selector, ThreadId, Words};
use egeria_machine::AccessKind;
use egeria_machine::costs::TURN_NS;
use rustix::thread::futex;
use std::num::{NonZeroU8, NonZeroU32};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a waiter sleeps at most before it checks for overdue holders of places.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// For this long a thread keeps its place over several requests while others wait: waking the next thread takes as
/// long as many requests. A place that its holder does not use again is free after [`LOOK_AGAIN`] at the latest.
const MAX_TURN_NS: u64 = 250_000;
/// A thread that has held its place for this long, and for the time that its bytes may take, lends it.
const MAX_HELD_MS: u64 = 100;
/// The slowest memory assumed for the time that a request's bytes may take.
const MIN_BYTES_MS: u64 = 100_000;
/// A thread that has waited this long goes on without a place.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Number of bits for the time in a word of `AdmissionGate::seen`.
const TIME_BITS: u32 = 36;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// The limit of a pool that has none.
pub(in crate::session) const NO_LIMIT: u32 = THREAD_SLOTS as u32;

/// The limit of a pool, and how many threads use or wait for it now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolAdmission {
    /// Threads that may access it at once; `None`: any number.
    pub limit: Option<NonZeroU32>,
    /// Threads that hold a place.
    pub admitted: u32,
    /// Threads that wait for one.
    pub waiting: u32,
    /// The most threads that held a place or waited for one since the last reset.
    pub max_demand: u32,
    /// Places lent so far because their holders did not go on.
    pub lent: u64,
}

/// What sets a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitedBy {
    /// A person: no planner changes it.
    Hand = 1,
    /// A planner.
    Planner = 2,
}

/// A thread's access of pools, until it is dropped.
#[must_use]
#[derive(Default)]
pub(crate) struct Admitted<'a> {
    /// At pools with a limit.
    places: ArrayVec<Place<'a>, MAX_POOLS>,
    /// Access of pools without a limit, while their demand is measured.
    mark: Option<Accessing<'a>>,
}

impl Admitted<'_> {
    /// Whether the thread holds a place, or is counted.
    pub(crate) fn holds_any(&self) -> bool {
        !self.places.is_empty() || self.mark.is_some()
    }
}

/// A thread's place at a pool that has a limit.
pub(crate) struct Place<'a> {
    gate: &'a AdmissionGate,
    slot: &'a ThreadSlot,
    thread: ThreadId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let selector = selector(self.gate);
        if selector.end(self.thread) != Ok(true) {
            return;
        }
        let turn = &self.slot.turn_began_ns;
        let began_ns = turn.load(Ordering::Relaxed);
        if selector.waiting() == 0 {
            if began_ns != 0 {
                turn.store(0, Ordering::Relaxed);
            }
            return;
        }
        let now_ns = now_ns();
        match began_ns {
            0 => turn.store(now_ns, Ordering::Relaxed),
            _ if now_ns.wrapping_sub(began_ns) < MAX_TURN_NS => {}
            _ => {
                turn.store(0, Ordering::Relaxed);
                release_waiters(self.gate);
            }
        }
    }
}

/// The session's words; sequentially consistent, as the Selector requires.
pub(in crate::session) struct SessionWords<'a>(&'a [AtomicU64]);

impl Words for SessionWords<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::SeqCst)
    }

    fn store(&self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::SeqCst);
    }

    fn replace(&self, at: usize, old: u64, new: u64) -> bool {
        let word = &self.0[at];
        word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }
}

pub(in crate::session) fn selector(gate: &AdmissionGate) -> Selector<SessionWords<'_>> {
    Selector::new(SessionWords(&gate.words), Bypass::default())
}

fn now_ns() -> u64 {
    egeria_media::clock::now_ns(libc::CLOCK_MONOTONIC) as u64
}

fn count_request(slot: &ThreadSlot, pool: usize, request: Request) {
    let counters = &slot.counters;
    count(&counters.asked[pool], 1);
    count(&counters.asked_bytes[pool], request.bytes);
    if request.kind == AccessKind::Write {
        count(&counters.asked_writes[pool], 1);
    }
}

/// Release waiters while there are places.
pub(in crate::session) fn release_waiters(gate: &AdmissionGate) {
    let selector = selector(gate);
    gate.turn.run(coarse_now_ms, || {
        while let Some(thread) = selector.release() {
            if let Some(word) = word_of(gate, thread) {
                let _ = futex::wake(word, futex::Flags::empty(), 1);
            }
        }
    });
}

/// The half of a thread's word that holds its phase, to wait for.
fn word_of(gate: &AdmissionGate, thread: ThreadId) -> Option<&AtomicU32> {
    let all = &gate.words[gate.words.len() - THREAD_SLOTS..];
    let word: *const AtomicU64 = all.get(thread.0 as usize)?;
    // SAFETY: the first half of an aligned 8-byte atomic, which lives as long as the gate; this half is only looked at
    // by the kernel.
    Some(unsafe { &*word.cast::<AtomicU32>() })
}

/// Lend the places of threads that have held them for too long.
fn lend_overdue(gate: &AdmissionGate) {
    let selector = selector(gate);
    let now_ms = coarse_now_ms() & TIME_MASK;
    for (thread, word) in selector.holders() {
        let Some(seen) = gate.seen.get(thread.0 as usize) else {
            continue;
        };
        let before = seen.load(Ordering::Relaxed);
        let (number, bytes) = (word >> TIME_BITS, word >> 4 & u64::from(u32::MAX));
        if before >> TIME_BITS != number {
            seen.store(number << TIME_BITS | now_ms, Ordering::Relaxed);
            continue;
        }
        let held_ms = now_ms.wrapping_sub(before) & TIME_MASK;
        if held_ms >= MAX_HELD_MS + bytes / MIN_BYTES_MS && selector.lend(thread) == Ok(true) {
            gate.lent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<'v> Admitting<'v> {
    /// Wait until this thread may access these bytes of pools, if access is limited. The places are given back when the
    /// result is dropped. To be called with no lock held.
    ///
    /// All threads ask pools in ascending order. So a thread waits only for threads that hold places at higher pools, and
    /// they cannot wait in a ring.
    ///
    /// # Errors
    /// `EAGAIN` within [`crate::within_patience`], when that ends first; the thread is then asked to wait for `ino`.
    #[cold]
    pub(crate) fn admit(
        self,
        me: Me<'v>,
        ino: u64,
        kind: AccessKind,
        traffic: &Traffic,
    ) -> Outcome<Admitted<'v>> {
        let mut admitted = Admitted::default();
        if me.slot.accessed_pools.load(Ordering::Relaxed) != 0 {
            // It accesses pools already, as in a signal handler, or has since before there was a limit.
            return Ok(admitted);
        }
        let mut open_pools = 0;
        for (pool, bytes) in traffic.by_pool() {
            let Some(gate) = self.volume.session.gates().get(pool) else {
                continue;
            };
            let request = Request { kind, bytes };
            count_request(me.slot, pool, request);
            if selector(gate).limit() >= NO_LIMIT {
                open_pools |= 1 << pool;
            } else {
                let place = self.take_place(me, ino, gate, request)?;
                admitted.places.extend(place);
            }
        }
        if open_pools != 0 {
            admitted.mark = Some(Accessing::begin(me.slot, open_pools));
            self.note_open_demands(me.slot, open_pools);
        }
        Ok(admitted)
    }

    fn note_open_demands(self, slot: &ThreadSlot, open_pools: u64) {
        if !self.volume.measures_admission() {
            return;
        }
        for (pool, gate) in self.volume.session.gates().iter().enumerate() {
            if open_pools >> pool & 1 != 0 {
                let request = slot.counters.asked[pool].load(Ordering::Relaxed);
                self.volume.session.note_open_demand(gate, pool, request);
            }
        }
    }

    /// Wait until this thread, a delegate, may work at its pool: of all processes together no more delegates do than one
    /// process may have. `None`: it goes on without a place.
    pub(crate) fn admit_delegate(
        self,
        me: Me<'v>,
        pool: usize,
        request: Request,
    ) -> Outcome<Option<Place<'v>>> {
        match self.volume.session.delegate_gates().get(pool) {
            Some(gate) if selector(gate).limit() < NO_LIMIT => {
                self.take_place(me, 0, gate, request)
            }
            _ => Ok(None),
        }
    }

    /// Bound how many delegates of all processes work at each pool at once.
    ///
    /// # Errors
    /// `ENOMEM` when the session's memory has no room.
    pub(crate) fn limit_delegates(self, delegates: Option<NonZeroU8>) -> Outcome<()> {
        let has_gates = &self.volume.session.header().has_gates;
        if delegates.is_none() && has_gates.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        self.volume.session.open_gates()?;
        for gate in self.volume.session.delegate_gates() {
            selector(gate).set_limit(delegates.map_or(NO_LIMIT, |most| most.get().into()));
            release_waiters(gate);
        }
        Ok(())
    }

    /// Wait for a place at a gate with a limit. `None`: the thread goes on without one.
    fn take_place(
        self,
        me: Me<'v>,
        ino: u64,
        gate: &'v AdmissionGate,
        request: Request,
    ) -> Outcome<Option<Place<'v>>> {
        let (slot, counters) = (me.slot, &me.slot.counters);
        let selector = selector(gate);
        let thread = ThreadId(me.index as u32);
        // An error: this thread is admitted already.
        let turn = &slot.turn_began_ns;
        let continues = turn.load(Ordering::Relaxed) != 0;
        let ask = || {
            let claimed = selector.claim_own(thread);
            claimed.and_then(|()| selector.ask(thread, request, continues))
        };
        let asked = match self.volume.emulated() {
            None => ask(),
            Some(emulation) => emulation.step(&slot.emulated, TURN_NS, ask),
        };
        if self.volume.measures_admission() {
            gate.note_demand(selector.admitted() + selector.waiting());
        }
        match asked {
            Err(_) => Ok(None),
            Ok(Admission::Pass | Admission::Admitted) => Ok(Some(Place { gate, slot, thread })),
            Ok(Admission::Wait) => {
                let begun = Instant::now();
                let wait = || self.wait_for_place(gate, (slot, thread), &selector, ino);
                let outcome = self.volume.wait_uncharged(slot, wait);
                count(&counters.waits, 1);
                count(&counters.waited_ns, begun.elapsed().as_nanos() as u64);
                outcome
            }
        }
    }

    /// Wait until this thread may read this many bytes of an inode, if access is limited. Uses the pool of the inode's
    /// record, which has most of its blocks.
    ///
    /// # Errors
    /// As [`Admitting::admit`].
    pub(crate) fn admit_scrub(self, ino: u64, bytes: u64) -> Outcome<Admitted<'v>> {
        if !self.volume.path_mode().is_limited() {
            return Ok(Admitted::default());
        }
        let (pool, _) = self.volume.record_place(ino)?;
        let traffic = Traffic::of(pool.0, bytes);
        self.admit(self.volume.me()?, ino, AccessKind::Read, &traffic)
    }

    fn wait_for_place<'a>(
        self,
        gate: &'a AdmissionGate,
        (slot, thread): (&'a ThreadSlot, ThreadId),
        selector: &Selector<SessionWords<'_>>,
        ino: u64,
    ) -> Outcome<Option<Place<'a>>> {
        slot.turn_began_ns.store(0, Ordering::Relaxed);
        let begun = Instant::now();
        let patience = patience::limit();
        loop {
            release_waiters(gate);
            let word = selector.word(thread);
            if selector.may_begin(thread) {
                // No errors: only this thread makes these steps.
                let _ = selector.begin(thread);
                if selector.keep_place(thread) != Ok(false) {
                    slot.turn_began_ns.store(now_ns(), Ordering::Relaxed);
                    return Ok(Some(Place { gate, slot, thread }));
                }
                continue;
            }
            let waited = begun.elapsed();
            let is_impatient = patience.is_some_and(|limit| waited >= limit);
            if is_impatient || waited >= MAX_WAIT || selector.limit() >= NO_LIMIT {
                if selector.withdraw(thread) == Ok(true) {
                    release_waiters(gate);
                }
                return if is_impatient {
                    Err(patience::expired(ino))
                } else {
                    Ok(None)
                };
            }
            let sleep = patience.map_or(LOOK_AGAIN, |limit| LOOK_AGAIN.min(limit - waited));
            sleep_while(gate, thread, word as u32, sleep);
            lend_overdue(gate);
        }
    }

    /// Threads ask for admission while there is a limit or demand is measured.
    pub(in crate::session) fn set_limited(self) {
        let header = self.volume.session.header();
        let has_gates = header.has_gates.load(Ordering::Acquire) != 0;
        let mut gates = self.volume.session.gates().iter();
        let is_limited = has_gates
            && (self.volume.measures_admission()
                || gates.any(|gate| selector(gate).limit() < NO_LIMIT));
        if is_limited {
            header
                .path_mode
                .fetch_or(PathMode::LIMITED.0, Ordering::AcqRel)
        } else {
            // Waiting threads check it soon.
            (header.path_mode).fetch_and(!PathMode::LIMITED.0, Ordering::AcqRel)
        };
    }
}

impl Session {
    /// A thread slot is given back.
    pub(crate) fn retire_from_gates(&self, slot: &ThreadSlot) {
        if self.header().has_gates.load(Ordering::Acquire) == 0 {
            return;
        }
        let slots = self.threads();
        let Some(index) = slots.iter().position(|each| std::ptr::eq(each, slot)) else {
            return;
        };
        for gate in self.gates().iter().chain(self.delegate_gates()) {
            if selector(gate).retire(ThreadId(index as u32)) == Ok(true) {
                release_waiters(gate);
            }
        }
    }

    pub(in crate::session) fn open_gates(&self) -> Outcome<()> {
        for gate in self.gates().iter().chain(self.delegate_gates()) {
            self.back(gate)?;
            if gate.words[0].load(Ordering::Relaxed) == 0 {
                selector(gate).set_limit(NO_LIMIT);
            }
        }
        self.header().has_gates.store(1, Ordering::Release);
        Ok(())
    }
}

/// Sleep while the low half of a thread's word is `low`, no longer than `limit`.
fn sleep_while(gate: &AdmissionGate, thread: ThreadId, low: u32, limit: Duration) {
    let limit = futex::Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    if let Some(word) = word_of(gate, thread) {
        // Woken, changed or timed out: the caller checks again.
        let _ = futex::wait(word, futex::Flags::empty(), low, Some(&limit));
    }
}
