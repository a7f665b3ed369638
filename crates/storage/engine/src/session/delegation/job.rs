//! The word of a job: who may touch the job's memory and the caller's.
//!
//! ```text
//! free ─reserve─▶ filling ─post─▶ open ─take─▶ running ─end─▶ done | failed ─free─▶ free
//!   caller          caller                 delegate            caller
//! ```
//!
//! From `take` to `end` the caller's memory is the delegate's; from `end` on the delegate touches nothing of it, so that
//! the caller may return. An open job can be taken by its caller, too. Whoever dies takes the other with him: both are
//! threads of one process.

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

    /// Do it, if nobody else does.
    pub(crate) fn take(&self) -> bool {
        // Its caller may begin to sleep on it in between.
        self.is_open()
            && (self.change(OPEN, RUNNING, Ordering::Acquire)
                || self.change(OPEN | AWAITED, RUNNING | AWAITED, Ordering::Acquire))
    }

    /// It was done, and nothing of the caller's is touched any more. Whether the caller is to be woken.
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

    /// What the word says while it is neither done nor failed, with the note that somebody sleeps on it.
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

    /// Whether somebody could take it.
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
