//! What the workers tell whoever started them, in memory that outlives them.

use super::call_time::CallTime;
use egeria_harness::memory::Shared;
use egeria_harness::shared_values;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most workers of one run, the killed ones too. Pages that nobody wrote on take no memory.
pub const WORKERS: usize = 1 << 23;

/// A worker took all its steps.
pub const DONE: u64 = 1;

shared_values! {
    /// One worker's page of the book.
    pub struct Page {
        /// Steps that returned.
        pub steps: AtomicU64,
        pub time: CallTime,
        /// Step under way, plus 1.
        pub begun: AtomicU64,
        /// Something read was wrong.
        pub faults: AtomicU64,
        /// Process the worker is in.
        pub process: AtomicU64,
        /// [`DONE`], or 0: at work, or gone in the middle of a step.
        pub state: AtomicU64,
        /// 1: a write may be several requests of the mount.
        pub splits: AtomicU64,
    }

    /// The first page.
    pub struct Header {
        workers: AtomicU64,
        stopped: AtomicU64,
        /// Mounts that were ready.
        pub mounts: AtomicU64,
        /// Snapshots that were read whole.
        pub snapshots: AtomicU64,
        /// The process that is to die in the middle of a step; 0: none.
        to_die: AtomicU64,
    }

    struct Book {
        header: Header,
        pages: [Page; WORKERS],
    }
}

/// The whole book.
pub struct Ledger(&'static Book);

impl Ledger {
    /// Make or open a book.
    pub fn open(path: &Path) -> io::Result<Ledger> {
        Ok(Ledger(Shared::<Book>::open(path)?.leak()))
    }

    /// The first page.
    pub fn header(&self) -> &'static Header {
        &self.0.header
    }

    /// A worker's page.
    pub fn page(&self, worker: u64) -> &'static Page {
        &self.0.pages[worker as usize]
    }

    /// A new worker in this process; `None` when there were enough.
    pub fn add_worker(&self) -> Option<u64> {
        let id = self.0.header.workers.fetch_add(1, Ordering::AcqRel);
        let page = self.0.pages.get(id as usize)?;
        let process = u64::from(std::process::id());
        page.process.store(process, Ordering::Release);
        Some(id)
    }

    /// Workers hired so far.
    pub fn worker_count(&self) -> u64 {
        let hired = self.0.header.workers.load(Ordering::Acquire);
        hired.min(WORKERS as u64)
    }

    /// Whether nobody can be hired any more.
    pub fn is_full(&self) -> bool {
        self.0.header.workers.load(Ordering::Acquire) >= WORKERS as u64
    }

    /// Everybody ends after the step under way, or nobody any more.
    pub fn stop(&self, stopped: bool) {
        let word = u64::from(stopped);
        self.0.header.stopped.store(word, Ordering::Release);
    }

    /// Whether everybody is to end.
    pub fn is_stopped(&self) -> bool {
        self.0.header.stopped.load(Ordering::Acquire) != 0
    }

    /// This process, or with 0 none, is to die in the middle of its next steps.
    pub fn mark_to_die(&self, process: u32) {
        let word = u64::from(process);
        self.0.header.to_die.store(word, Ordering::Release);
    }

    /// Whether this process is to die in the middle of a step.
    pub fn is_to_die(&self) -> bool {
        match self.0.header.to_die.load(Ordering::Acquire) {
            0 => false,
            process => process == u64::from(std::process::id()),
        }
    }

    /// Longest step of all workers, ns, and its worker and number.
    pub fn longest(&self) -> (u64, usize, u64) {
        let pages = self.0.pages.iter().take(self.worker_count() as usize);
        let longest = pages.enumerate().map(|(worker, page)| {
            let number = page.begun.load(Ordering::Relaxed);
            (page.time.noted_ns(), worker, number)
        });
        longest.max().unwrap_or_default()
    }

    /// Steps of all that returned.
    pub fn steps(&self) -> u64 {
        let pages = self.0.pages.iter().take(self.worker_count() as usize);
        pages.map(|page| page.steps.load(Ordering::Relaxed)).sum()
    }

    /// Steps of all that went wrong.
    pub fn faults(&self) -> u64 {
        let pages = self.0.pages.iter().take(self.worker_count() as usize);
        pages.map(|page| page.faults.load(Ordering::Relaxed)).sum()
    }
}
