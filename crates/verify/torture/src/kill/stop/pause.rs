//! How long the machine itself keeps everybody from running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the thread sleeps at a time.
const SLEEP: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Shared {
    longest_ns: AtomicU64,
    is_over: AtomicBool,
}

/// A thread that only sleeps: what it is woken late, everybody is.
pub struct PauseClock {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl PauseClock {
    pub fn start() -> PauseClock {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread = std::thread::spawn(move || {
            while !own.is_over.load(Ordering::Acquire) {
                let begun = Instant::now();
                std::thread::sleep(SLEEP);
                let late = begun.elapsed().saturating_sub(SLEEP);
                own.longest_ns
                    .fetch_max(late.as_nanos() as u64, Ordering::AcqRel);
            }
        });
        PauseClock {
            shared,
            thread: Some(thread),
        }
    }

    /// Forget what was before.
    pub fn reset(&self) {
        self.shared.longest_ns.store(0, Ordering::Release);
    }

    /// Longest pause since then, ns.
    pub fn longest_ns(&self) -> u64 {
        self.shared.longest_ns.load(Ordering::Acquire)
    }
}

impl Drop for PauseClock {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
