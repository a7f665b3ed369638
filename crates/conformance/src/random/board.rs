//! Memory that the processes of a program have in common: whose turn it is, and what each step answered.

use super::outcome::Outcome;
use super::program::MAX_STEPS;
use crate::call::errno;
use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_SHARED, PROT_READ, PROT_WRITE};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// How often to look before going to sleep.
const LOOKS: usize = 200;

/// Words that contests use as they like.
pub const WORDS: usize = 1 << 10;

#[repr(C)]
struct Shared {
    turn: AtomicU32,
    limits: [AtomicU64; MAX_STEPS],
    values: [AtomicU64; MAX_STEPS],
    errors: [AtomicI32; MAX_STEPS],
    hashes: [AtomicU64; MAX_STEPS],
    words: [AtomicU64; WORDS],
}

/// The memory; children get it as it is.
pub struct Board(*mut Shared);

// SAFETY: all of it is atomic.
unsafe impl Send for Board {}
// SAFETY: likewise.
unsafe impl Sync for Board {}

impl Board {
    /// Blank.
    #[expect(clippy::new_without_default, reason = "it takes memory of the system")]
    pub fn new() -> Board {
        let (access, kind) = (PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
        // SAFETY: a new mapping where the kernel likes.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), size_of::<Shared>(), access, kind, -1, 0) };
        assert_ne!(start, MAP_FAILED, "memory: {:?}", errno());
        Board(start.cast())
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped as long as this is, and zeros are values of atomics.
        unsafe { &*self.0 }
    }

    /// Everything back to nothing but the limits.
    pub fn clear(&self) {
        let shared = self.shared();
        shared.turn.store(0, Ordering::SeqCst);
        for word in &shared.words {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// The step under way.
    pub fn turn(&self) -> usize {
        self.shared().turn.load(Ordering::SeqCst) as usize
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
        let word = &raw const self.shared().turn;
        let some = libc::timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        // SAFETY: the word and the time live.
        let answer = unsafe {
            let (futex, wait) = (libc::SYS_futex, libc::FUTEX_WAIT);
            libc::syscall(futex, word, wait, turn as u32, &raw const some)
        };
        answer == -1 && errno().0 == libc::ETIMEDOUT
    }

    /// Note what a step answered, and go on to the next.
    pub fn note(&self, step: usize, outcome: Outcome) {
        let shared = self.shared();
        shared.values[step].store(outcome.value as u64, Ordering::Relaxed);
        shared.errors[step].store(outcome.error, Ordering::Relaxed);
        shared.hashes[step].store(outcome.hash, Ordering::Relaxed);
        self.advance(step + 1);
    }

    /// This step is at hand now.
    pub fn advance(&self, step: usize) {
        let word = &self.shared().turn;
        word.store(step as u32, Ordering::SeqCst);
        // SAFETY: the word lives.
        unsafe {
            let (futex, wake) = (libc::SYS_futex, libc::FUTEX_WAKE);
            libc::syscall(futex, &raw const *word, wake, i32::MAX);
        }
    }

    /// What was noted of a step.
    pub fn outcome(&self, step: usize) -> Outcome {
        let shared = self.shared();
        Outcome {
            value: shared.values[step].load(Ordering::Relaxed) as i64,
            error: shared.errors[step].load(Ordering::Relaxed),
            hash: shared.hashes[step].load(Ordering::Relaxed),
        }
    }

    /// How long a step may be.
    pub fn limit(&self, step: usize) -> &AtomicU64 {
        &self.shared().limits[step]
    }

    /// Words that contests use as they like.
    pub fn words(&self) -> &[AtomicU64; WORDS] {
        &self.shared().words
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the mapping's own range, not used again.
        unsafe { libc::munmap(self.0.cast(), size_of::<Shared>()) };
    }
}
