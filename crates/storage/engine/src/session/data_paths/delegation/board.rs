//! Where the callers of a process leave jobs for its delegates: some places per pool, taken and given back without
//! locks, and never freed while a thread may read them.

use super::job::JobWord;
use super::learned::Learned;
use arrayvec::ArrayVec;
use egeria_media::PoolOffset;
use egeria_media::emulation::AccessKind;
use once_cell::race::OnceBox;
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Most delegates of a pool, in one process.
pub(crate) const MAX_DELEGATES: usize = 16;
/// Jobs of a pool at once; a caller that finds no free one accesses the pool itself.
const JOBS: usize = 64;
/// Runs of one job: 2 MiB over eight pools in stripes of 32 KiB are 8 each.
pub(crate) const RUNS: usize = 32;
/// A worker that is being started has no id yet.
const STARTING: u32 = u32::MAX;

/// A run of bytes on the pool and where they are in the caller's memory.
#[derive(Clone, Copy)]
pub(crate) struct JobRun {
    pub(crate) at: PoolOffset,
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

/// One job. Only its owner, named by its word, accesses the other fields.
pub(crate) struct Job {
    pub(crate) word: JobWord,
    is_write: AtomicU32,
    /// Position of the caller's node on an emulated machine.
    home: AtomicU32,
    count: AtomicU32,
    runs: [[AtomicU64; 3]; RUNS],
}

/// What a pool's callers and delegates share.
pub(crate) struct PoolBoard {
    jobs: Box<[Job]>,
    /// Changes whenever a job is posted; idle delegates sleep on it.
    bell: AtomicU32,
    sleeping: AtomicU32,
    /// Jobs that were posted and not freed since.
    posted: AtomicU32,
    /// Jobs that ended, ever.
    pub(crate) ended: AtomicU64,
    /// Duration of the longest of the last jobs.
    pub(crate) long_ns: AtomicU64,
    /// Ids of the delegates, 0: none.
    workers: [AtomicU32; MAX_DELEGATES],
}

/// The boards of all pools.
pub(crate) struct Board {
    pub(crate) pools: Box<[PoolBoard]>,
    ending: AtomicU32,
}

impl Job {
    fn new() -> Job {
        Job {
            word: JobWord::new(),
            is_write: AtomicU32::new(0),
            home: AtomicU32::new(0),
            count: AtomicU32::new(0),
            runs: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    pub(crate) fn begin(&self, kind: AccessKind, home: usize) {
        let is_write = kind == AccessKind::Write;
        self.is_write.store(is_write.into(), Ordering::Relaxed);
        self.home.store(home as u32, Ordering::Relaxed);
        self.count.store(0, Ordering::Relaxed);
    }

    /// Adds a run; returns how many there are now.
    pub(crate) fn add(&self, run: JobRun) -> usize {
        let count = self.count.load(Ordering::Relaxed) as usize;
        if let Some([at, address, bytes]) = self.runs.get(count) {
            at.store(run.at.0, Ordering::Relaxed);
            address.store(run.address as u64, Ordering::Relaxed);
            bytes.store(run.bytes as u64, Ordering::Relaxed);
            self.count.store(count as u32 + 1, Ordering::Relaxed);
        }
        count + 1
    }

    pub(crate) fn kind(&self) -> AccessKind {
        match self.is_write.load(Ordering::Relaxed) {
            0 => AccessKind::Read,
            _ => AccessKind::Write,
        }
    }

    pub(crate) fn home(&self) -> usize {
        self.home.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn runs(&self) -> ArrayVec<JobRun, RUNS> {
        let count = self.count.load(Ordering::Relaxed) as usize;
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let runs = self.runs.iter().take(count);
        runs.map(|[at, address, bytes]| JobRun {
            at: PoolOffset(load(at)),
            address: load(address) as usize,
            bytes: load(bytes) as usize,
        })
        .collect()
    }
}

impl PoolBoard {
    fn new() -> PoolBoard {
        PoolBoard {
            jobs: (0..JOBS).map(|_| Job::new()).collect(),
            bell: AtomicU32::new(0),
            sleeping: AtomicU32::new(0),
            posted: AtomicU32::new(0),
            ended: AtomicU64::new(0),
            long_ns: AtomicU64::new(0),
            workers: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Reserve a free job for filling; threads begin their search at different places.
    pub(crate) fn reserve(&self, hint: usize) -> Option<u8> {
        let places = (0..JOBS).map(|turn| (hint + turn) % JOBS);
        let mut free = places.filter(|place| self.jobs[*place].word.reserve());
        free.next().map(|place| place as u8)
    }

    pub(crate) fn job(&self, place: u8) -> &Job {
        &self.jobs[place as usize % JOBS]
    }

    /// Post a filled job.
    pub(crate) fn post(&self, place: u8) {
        self.posted.fetch_add(1, Ordering::Relaxed);
        self.job(place).word.post();
    }

    /// Free a job that has ended.
    pub(crate) fn free(&self, place: u8) {
        self.posted.fetch_sub(1, Ordering::Relaxed);
        self.job(place).word.free();
    }

    /// Into how many jobs the runs of a caller are best divided: one for each of these delegates without a job.
    pub(crate) fn shares(&self, delegates: usize) -> usize {
        let posted = self.posted.load(Ordering::Relaxed) as usize;
        delegates.saturating_sub(posted).max(1)
    }

    /// Take an open job; `after` is the place of the last one taken.
    pub(crate) fn take(&self, after: usize) -> Option<u8> {
        let mut places = (1..=JOBS).map(|turn| (after + turn) % JOBS);
        let taken = places.find(|place| self.jobs[*place].word.take())?;
        Some(taken as u8)
    }

    /// Wake a delegate for a posted job. Returns whether one sleeps.
    pub(crate) fn ring(&self) -> bool {
        // In one total order with the sleeper: it publishes that it sleeps, then reads the bell.
        self.bell.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let sleeps = self.sleeping.load(Ordering::SeqCst) > 0;
        if sleeps {
            let _ = futex::wake(&self.bell, futex::Flags::PRIVATE, 1);
        }
        sleeps
    }

    /// The bell's value, to be read before looking for jobs.
    pub(crate) fn bell(&self) -> u32 {
        self.bell.load(Ordering::SeqCst)
    }

    /// Sleep until the bell changes or the limit is over. Returns whether the limit was over.
    pub(crate) fn sleep(&self, seen: u32, limit: Duration) -> bool {
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        let outcome = wait(&self.bell, seen, limit);
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        matches!(outcome, Err(rustix::io::Errno::TIMEDOUT))
    }

    /// Number of delegates that exist or are being started.
    pub(crate) fn worker_count(&self) -> usize {
        let is_there = |worker: &&AtomicU32| worker.load(Ordering::Acquire) != 0;
        self.workers.iter().filter(is_there).count()
    }

    /// A place for one more.
    pub(crate) fn begin_worker(&self, limit: usize) -> Option<usize> {
        let mut places = (0..limit.min(MAX_DELEGATES)).filter(|place| {
            let worker = &self.workers[*place];
            worker
                .compare_exchange(0, STARTING, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        places.next()
    }

    pub(crate) fn set_worker(&self, place: usize, thread_id: u32) {
        self.workers[place].store(thread_id, Ordering::Release);
    }

    fn has_open(&self) -> bool {
        self.jobs.iter().any(|job| job.word.is_open())
    }

    /// Give the place back, unless a job was posted in the meantime.
    pub(crate) fn end_worker(&self, place: usize) -> bool {
        let own = self.workers[place].swap(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let worker = &self.workers[place];
        // A caller that posted before it saw the place empty has started no worker.
        let (order, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        !(self.has_open() && worker.compare_exchange(0, own, order, failed).is_ok())
    }

    fn reset(&self) {
        for job in &self.jobs {
            job.word.free();
        }
        for worker in &self.workers {
            worker.store(0, Ordering::Relaxed);
        }
        self.sleeping.store(0, Ordering::Relaxed);
        self.posted.store(0, Ordering::Relaxed);
    }
}

impl Board {
    pub(crate) fn new(pools: usize) -> Board {
        Board {
            pools: (0..pools).map(|_| PoolBoard::new()).collect(),
            ending: AtomicU32::new(0),
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire) != 0
    }

    /// Called in the child after fork, which has one thread: no delegate is left, and the only caller has no job. Only
    /// stores.
    pub(crate) fn reset_after_fork(&self) {
        self.pools.iter().for_each(PoolBoard::reset);
    }

    /// End all delegates and wait until the kernel has removed them: a process that creates namespaces must have one
    /// thread only.
    pub(crate) fn end(&self) {
        self.ending.store(1, Ordering::SeqCst);
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut ids = ArrayVec::<u32, { MAX_DELEGATES * crate::format::MAX_POOLS }>::new();
        for pool in &self.pools {
            pool.bell.fetch_add(1, Ordering::SeqCst);
            let _ = futex::wake(&pool.bell, futex::Flags::PRIVATE, i32::MAX as u32);
            for worker in &pool.workers {
                let mut id = worker.load(Ordering::Acquire);
                while id == STARTING {
                    std::thread::yield_now();
                    id = worker.load(Ordering::Acquire);
                }
                if id != 0 && id != own {
                    ids.push(id);
                }
            }
        }
        for id in ids {
            while is_running(id) {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
}

/// A process's part in delegation.
#[derive(Default)]
pub(crate) struct Delegates {
    /// Never waited for: a fork child would wait for a thread that does not exist there.
    pub(crate) board: OnceBox<Arc<Board>>,
    pub(crate) learned: Learned,
    pub(crate) may_start: OnceLock<fn() -> bool>,
}

impl Delegates {
    /// In the child after fork. Only stores.
    pub(crate) fn reset_after_fork(&self) {
        if let Some(board) = self.board.get() {
            board.reset_after_fork();
        }
    }

    /// End all delegates of this process.
    pub(crate) fn end(&self) {
        if let Some(board) = self.board.get() {
            board.end();
        }
    }
}

/// Sleep while a word says this.
pub(crate) fn wait(word: &AtomicU32, seen: u32, limit: Duration) -> rustix::io::Result<()> {
    let limit = futex::Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    futex::wait(word, futex::Flags::PRIVATE, seen, Some(&limit))
}

pub(crate) fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}

/// Whether there is such a thread.
fn is_running(thread_id: u32) -> bool {
    let id = rustix::process::Pid::from_raw(thread_id as i32);
    id.is_some_and(|id| rustix::process::test_kill_process(id).is_ok())
}
