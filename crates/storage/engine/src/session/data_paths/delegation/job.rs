//! The word of a job: which thread may access the job's memory and the caller's memory.
//!
//! ```text
//! free ─reserve─▶ filling ─post─▶ open ─take─▶ running ─end─▶ done | failed ─free─▶ free
//!   caller          caller                 delegate            caller
//! ```
//!
//! From `take` to `end` the delegate uses the caller's memory. After `end` the delegate no longer uses it, so the
//! caller may return. The caller itself can take an open job, too. If one of the two threads dies, both die: they
//! belong to one process.

use crate::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const FILLING: u32 = 1;
const OPEN: u32 = 2;
const RUNNING: u32 = 3;
const DONE: u32 = 4;
const FAILED: u32 = 5;
/// The caller sleeps on the word.
const AWAITED: u32 = 8;

/// The word; zeroed is a free job.
pub(crate) struct JobWord(AtomicU32);

/// How a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobEnd {
    Done,
    Failed,
}

impl JobWord {
    pub(crate) fn new() -> JobWord {
        JobWord(AtomicU32::new(FREE))
    }

    /// Take a free job, to fill it.
    pub(crate) fn reserve(&self) -> bool {
        self.0.load(Ordering::Relaxed) == FREE && self.change(FREE, FILLING, Ordering::Acquire)
    }

    /// Have it done: it is filled.
    pub(crate) fn post(&self) {
        self.0.store(OPEN, Ordering::Release);
    }

    /// Take the job, if no other thread has taken it.
    pub(crate) fn take(&self) -> bool {
        // Its caller may begin to sleep on it in between.
        self.is_open()
            && (self.change(OPEN, RUNNING, Ordering::Acquire)
                || self.change(OPEN | AWAITED, RUNNING | AWAITED, Ordering::Acquire))
    }

    /// End the job: the delegate no longer uses the caller's memory. Returns whether the caller is to be woken.
    pub(crate) fn end(&self, end: JobEnd) -> bool {
        let end = match end {
            JobEnd::Done => DONE,
            JobEnd::Failed => FAILED,
        };
        let before = self.0.swap(end, Ordering::Release);
        before & AWAITED != 0
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&self) -> Option<JobEnd> {
        match self.0.load(Ordering::Acquire) {
            DONE => Some(JobEnd::Done),
            FAILED => Some(JobEnd::Failed),
            _ => None,
        }
    }

    /// The word to sleep on, with the note that a thread sleeps on it; `None` when the job is done or failed.
    pub(crate) fn sleep_on(&self) -> Option<u32> {
        let found = self.0.load(Ordering::Relaxed);
        match found {
            DONE | FAILED => None,
            _ if found & AWAITED != 0 => Some(found),
            _ => self
                .change(found, found | AWAITED, Ordering::Relaxed)
                .then_some(found | AWAITED),
        }
    }

    /// The caller has seen how it ended.
    pub(crate) fn free(&self) {
        self.0.store(FREE, Ordering::Release);
    }

    /// Whether a thread could take it.
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !AWAITED == OPEN
    }

    /// To sleep on and to wake.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.0
    }

    #[track_caller]
    fn change(&self, from: u32, to: u32, success: Ordering) -> bool {
        self.0
            .compare_exchange(from, to, success, Ordering::Relaxed)
            .is_ok()
    }
}
