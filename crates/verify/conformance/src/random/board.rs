//! Memory that the processes of a program have in common: whose turn it is, and what each step answered.

use super::outcome::Outcome;
use super::program::MAX_STEPS;
use egeria_harness::memory::Shared;
use egeria_harness::shared_values;
use rustix::io::Errno;
use rustix::thread::futex;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// How often to look before going to sleep.
const LOOKS: usize = 200;

/// Words that contests use as they like.
pub const WORDS: usize = 1 << 10;

shared_values! {
    struct Words {
        turn: AtomicU32,
        limits: [AtomicU64; MAX_STEPS],
        values: [AtomicU64; MAX_STEPS],
        errors: [AtomicI32; MAX_STEPS],
        hashes: [AtomicU64; MAX_STEPS],
        words: [AtomicU64; WORDS],
    }
}

/// The memory; children get it as it is.
pub struct Board(Shared<Words>);

impl Board {
    /// Blank.
    #[expect(clippy::new_without_default, reason = "it takes memory of the system")]
    pub fn new() -> Board {
        Board(Shared::with_children().expect("memory"))
    }

    /// Everything back to nothing but the limits.
    pub fn clear(&self) {
        let shared = &self.0;
        shared.turn.store(0, Ordering::SeqCst);
        for word in &shared.words {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// The step under way.
    pub fn turn(&self) -> usize {
        self.0.turn.load(Ordering::SeqCst) as usize
    }

    /// Wait until a step is at hand; false if `is_hopeless` says so.
    pub fn wait(&self, step: usize, is_hopeless: impl Fn() -> bool) -> bool {
        for count in 0.. {
            let turn = self.turn();
            if turn >= step {
                return true;
            }
            if count < LOOKS {
                std::hint::spin_loop();
            } else if self.sleep(turn) && is_hopeless() {
                return false;
            }
        }
        true
    }

    /// Until the turn is another; whether that took long.
    fn sleep(&self, turn: usize) -> bool {
        let some = futex::Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        let flags = futex::Flags::empty();
        let waited = futex::wait(&self.0.turn, flags, turn as u32, Some(&some));
        waited == Err(Errno::TIMEDOUT)
    }

    /// Note what a step answered, and go on to the next.
    pub fn note(&self, step: usize, outcome: Outcome) {
        let shared = &self.0;
        shared.values[step].store(outcome.value as u64, Ordering::Relaxed);
        shared.errors[step].store(outcome.error, Ordering::Relaxed);
        shared.hashes[step].store(outcome.hash, Ordering::Relaxed);
        self.advance(step + 1);
    }

    /// This step is at hand now.
    pub fn advance(&self, step: usize) {
        let word = &self.0.turn;
        word.store(step as u32, Ordering::SeqCst);
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }

    /// What was noted of a step.
    pub fn outcome(&self, step: usize) -> Outcome {
        let shared = &self.0;
        Outcome {
            value: shared.values[step].load(Ordering::Relaxed) as i64,
            error: shared.errors[step].load(Ordering::Relaxed),
            hash: shared.hashes[step].load(Ordering::Relaxed),
        }
    }

    /// How long a step may be.
    pub fn limit(&self, step: usize) -> &AtomicU64 {
        &self.0.limits[step]
    }

    /// Words that contests use as they like.
    pub fn words(&self) -> &[AtomicU64; WORDS] {
        &self.0.words
    }
}
