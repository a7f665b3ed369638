//! What the workers tell whoever started them, in memory that outlives them.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most workers of one run, the killed ones too.
pub const WORKERS: usize = 1 << 17;

/// One worker's page of the book.
#[repr(C)]
pub struct Page {
    /// Steps that returned.
    pub steps: AtomicU64,
    /// Longest step, ns.
    pub longest_ns: AtomicU64,
    /// Step under way, plus 1.
    pub begun: AtomicU64,
    /// Something read was wrong.
    pub faults: AtomicU64,
    /// Process the worker is in.
    pub process: AtomicU64,
}

/// The whole book; the last page counts the workers.
pub struct Ledger(&'static [Page]);

impl Ledger {
    /// Make or open a book.
    pub fn open(path: &Path) -> Ledger {
        let bytes = (WORKERS + 1) * size_of::<Page>();
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .expect("ledger");
        file.set_len(bytes as u64).expect("size of the ledger");
        // SAFETY: a fresh shared mapping, never unmapped; all of it is atomics.
        let pages = unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(at, libc::MAP_FAILED);
            std::slice::from_raw_parts(at.cast::<Page>(), WORKERS + 1)
        };
        Ledger(pages)
    }

    pub fn page(&self, worker: u64) -> &'static Page {
        &self.0[worker as usize]
    }

    /// A new worker in this process; `None` when there were enough.
    pub fn hire(&self) -> Option<u64> {
        let id = self.0[WORKERS].begun.fetch_add(1, Ordering::AcqRel);
        let page = self.0[..WORKERS].get(id as usize)?;
        let process = u64::from(std::process::id());
        page.process.store(process, Ordering::Release);
        Some(id)
    }

    /// Workers of a process, or all.
    #[allow(dead_code)]
    pub fn workers(&self, process: Option<u32>) -> Vec<u64> {
        let hired = self.0[WORKERS].begun.load(Ordering::Acquire);
        (0..hired.min(WORKERS as u64))
            .filter(|id| {
                let of = self.page(*id).process.load(Ordering::Acquire);
                process.is_none_or(|process| of == u64::from(process))
            })
            .collect()
    }

    /// Longest step of anybody, ns, and its worker and number.
    pub fn longest(&self) -> (u64, usize, u64) {
        let pages = self.0[..WORKERS].iter().enumerate();
        pages
            .map(|(worker, page)| {
                let longest = page.longest_ns.load(Ordering::Relaxed);
                (longest, worker, page.begun.load(Ordering::Relaxed))
            })
            .max()
            .expect("pages")
    }

    pub fn faults(&self) -> u64 {
        let pages = self.0.iter();
        pages.map(|page| page.faults.load(Ordering::Relaxed)).sum()
    }
}
