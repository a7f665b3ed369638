//! Where a worker writes what it is about to do, so that whoever watches knows it when the worker is dead.

use super::subject::Case;
use egeria_harness::memory::Shared;
use egeria_harness::shared_values;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Most changes of a case.
pub(super) const MAX_STEPS: usize = 32;
/// Longest message kept.
const MESSAGE_BYTES: usize = 4096;

shared_values! {
    /// Memory that a worker and its watcher share.
    pub(super) struct Words {
        /// Odd while a case runs.
        turn: AtomicU64,
        sample: AtomicU64,
        use_seed: AtomicU64,
        step_count: AtomicU64,
        steps: [AtomicU64; MAX_STEPS],
        /// CPU time of the process when the case began, ns.
        begun_cpu_ns: AtomicU64,
        /// The most CPU time of a case so far.
        pub(super) slowest_ns: AtomicU64,
        /// The most heap in use so far.
        pub(super) heap_bytes: AtomicU64,
        /// Cases kept because something new happened in them.
        pub(super) corpus: AtomicU64,
        /// Set by the watcher: no more cases.
        pub(super) stop: AtomicU64,
        message_bytes: AtomicU64,
        message: [AtomicU8; MESSAGE_BYTES],
    }
}

/// A mapping of [`Words`].
pub(super) struct StatusPage {
    words: Shared<Words>,
    file: File,
}

impl StatusPage {
    pub(super) fn new() -> io::Result<StatusPage> {
        let file = File::from(memfd_create("egeria-fuzz", MemfdFlags::CLOEXEC)?);
        file.set_len(size_of::<Words>() as u64)?;
        StatusPage::over(file)
    }

    /// The one this process was started with.
    pub(super) fn over(file: File) -> io::Result<StatusPage> {
        let words = Shared::of_file(&file)?;
        Ok(StatusPage { words, file })
    }

    /// For a worker's standard input.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    /// A worker begins a case.
    pub(super) fn begin(&self, case: &Case, cpu_ns: u64) {
        let words = self.words();
        words.sample.store(case.sample, Ordering::Relaxed);
        words.use_seed.store(case.use_seed, Ordering::Relaxed);
        for (word, step) in words.steps.iter().zip(&case.mutation_seeds) {
            word.store(*step, Ordering::Relaxed);
        }
        let count = case.mutation_seeds.len().min(MAX_STEPS) as u64;
        words.step_count.store(count, Ordering::Relaxed);
        words.begun_cpu_ns.store(cpu_ns, Ordering::Relaxed);
        words.turn.fetch_add(1, Ordering::Release);
    }

    pub(super) fn end(&self, cpu_ns: u64) {
        let words = self.words();
        let took_ns = cpu_ns.saturating_sub(words.begun_cpu_ns.load(Ordering::Relaxed));
        words.slowest_ns.fetch_max(took_ns, Ordering::Relaxed);
        words.turn.fetch_add(1, Ordering::Release);
    }

    /// Cases that are over.
    pub(super) fn done(&self) -> u64 {
        self.words().turn.load(Ordering::Acquire) / 2
    }

    /// Number of the case under way, and the CPU time when it began.
    pub(super) fn running(&self) -> Option<(u64, u64)> {
        let words = self.words();
        let turn = words.turn.load(Ordering::Acquire);
        let begun_ns = words.begun_cpu_ns.load(Ordering::Relaxed);
        (turn % 2 == 1 && words.turn.load(Ordering::Acquire) == turn).then_some((turn, begun_ns))
    }

    /// The case last begun.
    pub(super) fn case(&self) -> Case {
        let words = self.words();
        let count = words.step_count.load(Ordering::Relaxed) as usize;
        let steps = words.steps.iter().take(count);
        Case {
            sample: words.sample.load(Ordering::Relaxed),
            use_seed: words.use_seed.load(Ordering::Relaxed),
            mutation_seeds: steps.map(|step| step.load(Ordering::Relaxed)).collect(),
        }
    }

    /// Leave a message; the first one stays.
    pub(super) fn leave(&self, message: &str) {
        let words = self.words();
        let length = message.len().min(MESSAGE_BYTES) as u64;
        let first =
            words
                .message_bytes
                .compare_exchange(0, length, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() {
            for (place, byte) in words.message.iter().zip(message.bytes()) {
                place.store(byte, Ordering::Relaxed);
            }
        }
    }

    /// The message left.
    pub(super) fn message(&self) -> Option<String> {
        let words = self.words();
        let count = words.message_bytes.load(Ordering::Relaxed) as usize;
        let bytes = words.message.iter().take(count);
        let bytes: Vec<u8> = bytes.map(|byte| byte.load(Ordering::Relaxed)).collect();
        (count > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}
