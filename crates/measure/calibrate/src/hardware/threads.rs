//! Threads that stand on one CPU each and begin together.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use egeria_machine::{CpuId, MAX_CPUS};

use crate::CalibrateError;

/// What threads that are ready wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Wait,
    Begin,
    /// Not all could be started: go home.
    GiveUp,
}

/// Where threads meet before they begin.
struct Gate {
    state: Mutex<(usize, Word)>,
    changed: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, (usize, Word)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that one more is ready; whether to begin.
    fn is_begun_when_ready(&self) -> bool {
        let mut state = self.lock();
        state.0 += 1;
        self.changed.notify_all();
        while state.1 == Word::Wait {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.1 == Word::Begin
    }

    fn begin_when_ready(&self, count: usize) {
        let mut state = self.lock();
        while state.0 < count {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.1 = Word::Begin;
        self.changed.notify_all();
    }

    fn give_up(&self) {
        self.lock().1 = Word::GiveUp;
        self.changed.notify_all();
    }
}

/// Runs each job on its CPU, all from the same moment on; what they say, in order.
pub(crate) fn together<T: Send>(
    jobs: Vec<(CpuId, impl FnOnce() -> T + Send)>,
) -> Result<Vec<T>, CalibrateError> {
    let gate = Gate {
        state: Mutex::new((0, Word::Wait)),
        changed: Condvar::new(),
    };
    let (gate, count) = (&gate, jobs.len());
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(count);
        for (cpu, job) in jobs {
            let body = move || {
                let stood = stand_on(cpu);
                let is_begun = gate.is_begun_when_ready();
                stood.map_err(|cause| fault(cpu, cause))?;
                Ok(is_begun.then(job))
            };
            match thread::Builder::new().spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(cause) => {
                    gate.give_up();
                    return Err(fault(cpu, cause));
                }
            }
        }
        gate.begin_when_ready(count);
        let ends = threads.into_iter().map(|thread| match thread.join() {
            Ok(said) => said,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ends.map(|said| said.map(|said| said.into_iter()))
            .collect::<Result<Vec<_>, _>>()
            .map(|said| said.into_iter().flatten().collect())
    })
}

fn fault(cpu: CpuId, cause: io::Error) -> CalibrateError {
    CalibrateError::Thread { cpu: cpu.0, cause }
}

fn stand_on(cpu: CpuId) -> io::Result<()> {
    let mut mask = [0_u64; MAX_CPUS / 64];
    let word = mask.get_mut(usize::from(cpu.0) / 64);
    *word.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))? |= 1 << (cpu.0 % 64);
    // SAFETY: the kernel reads the given bytes.
    let status = unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The CPUs that this process may use.
pub(crate) fn allowed_cpus() -> io::Result<Vec<CpuId>> {
    let mut mask = [0_u64; MAX_CPUS / 64];
    // SAFETY: the kernel writes at most the given bytes.
    let status =
        unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    let is_set = |cpu: &u16| mask[usize::from(*cpu) / 64] >> (cpu % 64) & 1 == 1;
    Ok((0..MAX_CPUS as u16).filter(is_set).map(CpuId).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn here() -> CpuId {
        *allowed_cpus().unwrap().first().unwrap()
    }

    #[test]
    fn every_job_runs_on_its_cpu_and_answers_in_order() {
        let cpus = allowed_cpus().unwrap();
        let job = |index: usize| move || (index, allowed_cpus().unwrap());
        let jobs = (0..8).map(|index| (cpus[index % cpus.len()], job(index)));
        let said = together(jobs.collect()).unwrap();
        for (index, (said, stood)) in said.into_iter().enumerate() {
            assert_eq!((said, stood), (index, vec![cpus[index % cpus.len()]]));
        }
    }

    /// One of two is there, and waits.
    #[test]
    fn the_gate_opens_for_all_only() {
        let gate = Gate {
            state: Mutex::new((0, Word::Wait)),
            changed: Condvar::new(),
        };
        thread::scope(|scope| {
            let opener = scope.spawn(|| gate.begin_when_ready(2));
            let first = scope.spawn(|| gate.is_begun_when_ready());
            while gate.lock().0 == 0 {
                thread::yield_now();
            }
            for _ in 0..1000 {
                assert!(gate.lock().1 == Word::Wait);
                thread::yield_now();
            }
            assert!(gate.is_begun_when_ready() && first.join().unwrap());
            opener.join().unwrap();
        });
    }

    #[test]
    fn nobody_begins_before_all_are_there() {
        let started = AtomicUsize::new(0);
        // Each waits for all others inside its job: that ends only when all run at once.
        let job = || {
            started.fetch_add(1, Ordering::SeqCst);
            while started.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
        };
        together((0..3).map(|_| (here(), job)).collect()).unwrap();
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error_and_nobody_hangs() {
        for cpu in [CpuId(MAX_CPUS as u16 - 1), CpuId(u16::MAX)] {
            let jobs = [here(), cpu].map(|cpu| (cpu, || ()));
            let error = together(jobs.into()).unwrap_err().to_string();
            assert!(error.contains(&format!("CPU {}", cpu.0)), "{error}");
        }
    }
}
