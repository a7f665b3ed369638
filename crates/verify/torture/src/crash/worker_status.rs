//! What a worker is at, to see whether that ever ends.
//!
//! Time counts that the worker's thread had a CPU: on a busy machine everything takes long.

use super::violation::{BadState, Crash, Violation};
use super::workload::{Setup, Workload};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What one recovery may take; it takes milliseconds.
pub const RECOVERY_TIMEOUT: Duration = Duration::from_secs(20);

/// For tests of the explorer: what goes wrong though the engine is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InjectedFault {
    /// The recovery of this number, from 0, of each worker does not end.
    Hang(u64),
    /// The workload of this number, from 0, of each worker panics while it runs.
    Panic(u64),
}

/// A workload under way.
#[derive(Clone)]
struct Work {
    setup: Setup,
    omitted: Option<String>,
    workload: Workload,
}

#[derive(Default)]
struct State {
    work: Option<Work>,
    crash: Option<Crash>,
    second: Option<Crash>,
    hash: u64,
}

/// A worker, as others see it.
#[derive(Default)]
pub(super) struct WorkerStatus {
    /// Changes whenever it goes on.
    steps: AtomicU64,
    clock: AtomicI32,
    looks: AtomicU64,
    runs: AtomicU64,
    state: Mutex<State>,
    /// Nobody waits for it any more.
    is_given_up: AtomicBool,
    injected_fault: Option<InjectedFault>,
}

/// How far a worker was when somebody last looked, and its CPU time then.
pub(super) type Progress = (u64, Duration);

unsafe extern "C" {
    fn pthread_getcpuclockid(thread: libc::pthread_t, clock: *mut libc::clockid_t) -> i32;
}

impl WorkerStatus {
    pub(super) fn new(injected_fault: Option<InjectedFault>) -> WorkerStatus {
        WorkerStatus {
            injected_fault,
            ..WorkerStatus::default()
        }
    }

    /// The calling thread is the worker.
    pub(super) fn is_me(&self) {
        let mut clock = 0;
        // SAFETY: this thread lives, and a valid out-parameter.
        if unsafe { pthread_getcpuclockid(libc::pthread_self(), &mut clock) } == 0 {
            self.clock.store(clock, Ordering::Release);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.steps.fetch_add(1, Ordering::AcqRel);
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A workload is run.
    pub(super) fn runs(&self) {
        self.steps.fetch_add(1, Ordering::AcqRel);
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        if self.injected_fault == Some(InjectedFault::Panic(run)) {
            panic!("tripped");
        }
    }

    /// A workload was run, and crashes of it are looked at now.
    pub(super) fn explores(&self, setup: Setup, omitted: Option<String>, workload: Workload) {
        let work = Work {
            setup,
            omitted,
            workload,
        };
        *self.state() = State {
            work: Some(work),
            ..State::default()
        };
    }

    /// What comes of this crash is looked at now.
    pub(super) fn looks_at(&self, crash: &Crash, hash: u64) {
        let mut state = self.state();
        (state.crash, state.second, state.hash) = (Some(crash.clone()), None, hash);
        drop(state);
        self.look();
    }

    /// What comes of a crash in the recovery from that is looked at now.
    pub(super) fn looks_again(&self, second: &Crash, hash: u64) {
        let mut state = self.state();
        (state.second, state.hash) = (Some(second.clone()), hash);
        drop(state);
        self.look();
    }

    fn look(&self) {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        while self.injected_fault == Some(InjectedFault::Hang(look))
            && !self.is_given_up.load(Ordering::Relaxed)
        {
            std::hint::spin_loop();
        }
    }

    /// How far it is, and the CPU time it took so far.
    pub(super) fn progress(&self) -> Progress {
        let steps = self.steps.load(Ordering::Acquire);
        // The clock of a thread that is gone is an error.
        let time = egeria_media::clock::time(self.clock.load(Ordering::Acquire));
        let taken = time.map(|time| Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
        (steps, taken.unwrap_or_default())
    }

    /// Whether it took all that time without going on. `before` is brought up to date.
    pub(super) fn hangs(&self, before: &mut Progress, recovery_timeout: Duration) -> bool {
        let now = self.progress();
        if now.0 != before.0 {
            *before = now;
        }
        now.1.saturating_sub(before.1) >= recovery_timeout
    }

    /// Nobody waits for it any more; what it is at, to be saved, if it looks at a crash.
    pub(super) fn give_up(&self, recovery_timeout: Duration) -> Option<Violation> {
        self.is_given_up.store(true, Ordering::Relaxed);
        let state = self.state();
        let (work, crash) = (state.work.clone()?, state.crash.clone()?);
        Some(Violation {
            setup: work.setup,
            omitted: work.omitted,
            workload: work.workload,
            wrong: Box::new(BadState {
                crash,
                second: state.second.clone(),
                hash: state.hash,
                why: does_not_end(recovery_timeout),
            }),
        })
    }
}

/// What is wrong with a recovery that hangs.
pub(super) fn does_not_end(recovery_timeout: Duration) -> String {
    let seconds = recovery_timeout.as_secs_f64();
    format!("recovery did not end in {seconds} s of CPU time")
}
