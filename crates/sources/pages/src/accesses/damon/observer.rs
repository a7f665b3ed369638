//! Has the kernel observe processes, on a thread of its own: a command to DAMON takes as long as the kernel sums up.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use egeria_facts::ProcessKey;
use egeria_proc::task::{self, CpuClock};

use super::super::sampler::Spent;
use super::kernel::{Kernel, number};
use super::setup::{Change, Holder, Setup, is_running};
use super::unusable::Unusable;
use super::used::{self, Used};
use crate::cpu_time;

/// Time between two samples: at the begin, and what it may become by the budget.
const FIRST_US: u64 = 20_000;
const MIN_US: u64 = 10_000;
const MAX_US: u64 = 100_000;
/// Part of a core that the kernel's thread may take, and that asking it may take.
const KERNEL_SHARE: f64 = 0.0045;
const ASKING_SHARE: f64 = 0.002;
/// Between two looks at what the kernel saw, at least and at most.
const MIN_REST: Duration = Duration::from_millis(500);
const MAX_REST: Duration = Duration::from_secs(30);
/// How long the same processes are observed at least: regions have to be learned again after that.
const MIN_OBSERVED: Duration = Duration::from_secs(10);
/// So often the interval is compared with the budget.
const ADJUSTED: Duration = Duration::from_secs(10);
/// Attempts to begin that fail one after the other.
const MAX_FAILURES: u32 = 3;

/// Writes a line of the journal.
pub type Notes = Arc<dyn Fn(&Change) -> io::Result<()> + Send + Sync>;

/// What the kernel saw of each process.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) used: HashMap<ProcessKey, Vec<Used>>,
    pub(super) sample: Duration,
}

#[derive(Default)]
struct Shared {
    wanted: Vec<ProcessKey>,
    seen: Option<Arc<Seen>>,
    /// CPU time that was not asked for yet.
    spent: Spent,
    /// Why nothing is observed any more.
    lost: Option<Unusable>,
    is_over: bool,
}

/// A thread that observes. It ends with this, and takes the set-up with it.
pub(super) struct Observer {
    shared: Arc<(Mutex<Shared>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Observer {
    /// Sets DAMON up. Nothing is observed yet.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn begin(kernel: Arc<dyn Kernel>, notes: Notes) -> Result<Observer, Unusable> {
        let setup = Setup {
            mark: std::process::id(),
        };
        let failed = |error: io::Error| Unusable::Failed(error.to_string());
        super::kernel::free(&*kernel)?;
        notes(&Change::Made { mark: setup.mark }).map_err(failed)?;
        if let Err(why) = setup.make(&*kernel) {
            let _ = notes(&Change::Over);
            return Err(why);
        }
        let shared = Arc::new((Mutex::new(Shared::default()), Condvar::new()));
        let work = Work {
            kernel: Arc::clone(&kernel),
            setup,
            notes,
            shared: Arc::clone(&shared),
            observed: None,
            failures: 0,
        };
        let thread = std::thread::Builder::new()
            .name("egeria-damon".to_owned())
            .spawn(move || work.run());
        match thread {
            Ok(thread) => Ok(Observer {
                shared,
                thread: Some(thread),
            }),
            Err(error) => {
                let _ = setup.remove(&*kernel);
                Err(failed(error))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared.0)
    }

    /// The processes to observe from now on, as soon as that may change.
    pub(super) fn want(&self, processes: Vec<ProcessKey>) {
        self.lock().wanted = processes;
        self.shared.1.notify_all();
    }

    /// What was seen last.
    pub(super) fn seen(&self) -> Option<Arc<Seen>> {
        self.lock().seen.clone()
    }

    /// CPU time that was spent since the last call.
    pub(super) fn take_spent(&self) -> Spent {
        std::mem::take(&mut self.lock().spent)
    }

    /// Why nothing is observed any more; `None` as long as it is.
    pub(super) fn lost(&self) -> Option<Unusable> {
        self.lock().lost.clone()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.lock().is_over = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What runs.
struct Observed {
    targets: Vec<ProcessKey>,
    since: Instant,
    sample_us: u64,
    clock: Option<KernelClock>,
    /// When the interval was compared with the budget, and what the kernel's thread had taken then.
    adjusted: (Instant, Duration),
}

struct Work {
    kernel: Arc<dyn Kernel>,
    setup: Setup,
    notes: Notes,
    shared: Arc<(Mutex<Shared>, Condvar)>,
    observed: Option<Observed>,
    failures: u32,
}

impl Work {
    fn run(mut self) {
        let mut rest = Duration::ZERO;
        let mut before = cpu_time::of_thread();
        while let Some(wanted) = self.wait(rest) {
            let found = self.step(&wanted);
            let now = cpu_time::of_thread();
            let asked = now.saturating_sub(before);
            before = now;
            rest = asked.div_f64(ASKING_SHARE).clamp(MIN_REST, MAX_REST);
            let observed = self.observed.as_mut();
            let clock = observed.and_then(|observed| observed.clock.as_mut());
            let kernel = clock.map_or(Duration::ZERO, KernelClock::since_last);
            let mut shared = lock(&self.shared.0);
            shared.spent.own += asked;
            shared.spent.kernel += kernel;
            match found {
                Ok(None) => {}
                Ok(Some(seen)) => shared.seen = Some(Arc::new(seen)),
                Err(why) => {
                    shared.lost = Some(why);
                    shared.seen = None;
                    break;
                }
            }
        }
        if let Err(error) = self.setup.remove(&*self.kernel) {
            tracing::warn!(
                "DAMON's set-up stays ({error}): echo off >/sys/kernel/mm/damon/admin/kdamonds/0/state"
            );
        } else {
            let _ = (self.notes)(&Change::Over);
        }
    }

    /// The processes that are wanted after a rest; `None` at the end.
    fn wait(&self, rest: Duration) -> Option<Vec<ProcessKey>> {
        let until = Instant::now() + rest;
        let mut shared = lock(&self.shared.0);
        loop {
            if shared.is_over {
                return None;
            }
            let left = until.saturating_duration_since(Instant::now());
            let has_work = self.observed.is_some() || !shared.wanted.is_empty();
            if left.is_zero() && has_work {
                return Some(shared.wanted.clone());
            }
            let left = if has_work { left } else { MAX_REST };
            let waited = self.shared.1.wait_timeout(shared, left);
            shared = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Observes what is wanted, and asks what was seen.
    fn step(&mut self, wanted: &[ProcessKey]) -> Result<Option<Seen>, Unusable> {
        let failed = |error: io::Error| match error.kind() {
            // Another has fewer directories now.
            io::ErrorKind::NotFound => Unusable::Taken,
            _ => Unusable::of(&error),
        };
        if self.setup.holder(&*self.kernel).map_err(failed)? != Holder::Own {
            return Err(Unusable::Taken);
        }
        // It ends by itself with the last of its processes.
        if self.observed.is_some() && !is_running(&*self.kernel).map_err(failed)? {
            self.observed = None;
        }
        let wanted: Vec<ProcessKey> = wanted
            .iter()
            .copied()
            .filter(|key| task::lives(*key))
            .collect();
        let is_due = match &self.observed {
            None => !wanted.is_empty(),
            Some(observed) => {
                let is_new = |key: &ProcessKey| !observed.targets.contains(key);
                observed.since.elapsed() >= MIN_OBSERVED && wanted.iter().any(is_new)
            }
        };
        if is_due {
            return self.start(wanted).map(|()| None);
        }
        let Some(observed) = &mut self.observed else {
            return Ok(None);
        };
        match ask(&*self.kernel, observed) {
            Ok(seen) => {
                self.failures = 0;
                observed.adjust(&*self.kernel, self.setup);
                Ok(Some(seen))
            }
            Err(error) => {
                // Its processes may have ended just now, which the next step finds out.
                self.failed(&error).map(|()| None)
            }
        }
    }

    fn start(&mut self, targets: Vec<ProcessKey>) -> Result<(), Unusable> {
        let sample_us = self
            .observed
            .as_ref()
            .map_or(FIRST_US, |last| last.sample_us);
        self.observed = None;
        let numbers: Vec<u32> = targets.iter().map(|key| key.process_id).collect();
        if let Err(error) = self.setup.observe(&*self.kernel, &numbers, sample_us) {
            return self.failed(&error);
        }
        let mut clock = KernelClock::of(&*self.kernel);
        let ran = clock.as_mut().map_or(Duration::ZERO, KernelClock::ran);
        let now = Instant::now();
        tracing::debug!(processes = ?numbers, sample_us, "DAMON observes");
        self.observed = Some(Observed {
            targets,
            since: now,
            sample_us,
            clock,
            adjusted: (now, ran),
        });
        Ok(())
    }

    /// Goes on after a failure, but not for ever.
    fn failed(&mut self, error: &io::Error) -> Result<(), Unusable> {
        tracing::debug!("DAMON: {error}");
        self.failures += 1;
        if self.failures < MAX_FAILURES && error.kind() != io::ErrorKind::PermissionDenied {
            return Ok(());
        }
        Err(Unusable::of(error))
    }
}

/// What was seen of all targets that are still there.
fn ask(kernel: &dyn Kernel, observed: &Observed) -> io::Result<Seen> {
    used::update(kernel)?;
    let targets = observed.targets.iter().enumerate();
    let living = targets.filter(|(_, key)| task::lives(**key));
    let used = living.map(|(index, key)| Ok((*key, used::of_target(kernel, index)?)));
    Ok(Seen {
        at: Instant::now(),
        used: used.collect::<io::Result<_>>()?,
        sample: Duration::from_micros(observed.sample_us),
    })
}

impl Observed {
    /// Keeps the kernel's thread within its budget.
    fn adjust(&mut self, kernel: &dyn Kernel, setup: Setup) {
        let (since, before) = self.adjusted;
        let passed = since.elapsed();
        if passed < ADJUSTED {
            return;
        }
        let ran = self.clock.as_mut().map(KernelClock::ran);
        let took = ran.map(|ran| ran.saturating_sub(before));
        self.adjusted = (Instant::now(), ran.unwrap_or_default());
        let sample_us = interval(self.sample_us, took, passed);
        if sample_us == self.sample_us {
            return;
        }
        // If the kernel does not take it, it ends, and begins again with the old one.
        if setup.set_interval(kernel, sample_us).is_ok() {
            self.sample_us = sample_us;
        }
    }
}

/// The time between samples by what the kernel's thread took; the longest if that is not known.
fn interval(sample_us: u64, took: Option<Duration>, passed: Duration) -> u64 {
    let Some(took) = took else {
        return MAX_US;
    };
    let used = took.as_secs_f64() / passed.as_secs_f64().max(1e-3) / KERNEL_SHARE;
    // Within these it stays: each change makes the kernel begin its sums again.
    if (0.4..=1.2).contains(&used) {
        return sample_us;
    }
    ((sample_us as f64 * used) as u64).clamp(MIN_US, MAX_US)
}

/// CPU time of the kernel's thread.
struct KernelClock {
    clock: CpuClock,
    last: Duration,
}

impl KernelClock {
    /// `None` if it cannot be seen: in a container it has another number.
    fn of(kernel: &dyn Kernel) -> Option<KernelClock> {
        let number = u32::try_from(number(kernel, "0/pid").ok()?).ok()?;
        let is_it =
            task::is_of_kernel(number)? && task::name(number, number).starts_with("kdamond");
        let clock = CpuClock::open(number, number).ok().filter(|_| is_it)?;
        let mut clock = KernelClock {
            clock,
            last: Duration::ZERO,
        };
        clock.last = clock.ran();
        Some(clock)
    }

    fn ran(&mut self) -> Duration {
        let ran = self.clock.read_ns().map(Duration::from_nanos);
        ran.unwrap_or(self.last)
    }

    fn since_last(&mut self) -> Duration {
        let now = self.ran();
        let since = now.saturating_sub(self.last);
        self.last = now;
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_follows_the_budget() {
        let after = |took_ms, sample_us| {
            let took = Some(Duration::from_millis(took_ms));
            interval(sample_us, took, Duration::from_secs(10))
        };
        assert_eq!((after(45, 20_000), after(20, 20_000)), (20_000, 20_000));
        assert_eq!((after(90, 20_000), after(900, 20_000)), (40_000, MAX_US));
        assert_eq!((after(9, 60_000), after(0, 60_000)), (12_000, MIN_US));
        let unknown = interval(20_000, None, Duration::from_secs(10));
        assert_eq!(unknown, MAX_US);
    }
}
