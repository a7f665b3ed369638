//! Instructions that threads execute, counted by the CPU.

use std::os::fd::OwnedFd;

use perf_event_open_sys::bindings;
use rustix::io::Errno;

use crate::error::{PerfError, Result};
use crate::event::Selection;
use crate::format::Words;
use crate::reading::{Reading, TIMES};
use crate::sampler::{Of, attributes, open_event};

/// Counters of the instructions of some threads, outside of the kernel. Threads and processes that these start later
/// are counted with them.
#[derive(Debug)]
pub struct Instructions {
    counters: Vec<(OwnedFd, Reading)>,
}

impl Instructions {
    /// Begins to count the instructions of these threads; those that are gone have none. Each needs an open file.
    ///
    /// # Errors
    /// When no PMU counts them, the threads are those of another user, or there are too many of them.
    pub fn begin(threads: &[u32]) -> Result<Instructions> {
        let words = Words {
            config: u64::from(bindings::PERF_COUNT_HW_INSTRUCTIONS),
            ..Words::default()
        };
        let pmu = bindings::PERF_TYPE_HARDWARE;
        Instructions::begin_with(Selection { pmu, words }, threads)
    }

    /// Whether the instructions of this thread can be counted.
    ///
    /// # Errors
    /// As [`Instructions::begin`].
    pub fn check() -> Result<()> {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        Instructions::begin(&[own]).map(drop)
    }

    fn begin_with(selection: Selection, threads: &[u32]) -> Result<Instructions> {
        let mut counters = Vec::new();
        for &thread in threads {
            let mut attributes = attributes(selection);
            attributes.read_format = TIMES;
            // Users without rights may count outside of the kernel only.
            attributes.set_exclude_kernel(1);
            attributes.set_exclude_hv(1);
            attributes.set_inherit(1);
            let counter = match open_event(&mut attributes, Of::Thread(thread), None) {
                Ok(counter) => counter,
                Err(Errno::SRCH) => continue,
                Err(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => {
                    return Err(PerfError::NoInstructions);
                }
                Err(errno) => return Err(PerfError::of_open("instructions", 1, errno)),
            };
            let first = Reading::of(&counter).unwrap_or_default();
            counters.push((counter, first));
        }
        Ok(Instructions { counters })
    }

    /// How many were executed since the last call, or since the begin.
    pub fn take(&mut self) -> f64 {
        let each = self.counters.iter_mut().filter_map(|(counter, last)| {
            let now = Reading::of(counter)?;
            Some(now.since(std::mem::replace(last, now)))
        });
        each.sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// With an event of software in the place of the hardware's: the time that a thread ran, in ns.
    #[test]
    fn counts_are_those_of_the_named_threads_only() {
        let clock = Selection {
            pmu: bindings::PERF_TYPE_SOFTWARE,
            words: Words {
                config: u64::from(bindings::PERF_COUNT_SW_TASK_CLOCK),
                ..Words::default()
            },
        };
        std::thread::scope(|scope| {
            let (tell, told) = channel();
            let (stop, stopped) = channel::<()>();
            scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_pid() as u32)
                    .unwrap();
                while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                    std::hint::spin_loop();
                }
            });
            let busy = told.recv().unwrap();
            let counted = |thread: u32| {
                let mut counters = Instructions::begin_with(clock, &[thread])?;
                std::thread::sleep(std::time::Duration::from_millis(200));
                Ok::<f64, PerfError>(counters.take())
            };
            let own = rustix::thread::gettid().as_raw_pid() as u32;
            match (counted(busy), counted(own)) {
                (Ok(busy_ns), Ok(idle_ns)) => {
                    assert!(
                        busy_ns > 10e6 && idle_ns < busy_ns / 4.0,
                        "{busy_ns}, {idle_ns}"
                    );
                }
                (Err(error), _) | (_, Err(error)) => {
                    assert!(error.is_of_rights(), "{error}");
                    egeria_harness::testing::skip(error);
                }
            }
            drop(stop);
        });
        let none = Instructions::begin_with(clock, &[u32::MAX >> 1]).unwrap();
        assert!(none.counters.is_empty());
    }

    #[test]
    fn instructions_are_counted_or_it_is_said_why_not() {
        let own = rustix::thread::gettid().as_raw_pid() as u32;
        match Instructions::begin(&[own]) {
            Ok(mut counters) => {
                let sum: u64 = (0..100_000_u64).map(std::hint::black_box).sum();
                assert!(sum > 0 && counters.take() > 1e5);
            }
            Err(error @ PerfError::NoInstructions) => {
                let line = error.to_string();
                assert!(line.contains("virtual machines"), "{line}");
            }
            Err(error) => assert!(error.is_of_rights(), "{error}"),
        }
    }
}
