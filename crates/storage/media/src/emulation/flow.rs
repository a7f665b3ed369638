//! Throughput on an emulated machine of threads that only access memory: measures it as a benchmark measures a real
//! machine.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;
use std::time::Duration;

use egeria_machine::costs::Pattern;

use super::AccessKind;
use super::access::Access;
use super::clock;
use super::machine::Emulation;
use super::state::{EmulatedThread, EmulationState};

/// Minimum number of measured accesses per thread.
const MIN_ACCESSES: u64 = 6;
/// This many accesses are enough, however little time they take.
const MAX_ACCESSES: u64 = 100_000;

/// Threads of one node that access one memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Flow {
    /// Position of the node on which they run.
    pub home: usize,
    /// Position of the memory in [`egeria_machine::costs::AccessCosts::places`].
    pub place: usize,
    pub threads: u32,
    /// Bytes of an access.
    pub bytes: u64,
    /// How the position of an access relates to the previous one.
    pub pattern: Pattern,
    /// What each thread does in turn.
    pub kinds: [AccessKind; 2],
    /// A thread does not wait for an access before it begins the next.
    pub at_once: bool,
    /// The last-level cache of the threads' node serves all accesses.
    pub is_cached: bool,
}

impl Flow {
    fn access(&self, turn: u64) -> Access<'static> {
        Access {
            place: self.place,
            bytes: self.bytes,
            kind: self.kinds[(turn % 2) as usize],
            cached_bytes: if self.is_cached { self.bytes } else { 0 },
            computed_ns: 0,
            owed_ns: 0,
            pattern: self.pattern,
            at_once: self.at_once,
            in_burst: false,
            rest: &[],
        }
    }
}

/// What flows carried.
#[derive(Clone, PartialEq, Debug)]
pub struct Carried {
    /// Each of them, bytes/s of machine time.
    pub bytes_s: Vec<f64>,
    /// Whether other programs took the host's CPUs for so long that the machine's clock stood still during the run.
    pub is_disturbed: bool,
}

impl Emulation {
    /// Runs flows at the same time for this long on the host, longer where accesses are slow, until `stop` is set. A
    /// flow carries nothing if its node or memory does not exist, or if accesses take no time.
    ///
    /// # Errors
    /// When a thread cannot be started (EAGAIN): then none runs any more.
    pub fn run_flows(
        &self,
        flows: &[Flow],
        time: Duration,
        stop: &AtomicBool,
    ) -> io::Result<Carried> {
        let exists = |flow: &Flow| {
            let places = self.costs().map_or(0, |costs| costs.places.len());
            let has_cores = self
                .nodes()
                .get(flow.home)
                .is_some_and(|node| node.has_cores());
            has_cores && flow.place < places
        };
        if !self.is_on() || !flows.iter().all(exists) {
            return Ok(Carried {
                bytes_s: vec![0.0; flows.len()],
                is_disturbed: false,
            });
        }
        let threads: u32 = flows.iter().map(|flow| flow.threads).sum();
        self.use_up();
        let run = &Run {
            emulation: self,
            time,
            absent: AtomicU32::new(threads),
            unmeasured: AtomicU32::new(threads),
            is_given_up: AtomicBool::new(false),
            stop,
        };
        let stalled_ns = self.stalled_ns();
        let bytes_s = std::thread::scope(|scope| {
            let mut handles = Vec::new();
            for (index, flow) in flows.iter().enumerate() {
                for number in 0..flow.threads {
                    // Half of the threads begin with one kind, half with the other.
                    let body = move || run.thread(flow, number.into());
                    let thread = thread::Builder::new().spawn_scoped(scope, body);
                    let thread = thread.inspect_err(|_| run.is_given_up.store(true, Relaxed))?;
                    handles.push((index, thread));
                }
            }
            let mut bytes_s = vec![0.0; flows.len()];
            for (index, handle) in handles {
                let accesses_per_ns = handle.join().unwrap_or(0.0) * self.dilation();
                bytes_s[index] += accesses_per_ns * flows[index].bytes as f64 * 1e9;
            }
            Ok::<_, io::Error>(bytes_s)
        })?;
        Ok(Carried {
            bytes_s,
            is_disturbed: self.stalled_ns() != stalled_ns,
        })
    }
}

impl EmulationState {
    /// Removes unused past time, which is otherwise kept for threads that lag.
    fn use_up(&self) {
        let now_ns = self.now_ns();
        let free = self.memory_free_ns.iter().chain(&self.lane_free_ns);
        free.for_each(|free_ns| {
            free_ns.fetch_max(now_ns, Relaxed);
        });
    }
}

/// Flows that run at the same time.
struct Run<'a> {
    emulation: &'a Emulation,
    time: Duration,
    /// Threads that have not accessed anything yet: until 0, nothing is measured.
    absent: AtomicU32,
    /// Threads without a measured rate: until 0, all threads go on.
    unmeasured: AtomicU32,
    /// One of them cannot be measured, so all stop.
    is_given_up: AtomicBool,
    stop: &'a AtomicBool,
}

/// Makes all threads give up when one panics, because they wait for it.
struct Present<'a>(&'a AtomicBool);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Relaxed);
        }
    }
}

impl Run<'_> {
    /// One thread: accesses per ns, not dilated, measured once all other threads have started.
    fn thread(&self, flow: &Flow, number: u64) -> f64 {
        let state = self.emulation;
        let own = EmulatedThread::default();
        state.place(&own, u64::MAX / 2, 1 << flow.home);
        let _present = Present(&self.is_given_up);
        let began_ns = state.now_ns();
        let length_ns = self.time.as_nanos() as u64;
        let (mut first, mut rate) = (None, None);
        for turn in 0_u64.. {
            state.charge(&own, clock::now_ns(), flow.access(number + turn));
            // A late wake-up is caused by the host and does not count.
            let ended_ns = own.ended_ns.load(Relaxed);
            if turn == 0 {
                self.absent.fetch_sub(1, Relaxed);
            }
            // If accesses take almost no time, the clock does not advance.
            let is_enough = turn >= MAX_ACCESSES;
            match first {
                None if self.absent.load(Relaxed) == 0
                    && (is_enough || ended_ns >= began_ns + length_ns / 5) =>
                {
                    first = Some((ended_ns, turn));
                }
                Some((since_ns, begun)) if rate.is_none() => {
                    let accesses = turn - begun;
                    let is_long = is_enough || ended_ns >= since_ns + length_ns * 4 / 5;
                    // As many of each of two kinds.
                    if is_long && accesses >= MIN_ACCESSES && accesses.is_multiple_of(2) {
                        rate = Some(accesses as f64 / (ended_ns - since_ns).max(1) as f64);
                        self.unmeasured.fetch_sub(1, Relaxed);
                    }
                }
                _ => (),
            }
            let is_over = self.unmeasured.load(Relaxed) == 0;
            if is_over || self.is_given_up.load(Relaxed) || self.stop.load(Relaxed) {
                break;
            }
        }
        state.release_thread(&own);
        rate.unwrap_or(0.0)
    }
}
