//! Delegates: threads of this process, one or a few per pool, that stay on the pool's node and access it for others.
//!
//! They start when there is work, sleep while there is none, and end after [`IDLE`]. While they sleep, they hold no
//! part of the volume.

use crate::data::Delegating;
use crate::session::Admitting;
use crate::session::access::{Access, Run};
use crate::session::admission::Admitted;
use crate::session::delegation::board::{Board, Job, JobRun, MAX_DELEGATES, wake};
use crate::session::delegation::job::JobEnd;
use crate::session::slots::Me;
use crate::session::traffic::Traffic;
use crate::session::volume::Volume;
use crate::types::{Errno, Outcome};
use egeria_admission::Request;
use egeria_media::emulation::AccessKind;
use egeria_media::{CallerDestination, CallerSource, PoolIndex};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A delegate without work for this long ends.
const IDLE: Duration = Duration::from_secs(30);
/// A delegate needs little stack, but the program's static thread-local memory must fit as well.
const STACK_BYTES: usize = 512 << 10;

/// What a delegate has of the process.
struct Worker {
    volume: Weak<Volume>,
    board: Arc<Board>,
    pool: usize,
    place: usize,
}

impl Delegating<'_> {
    /// Start a delegate of a pool if there are fewer than `limit`. Returns whether there is any.
    pub(super) fn start_delegate(self, board: &Arc<Board>, pool: usize, limit: usize) -> bool {
        let of_pool = &board.pools[pool];
        if board.is_ending() {
            return false;
        }
        let Some(place) = of_pool.begin_worker(limit.min(MAX_DELEGATES)) else {
            return true;
        };
        let worker = Worker {
            volume: self.volume.weak.clone(),
            board: Arc::clone(board),
            pool,
            place,
        };
        // Signals for the program must be handled by the program's own threads.
        let before = block_signals();
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let started = builder
            .name(format!("egeria-node{pool}"))
            .spawn(move || worker.work());
        restore_signals(before);
        if started.is_err() {
            of_pool.set_worker(place, 0);
        }
        started.is_ok() || of_pool.worker_count() > 0
    }

    /// Do a job of a pool after taking it.
    pub(super) fn do_job(self, me: Me<'_>, pool: usize, job: &Job) -> Outcome<()> {
        let (kind, runs) = (job.kind(), job.runs());
        let bytes = runs.iter().map(|run| run.bytes as u64).sum();
        let pieces = runs.len() as u64;
        let admitting = Admitting::of(self.volume);
        let is_delegate = me.slot.notes.delegate_of.load(Ordering::Relaxed) != 0;
        let _place = if is_delegate {
            admitting.admit_delegate(me, pool, Request { kind, bytes })?
        } else {
            None
        };
        let _admitted = if self.volume.path_mode().is_limited() {
            admitting.admit(me, 0, kind, &Traffic::of(pool as u8, bytes))?
        } else {
            Admitted::default()
        };
        let pool = PoolIndex(pool as u8);
        let mut access = Access::begin(self.volume, me, kind);
        for run in runs {
            do_run(&mut access, pool, kind, run)?;
        }
        if kind == AccessKind::Write {
            // What this thread stored is made durable before the caller commits: the caller's fence waits for its own
            // stores only.
            self.volume.pool(pool)?.fence();
        }
        if is_delegate {
            access.charge_delegated(job.home(), pieces);
        } else {
            // The caller took its job back.
            access.charge();
        }
        Ok(())
    }
}

fn do_run(access: &mut Access<'_>, pool: PoolIndex, kind: AccessKind, job: JobRun) -> Outcome<()> {
    let run = Run {
        pool,
        at: job.at,
        bytes: job.bytes,
    };
    match kind {
        AccessKind::Read => {
            // SAFETY: made from a `CallerDestination` with an owner that waits until the job has ended; equally valid.
            let to = unsafe { CallerDestination::new(job.address as *mut u8, job.bytes) };
            access.run(run, |pool| pool.copy_out(run.at, to).map_err(Errno::from))
        }
        AccessKind::Write => {
            // SAFETY: as above, of a `CallerSource`.
            let from = unsafe { CallerSource::new(job.address as *const u8, job.bytes) };
            access.run(run, |pool| pool.copy_in(run.at, from).map_err(Errno::from))
        }
    }
}

impl Worker {
    fn work(self) {
        let id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let of_pool = &self.board.pools[self.pool];
        of_pool.set_worker(self.place, id);
        if self.settle_down().is_err() {
            of_pool.set_worker(self.place, 0);
            return;
        }
        let mut last = self.place;
        let mut since = Instant::now();
        while !self.board.is_ending() {
            let seen = of_pool.bell();
            match of_pool.take(last) {
                Some(place) => {
                    last = place as usize;
                    self.do_one(place);
                    since = Instant::now();
                }
                None => {
                    let is_idle = of_pool.sleep(seen, IDLE) && since.elapsed() >= IDLE;
                    if is_idle && of_pool.end_worker(self.place) {
                        self.leave();
                        return;
                    }
                }
            }
        }
        // Its slot is given back with the other slots of the process.
        of_pool.set_worker(self.place, 0);
    }

    /// Take a thread slot and stay on the pool's node.
    fn settle_down(&self) -> Outcome<()> {
        let volume = self.volume.upgrade().ok_or(Errno(libc::ENODEV))?;
        let me = volume.me()?;
        (me.slot.notes.delegate_of).store(self.pool as u64 + 1, Ordering::Relaxed);
        Delegating::of(&volume).stay_at_pool(me, self.pool);
        Ok(())
    }

    fn do_one(&self, place: u8) {
        let of_pool = &self.board.pools[self.pool];
        let job = of_pool.job(place);
        let begun = Instant::now();
        let outcome = || {
            // The caller waits inside a call of the volume, so this is never the last reference to it.
            let volume = self.volume.upgrade().ok_or(Errno(libc::ENODEV))?;
            Delegating::of(&volume).do_job(volume.me()?, self.pool, job)
        };
        // Whatever happens, the caller goes on.
        let end = match catch_unwind(AssertUnwindSafe(outcome)) {
            Ok(Ok(())) => JobEnd::Done,
            _ => JobEnd::Failed,
        };
        let took_ns = begun.elapsed().as_nanos() as u64;
        let long_ns = of_pool.long_ns.load(Ordering::Relaxed);
        let long_ns = took_ns.max(long_ns - long_ns / 64);
        of_pool.long_ns.store(long_ns, Ordering::Relaxed);
        of_pool.ended.fetch_add(1, Ordering::Relaxed);
        if job.word.end(end) {
            wake(job.word.word());
        }
    }

    fn leave(&self) {
        if let Some(volume) = self.volume.upgrade() {
            volume.thread_exit();
        }
    }
}

impl Delegating<'_> {
    /// Bind the calling thread to a pool's node, as far as it is allowed.
    fn stay_at_pool(self, me: Me<'_>, pool: usize) {
        if self.volume.is_emulated() {
            let node = self.volume.session.node_index(pool as u8);
            self.volume
                .session
                .emulation()
                .pin_thread(&me.slot.emulated, node);
            return;
        }
        let Ok(allowed) = rustix::thread::sched_getaffinity(None) else {
            return;
        };
        let mut wanted = rustix::thread::CpuSet::new();
        let of_cpu = self.volume.session.header().pool_of_cpu.iter();
        for (cpu, of_cpu) in of_cpu.enumerate().take(rustix::thread::CpuSet::MAX_CPU) {
            if of_cpu.load(Ordering::Relaxed) as usize == pool && allowed.is_set(cpu) {
                wanted.set(cpu);
            }
        }
        if wanted.count() > 0 {
            // If this is refused, it runs on the CPUs of the process.
            let _ = rustix::thread::sched_setaffinity(None, &wanted);
        }
    }
}

/// Block all signals of this thread except those raised by faults; returns the mask before.
fn block_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: `sigfillset` fills the whole set before it is changed and used; the mask before is written by the kernel, and
    // its own memory is zeroed first, should that fail.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL] {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        libc::sigemptyset(before.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn restore_signals(before: libc::sigset_t) {
    // SAFETY: a mask that `block_signals` answered.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
}
