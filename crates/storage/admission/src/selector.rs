//! Who may access persistent memory now: PATS's Selector (§IV, Algorithm 1, lines 1 to 5).
//!
//! ```text
//!   word 0    limit: T_S
//!   word 1    named: the thread released last, or to be released now
//!   word 2    used: ids below it were claimed at some time
//!   word 3..  one per thread id: see `slot`
//! ```
//!
//! Algorithm 1 unblocks while `T_S >= T`, which admits `T_S + 1`; here while fewer than `T_S` are
//! admitted, and a thread is admitted from its release on (ours), so that none can be released
//! into a place that is taken before it begins.
//!
//! **Round-robin.** The next one released is the first waiter behind the last one released, by
//! id, and again from id 0. A thread released twice while another waits would have been passed
//! with that waiter in between, so nobody is overtaken twice by the same thread, and nobody waits
//! for more releases than there are ids.
//!
//! **Release in two steps.** The one to be released is named (which thread, which request of its)
//! before its word is changed. Who carries on behind a releaser that died in between completes
//! what it finds named, else the turn would be lost or had twice.
//!
//! # Who owns what
//!
//! * The word of a thread is its thread's: only that one publishes, begins, ends. Only a releaser
//!   makes `Waiting` into `Released`, only a releaser makes `Serving` into `Overdue`. When the
//!   thread is known to be dead, whoever found out retires the word for it.
//! * The limit is whoever's that runs the controller, one at a time. When it dies, the limit
//!   stays until another takes over, who begins with an empty window.
//! * Releasing is done by one at a time (a lock that survives its owner): no thread of its own is
//!   needed, whoever published or ended does it and wakes those released. When it dies, the next
//!   to take the lock goes on with [`Selector::release`]; that is all there is to repair.
//!
//! So nothing is lost when any of them dies at any instruction. One that is *stopped* is not dead
//! and would keep its place: the caller, who has a clock, [lends](Selector::lend) it to others.

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

/// What became of a request that was published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Admission {
    /// Wait until released, then begin.
    Wait,
    /// Too small to wait: access, then end.
    Pass,
    /// A place was free and nobody waited: access, then end.
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
        /// Which thread.
        id: u32,
        /// Where it is.
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

/// How many words so many thread ids take.
pub fn words_for(threads: u32) -> usize {
    SLOTS + threads as usize
}

impl<W: Words> Selector<W> {
    /// Over words that are zero (a new state) or were used by another Selector (the same state).
    /// There are as many thread ids as words beside the first three.
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
            // First: an id below `used` without owner does no harm, an owner above it would wait
            // for ever.
            self.raise_used(id + 1);
            if self.replace(id, slot, slot.cleared(Phase::Idle)) {
                return Ok(ThreadId(id));
            }
        }
        Err(StepError::Full {
            length: self.length,
        })
    }

    /// Takes an id that the caller knows to be its own, if nobody has it.
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

    /// As [`Selector::publish`], but takes a place at once where one is free and nobody waits (ours): then no releaser is
    /// needed. Of several who take the last place at once, those who see too many wait. Who `continues` does not look for
    /// those who wait: for a short time a thread keeps its turn over several requests, else every request would cost its
    /// successor a wake-up.
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

    /// Whether a thread that has begun may access. `false`: too many have, and it waits again (ours). Who took the last place
    /// beside others counts after it did, so of those who look, the last sees all.
    ///
    /// # Errors
    /// When it has not begun.
    pub fn keep_place(&self, thread: ThreadId) -> Result<bool, StepError> {
        if self.admitted() <= self.limit() {
            return Ok(true);
        }
        let how = ("wait again", "begin before");
        // One whose place was lent meanwhile need not wait.
        let from = [Phase::Serving, Phase::Overdue];
        let back = |slot: Slot| match slot.phase() {
            Phase::Serving => slot.in_phase(Phase::Waiting),
            _ => slot,
        };
        Ok(self.step(thread, how, &from, back)?.phase() == Phase::Overdue)
    }

    /// Says what the thread is about to do. Told to wait, it waits until [`Selector::may_begin`].
    ///
    /// # Errors
    /// When it has another request under way, or is no thread.
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

    /// Whether a thread that published need not wait (any more).
    pub fn may_begin(&self, thread: ThreadId) -> bool {
        let phase = self.phase(thread);
        !matches!(phase, Phase::Free | Phase::Idle | Phase::Waiting)
    }

    /// The thread begins its access.
    ///
    /// # Errors
    /// When it was not released.
    pub fn begin(&self, thread: ThreadId) -> Result<(), StepError> {
        let how = ("begin", "wait until it is released");
        let from = [Phase::Released, Phase::Overdue];
        // Who was so slow that its place was lent goes on without one.
        let next = |slot: Slot| match slot.phase() {
            Phase::Released => slot.in_phase(Phase::Serving),
            _ => slot,
        };
        self.step(thread, how, &from, next)?;
        Ok(())
    }

    /// The access is over and the request cleared. Says whether a place became free: then
    /// somebody should [release](Selector::release).
    ///
    /// # Errors
    /// When there is no access under way.
    pub fn end(&self, thread: ThreadId) -> Result<bool, StepError> {
        let how = ("end", "begin before");
        let from = [Phase::Serving, Phase::Passing, Phase::Overdue];
        let next = |slot: Slot| slot.cleared(Phase::Idle);
        Ok(self.step(thread, how, &from, next)?.is_admitted())
    }

    /// The thread does not want to wait any longer. Says whether a place became free.
    ///
    /// # Errors
    /// When it has published nothing, or has begun.
    pub fn withdraw(&self, thread: ThreadId) -> Result<bool, StepError> {
        let how = ("withdraw", "publish before, and not after begin");
        let from = [Phase::Waiting, Phase::Released];
        let next = |slot: Slot| slot.cleared(Phase::Idle);
        Ok(self.step(thread, how, &from, next)?.is_admitted())
    }

    /// The thread ends, or is known to be dead: its id can have another owner. Says whether a
    /// place became free.
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

    // What a releaser does; one at a time.

    /// Admits the next waiter if there is a place: wake it. Call again until there is none.
    pub fn release(&self) -> Option<ThreadId> {
        // Each turn releases one, or finds that one waiter gave up meanwhile.
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
            // Somebody who took a place without a releaser meanwhile sees this one, or is seen here.
            if self.admitted() > self.limit() && self.replace(id, released, slot) {
                return None;
            }
            return Some(ThreadId(id));
        }
    }

    /// Lends the place of a thread that has held it for too long (it may be stopped) to others;
    /// it goes on without one. Says whether it had one.
    ///
    /// # Errors
    /// When there is no such thread.
    pub fn lend(&self, thread: ThreadId) -> Result<bool, StepError> {
        self.within(thread)?;
        let slot = self.slot(thread.0);
        Ok(slot.is_admitted() && self.replace(thread.0, slot, slot.in_phase(Phase::Overdue)))
    }

    // What the controller does.

    /// Sets `T_S`; 0 is as 1. When it falls, those admitted finish, and nobody is released until
    /// fewer are left.
    pub fn set_limit(&self, limit: u32) {
        self.words.store(LIMIT, u64::from(limit));
    }

    /// `T_S`, never below 1, and 1 until it is set.
    pub fn limit(&self) -> u32 {
        let limit = self.words.load(LIMIT).max(1);
        u32::try_from(limit).unwrap_or(u32::MAX)
    }

    /// The requests there are now: the array that the paper's Collector looks through.
    pub fn requests(&self) -> impl Iterator<Item = Request> + '_ {
        (0..self.used()).filter_map(|id| self.slot(id).request())
    }

    /// `T`: how many hold a place now.
    pub fn admitted(&self) -> u32 {
        self.count(Slot::is_admitted)
    }

    /// Whether there is a place that nobody waits for, or that whoever continues may take.
    fn has_place(&self, continues: bool) -> bool {
        let mut places = self.limit();
        (0..self.used()).all(|id| {
            let slot = self.slot(id);
            places = places.saturating_sub(slot.is_admitted().into());
            (continues || slot.phase() != Phase::Waiting) && places > 0
        })
    }

    /// The word of a thread, as [`Selector::new`] got it, for who waits until it changes.
    pub fn word(&self, thread: ThreadId) -> u64 {
        self.within(thread).map_or(0, |()| self.slot(thread.0).0)
    }

    /// Threads that hold a place now, and their words, which tell requests apart.
    pub fn holders(&self) -> impl Iterator<Item = (ThreadId, u64)> + '_ {
        let slots = (0..self.used()).map(|id| (ThreadId(id), self.slot(id)));
        let held = slots.filter(|(_, slot)| slot.is_admitted());
        held.map(|(id, slot)| (id, slot.0))
    }

    /// How many wait for one.
    pub fn waiting(&self) -> u32 {
        self.count(|slot| slot.phase() == Phase::Waiting)
    }

    /// Where a thread is; `Free` for one that there is not.
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

    /// The waiter that was named and not released: its releaser died, or there was no place.
    fn named_waiter(&self) -> Option<(u32, Slot)> {
        let named = self.words.load(NAMED);
        let id = named_id(named)?;
        if id >= self.used() {
            return None;
        }
        let slot = self.slot(id);
        (slot.phase() == Phase::Waiting && name(id, slot) == named).then_some((id, slot))
    }

    /// The first waiter behind the one named last.
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

    /// One step of a thread from one of these phases; gives the word before it. Another may
    /// change the word meanwhile (a releaser), so it is tried again.
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
