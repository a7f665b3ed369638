//! `engine::session::delegation::job`.

use crate::cell::Watched;
use crate::check::check;
use crate::job::{JobEnd, JobWord};
use loom::sync::Arc;
use loom::thread;

/// A job, what its runs say, and the caller's memory that it names.
struct Call {
    word: JobWord,
    runs: Watched<u32>,
    memory: Watched<u32>,
}

impl Call {
    fn new() -> Arc<Call> {
        let call = Arc::new(Call {
            word: JobWord::new(),
            runs: Watched::new(0),
            memory: Watched::new(0),
        });
        // The word is made by its first use.
        assert!(!call.word.is_open());
        call
    }

    fn post(&self, runs: u32) {
        assert!(self.word.reserve());
        // Reserved, so ours.
        self.runs.set(runs);
        self.word.post();
    }

    /// Do it, if it is there to be done.
    fn try_do(&self, expected: &[u32]) -> bool {
        if !self.word.take() {
            return false;
        }
        // Taken, so ours until it ended: the caller does not go on meanwhile.
        let runs = self.runs.get();
        assert!(expected.contains(&runs));
        self.memory.set(runs);
        self.word.end(JobEnd::Done);
        true
    }

    /// Wait for the end, and take the job back where nobody does it.
    fn wait(&self, runs: u32) {
        loop {
            if let Some(end) = self.word.ended() {
                assert_eq!(end, JobEnd::Done);
                self.word.free();
                break;
            }
            self.try_do(&[runs]);
            thread::yield_now();
        }
        // The call returns: its memory is the program's.
        assert_eq!(self.memory.get(), runs);
        self.memory.set(0);
    }
}

#[test]
fn nobody_touches_the_caller_s_memory_once_the_call_returned() {
    check(
        "models::jobs::nobody_touches_the_caller_s_memory_once_the_call_returned",
        &[
            "self.0.store(OPEN, Ordering::Release);",
            "&& (self.change(OPEN, RUNNING, Ordering::Acquire)",
            "let before = self.0.swap(end, Ordering::Release);",
            "match self.0.load(Ordering::Acquire) {",
        ],
        || {
            let call = Call::new();
            let other = call.clone();
            let delegate = thread::spawn(move || {
                other.try_do(&[1, 2]);
            });
            call.post(1);
            call.wait(1);
            // The place is used again at once.
            call.post(2);
            call.wait(2);
            delegate.join().expect("the delegate");
        },
    );
}

#[test]
fn a_free_job_is_reserved_by_one() {
    check(
        "models::jobs::a_free_job_is_reserved_by_one",
        &[
            "self.0.load(Ordering::Relaxed) == FREE && self.change(FREE, FILLING, Ordering::Acquire)",
            "self.0.store(FREE, Ordering::Release);",
        ],
        || {
            let call = Call::new();
            let other = call.clone();
            let fill = |call: &Call| {
                if call.word.reserve() {
                    // Reserved, so ours.
                    call.runs.add(1);
                    call.word.free();
                }
            };
            let second = thread::spawn(move || fill(&other));
            fill(&call);
            second.join().expect("a thread");
        },
    );
}

#[test]
fn who_sleeps_on_a_job_is_woken() {
    check(
        "models::jobs::who_sleeps_on_a_job_is_woken",
        &["without let before = self.0.swap(end, Ordering::Release);"],
        || {
            let call = Call::new();
            let other = call.clone();
            call.post(1);
            let delegate = thread::spawn(move || {
                assert!(other.word.take());
                other.word.end(JobEnd::Done)
            });
            let sleeps = call.word.sleep_on().is_some();
            let wakes = delegate.join().expect("the delegate");
            // Who said that he sleeps is woken, or sees the end before he does.
            assert!(!sleeps || wakes);
            assert_eq!(call.word.ended(), Some(JobEnd::Done));
        },
    );
}
