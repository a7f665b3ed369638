//! Decides which threads may access persistent memory now: PATS's Selector (§IV, Algorithm 1, lines 1 to 5).
//!
//! ```text
//!   word 0    limit: T_S
//!   word 1    named: the thread released last, or to be released now
//!   word 2    used: ids below it were claimed at some time
//!   word 3..  one per thread id: see `slot`
//! ```
//!
//! Algorithm 1 unblocks a thread while `T_S >= T`, which admits `T_S + 1` threads. This Selector admits at most `T_S`.
//! A thread counts as admitted from its release, before it begins its access (our change). So no thread is released
//! into a place that is already taken.
//!
//! **Round-robin.** The next thread released is the first waiter after the last released id, wrapping around to id 0.
//! So a waiting thread is overtaken at most once by each other thread. It waits for at most as many releases as there
//! are ids.
//!
//! **Release in two steps.** The releaser first writes into `named` which request of which thread it releases. Then it
//! changes the word of that thread. If the releaser dies in between, the next releaser completes the named release.
//! Otherwise the turn would be lost or given twice.
//!
//! # Ownership
//!
//! * Only a thread itself publishes, begins and ends in its word. Only a releaser changes `Waiting` into `Released` or
//!   `Serving` into `Overdue`. When the thread is known to be dead, the process that noticed it retires the word.
//! * The limit belongs to the process that runs the controller; there is one at a time. When that process dies, the
//!   limit stays until another takes over with an empty window.
//! * One thread at a time releases, under a lock that survives its owner. No extra thread is needed: a thread that
//!   published or ended a request releases waiters and wakes them. When it dies, the next owner of the lock calls
//!   [`Selector::release`]; no other repair is needed.
//!
//! So nothing is lost when any of these threads dies at any instruction. A thread that is *stopped* is not dead and
//! would keep its place. The caller has a clock and [lends](Selector::lend) such a place to others.

use crate::request::{Bypass, Request};
use crate::slot::{Phase, Slot};
use crate::words::Words;

const LIMIT: usize = 0;
const NAMED: usize = 1;
const USED: usize = 2;
const SLOTS: usize = 3;

const NAMED_ID_BITS: u32 = 32;

/// A thread's place in the arrays.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ThreadId(pub u32);

/// Result of publishing a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Admission {
    /// Wait until released, then begin.
    Wait,
    /// Too small to wait: access, then end.
    Pass,
    /// A place was free and no thread waited: access, then end.
    Admitted,
}

/// A step that its thread cannot take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StepError {
    /// All ids have owners.
    #[error("all {length} thread ids are taken; retire one or set max_threads higher")]
    Full {
        /// How many there are.
        length: u32,
    },
    /// No such id.
    #[error("thread id {id} is not below {length}; use one that claim gave")]
    NoSuchThread {
        /// What was given.
        id: u32,
        /// How many there are.
        length: u32,
    },
    /// Not from where the thread is.
    #[error("thread {id} is {phase:?} and cannot {step}; {hint}")]
    WrongPhase {
        id: u32,
        phase: Phase,
        /// What was tried.
        step: &'static str,
        /// What comes before it.
        hint: &'static str,
    },
}

/// The Selector over words wherever they are.
#[derive(Clone, Debug)]
pub struct Selector<W> {
    words: W,
    length: u32,
    bypass: Bypass,
}

/// Number of words that this number of thread ids takes.
pub fn words_for(threads: u32) -> usize {
    SLOTS + threads as usize
}

impl<W: Words> Selector<W> {
    /// Uses words that are zero (a new state) or were used by another Selector (the same state). The first three words
    /// are the header; every other word is a thread id.
    pub fn new(words: W, bypass: Bypass) -> Selector<W> {
        let threads = words.count().saturating_sub(SLOTS);
        Selector {
            length: u32::try_from(threads).unwrap_or(u32::MAX),
            bypass,
            words,
        }
    }

    // What a thread does.

    /// Takes the lowest id without owner.
    ///
    /// # Errors
    /// When every id has an owner.
    pub fn claim(&self) -> Result<ThreadId, StepError> {
        for id in 0..self.length {
            let slot = self.slot(id);
            if slot.phase() != Phase::Free {
                continue;
            }
            // Raised first: an id below `used` without owner is harmless, but an owner above `used` would wait
            // forever.
            self.raise_used(id + 1);
            if self.replace(id, slot, slot.cleared(Phase::Idle)) {
                return Ok(ThreadId(id));
            }
        }
        Err(StepError::Full {
            length: self.length,
        })
    }

    /// Takes an id that the caller knows to be its own, if it is free.
    ///
    /// # Errors
    /// When there is no such id.
    pub fn claim_own(&self, thread: ThreadId) -> Result<(), StepError> {
        self.within(thread)?;
        let slot = self.slot(thread.0);
        if slot.phase() == Phase::Free {
            self.raise_used(thread.0 + 1);
            self.replace(thread.0, slot, slot.cleared(Phase::Idle));
        }
        Ok(())
    }

    /// Publishes a request and takes a place at once if one is free and no thread waits (our addition to PATS): then
    /// no releaser is needed. If several threads take the last place at once, those that count more than `T_S`
    /// admitted wait. With `continues`, threads that wait are ignored: for a short time a thread keeps its turn over
    /// several requests. Otherwise every request would cost its successor a wake-up.
    ///
    /// # Errors
    /// As [`Selector::publish`].
    pub fn ask(
        &self,
        thread: ThreadId,
        request: Request,
        continues: bool,
    ) -> Result<Admission, StepError> {
        if self.bypass.applies_to(request) || !self.has_place(continues) {
            return self.publish(thread, request);
        }
        let how = ("ask", "end the request before");
        let next = |slot: Slot| slot.asking(request, Phase::Serving);
        self.step(thread, how, &[Phase::Idle], next)?;
        Ok(if self.keep_place(thread)? {
            Admission::Admitted
        } else {
            Admission::Wait
        })
    }

    /// Whether a thread that has begun may access. `false`: too many threads have begun, and this one waits again (our
    /// addition). Threads that take the last place at the same time count after taking it, so the last of them to
    /// count sees them all.
    ///
    /// # Errors
    /// When the thread has not begun.
    pub fn keep_place(&self, thread: ThreadId) -> Result<bool, StepError> {
        if self.admitted() <= self.limit() {
            return Ok(true);
        }
        let how = ("wait again", "begin before");
        // A thread whose place was lent in the meantime need not wait.
        let from = [Phase::Serving, Phase::Overdue];
        let back = |slot: Slot| match slot.phase() {
            Phase::Serving => slot.in_phase(Phase::Waiting),
            _ => slot,
        };
        Ok(self.step(thread, how, &from, back)?.phase() == Phase::Overdue)
    }

    /// Publishes what the thread is about to do. After `Wait`, it waits until [`Selector::may_begin`].
    ///
    /// # Errors
    /// When the thread has another request in progress, or there is no such thread.
    pub fn publish(&self, thread: ThreadId, request: Request) -> Result<Admission, StepError> {
        let (phase, admission) = if self.bypass.applies_to(request) {
            (Phase::Passing, Admission::Pass)
        } else {
            (Phase::Waiting, Admission::Wait)
        };
        let how = ("publish", "end the request before");
        let next = |slot: Slot| slot.asking(request, phase);
        self.step(thread, how, &[Phase::Idle], next)?;
        Ok(admission)
    }

    /// Whether a thread that published may begin now.
    pub fn may_begin(&self, thread: ThreadId) -> bool {
        let phase = self.phase(thread);
        !matches!(phase, Phase::Free | Phase::Idle | Phase::Waiting)
    }

    /// Begin an access.
    ///
    /// # Errors
    /// When the thread was not released.
    pub fn begin(&self, thread: ThreadId) -> Result<(), StepError> {
        let how = ("begin", "wait until it is released");
        let from = [Phase::Released, Phase::Overdue];
        // A thread so slow that its place was lent goes on without a place.
        let next = |slot: Slot| match slot.phase() {
            Phase::Released => slot.in_phase(Phase::Serving),
            _ => slot,
        };
        self.step(thread, how, &from, next)?;
        Ok(())
    }

    /// Ends the access and clears the request. Returns whether a place became free: then a
    /// [release](Selector::release) is due.
    ///
    /// # Errors
    /// When no access is in progress.
    pub fn end(&self, thread: ThreadId) -> Result<bool, StepError> {
        let how = ("end", "begin before");
        let from = [Phase::Serving, Phase::Passing, Phase::Overdue];
        let next = |slot: Slot| slot.cleared(Phase::Idle);
        Ok(self.step(thread, how, &from, next)?.is_admitted())
    }

    /// Stop waiting. Returns whether a place became free.
    ///
    /// # Errors
    /// When the thread has published nothing, or has begun.
    pub fn withdraw(&self, thread: ThreadId) -> Result<bool, StepError> {
        let how = ("withdraw", "publish before, and not after begin");
        let from = [Phase::Waiting, Phase::Released];
        let next = |slot: Slot| slot.cleared(Phase::Idle);
        Ok(self.step(thread, how, &from, next)?.is_admitted())
    }

    /// The thread ends, or is known to be dead: its id can get another owner. Returns whether a place became free.
    ///
    /// # Errors
    /// When the id has no owner.
    pub fn retire(&self, thread: ThreadId) -> Result<bool, StepError> {
        let how = ("retire", "claim before");
        let from = [
            Phase::Idle,
            Phase::Waiting,
            Phase::Released,
            Phase::Serving,
            Phase::Passing,
            Phase::Overdue,
        ];
        let next = |slot: Slot| slot.cleared(Phase::Free);
        Ok(self.step(thread, how, &from, next)?.is_admitted())
    }

    // Releaser; one at a time.

    /// Admits the next waiter if there is a place, and returns it: the caller wakes it. Call again until the result is
    /// `None`.
    pub fn release(&self) -> Option<ThreadId> {
        // Each iteration releases a waiter, or finds that the chosen waiter gave up, and then tries again.
        loop {
            if self.admitted() >= self.limit() {
                return None;
            }
            let (id, slot) = self.named_waiter().or_else(|| self.next_waiter())?;
            self.words.store(NAMED, name(id, slot));
            let released = slot.in_phase(Phase::Released);
            if !self.replace(id, slot, released) {
                continue;
            }
            // A thread may have taken a place without a releaser at the same time. Either it sees this release, or
            // this check sees its place.
            if self.admitted() > self.limit() && self.replace(id, released, slot) {
                return None;
            }
            return Some(ThreadId(id));
        }
    }

    /// Lends the place of a thread that has held it for too long (it may be stopped) to others; that thread goes on
    /// without a place. Returns whether it had one.
    ///
    /// # Errors
    /// When there is no such thread.
    pub fn lend(&self, thread: ThreadId) -> Result<bool, StepError> {
        self.within(thread)?;
        let slot = self.slot(thread.0);
        Ok(slot.is_admitted() && self.replace(thread.0, slot, slot.in_phase(Phase::Overdue)))
    }

    // What the controller does.

    /// Sets `T_S`; 0 counts as 1. When it falls, admitted threads finish, and no thread is released until fewer than
    /// `T_S` are admitted.
    pub fn set_limit(&self, limit: u32) {
        self.words.store(LIMIT, u64::from(limit));
    }

    /// `T_S`, never below 1, and 1 until it is set.
    pub fn limit(&self) -> u32 {
        let limit = self.words.load(LIMIT).max(1);
        u32::try_from(limit).unwrap_or(u32::MAX)
    }

    /// All present requests. Nothing but tests looks at them: each thread counts its own for the Collector's means.
    pub fn requests(&self) -> impl Iterator<Item = Request> + '_ {
        (0..self.used()).filter_map(|id| self.slot(id).request())
    }

    /// `T`: how many hold a place now.
    pub fn admitted(&self) -> u32 {
        self.count(Slot::is_admitted)
    }

    /// Whether a place is free and no thread waits for it; with `continues`, waiting threads are ignored.
    fn has_place(&self, continues: bool) -> bool {
        let mut places = self.limit();
        (0..self.used()).all(|id| {
            let slot = self.slot(id);
            places = places.saturating_sub(slot.is_admitted().into());
            (continues || slot.phase() != Phase::Waiting) && places > 0
        })
    }

    /// The word of a thread, for callers that wait until it changes.
    pub fn word(&self, thread: ThreadId) -> u64 {
        self.within(thread).map_or(0, |()| self.slot(thread.0).0)
    }

    /// Threads that hold a place now, and their words, which identify their requests.
    pub fn holders(&self) -> impl Iterator<Item = (ThreadId, u64)> + '_ {
        let slots = (0..self.used()).map(|id| (ThreadId(id), self.slot(id)));
        let held = slots.filter(|(_, slot)| slot.is_admitted());
        held.map(|(id, slot)| (id, slot.0))
    }

    /// How many wait for one.
    pub fn waiting(&self) -> u32 {
        self.count(|slot| slot.phase() == Phase::Waiting)
    }

    /// Phase of a thread; `Free` if there is no such thread.
    pub fn phase(&self, thread: ThreadId) -> Phase {
        self.within(thread)
            .map_or(Phase::Free, |()| self.slot(thread.0).phase())
    }

    /// How many thread ids there are.
    pub fn length(&self) -> u32 {
        self.length
    }

    fn count(&self, counts: impl Fn(Slot) -> bool) -> u32 {
        let slots = (0..self.used()).map(|id| self.slot(id));
        slots.map(|slot| u32::from(counts(slot))).sum()
    }

    /// The waiter that was named and not released, because its releaser died or there was no place.
    fn named_waiter(&self) -> Option<(u32, Slot)> {
        let named = self.words.load(NAMED);
        let id = named_id(named)?;
        if id >= self.used() {
            return None;
        }
        let slot = self.slot(id);
        (slot.phase() == Phase::Waiting && name(id, slot) == named).then_some((id, slot))
    }

    /// The first waiter after the one named last.
    fn next_waiter(&self) -> Option<(u32, Slot)> {
        let used = self.used();
        let named = named_id(self.words.load(NAMED));
        let first = named.map_or(0, |id| id.saturating_add(1)).min(used);
        let order = (first..used).chain(0..first);
        let mut slots = order.map(|id| (id, self.slot(id)));
        slots.find(|(_, slot)| slot.phase() == Phase::Waiting)
    }

    fn raise_used(&self, least: u32) {
        let least = u64::from(least);
        loop {
            let used = self.words.load(USED);
            if used >= least || self.words.replace(USED, used, least) {
                return;
            }
        }
    }

    fn used(&self) -> u32 {
        let used = self.words.load(USED).min(u64::from(self.length));
        used as u32
    }

    fn within(&self, thread: ThreadId) -> Result<(), StepError> {
        if thread.0 < self.length {
            return Ok(());
        }
        Err(StepError::NoSuchThread {
            id: thread.0,
            length: self.length,
        })
    }

    /// One step of a thread from one of these phases; returns the word before it. A releaser may change the word at
    /// the same time, so the step is retried.
    fn step(
        &self,
        thread: ThreadId,
        (step, hint): (&'static str, &'static str),
        from: &[Phase],
        next: impl Fn(Slot) -> Slot,
    ) -> Result<Slot, StepError> {
        self.within(thread)?;
        let id = thread.0;
        loop {
            let slot = self.slot(id);
            let phase = slot.phase();
            if !from.contains(&phase) {
                return Err(StepError::WrongPhase {
                    id,
                    phase,
                    step,
                    hint,
                });
            }
            if self.replace(id, slot, next(slot)) {
                return Ok(slot);
            }
        }
    }

    fn slot(&self, id: u32) -> Slot {
        Slot(self.words.load(SLOTS + id as usize))
    }

    fn replace(&self, id: u32, old: Slot, new: Slot) -> bool {
        self.words.replace(SLOTS + id as usize, old.0, new.0)
    }
}

/// A request of a thread as one word; 0 is none.
fn name(id: u32, slot: Slot) -> u64 {
    slot.number() << NAMED_ID_BITS | (u64::from(id) + 1)
}

fn named_id(named: u64) -> Option<u32> {
    (named as u32).checked_sub(1)
}
