//! What processes get done per second, where the CPU counts it: instructions outside of the kernel.

use std::collections::HashMap;
use std::time::Instant;

use egeria_facts::ProcessKey;
use egeria_perf::{Instructions, PerfError};
use egeria_proc::task;

/// Most threads that are counted in all: each needs an open file, and a read in each window.
const MAX_THREADS: usize = 1024;

/// Returns what was counted since the last call.
type Counter = Box<dyn FnMut() -> f64 + Send>;
/// Begins to count these threads, and those that they start.
type Begin = Box<dyn FnMut(&[u32]) -> Result<Counter, PerfError> + Send>;

/// A process that is counted.
struct Counted {
    count: Counter,
    threads: usize,
    since: Instant,
}

/// Counts processes from window to window.
pub(super) struct Work {
    begin: Begin,
    /// `None`: it cannot be counted.
    by_process: HashMap<ProcessKey, Option<Counted>>,
    /// Nothing counts here.
    is_absent: bool,
}

impl Work {
    /// Counts instructions.
    pub(super) fn of_instructions() -> Work {
        Work::of(Box::new(|threads| {
            let mut counters = Instructions::begin(threads)?;
            Ok(Box::new(move || counters.take()))
        }))
    }

    fn of(begin: Begin) -> Work {
        Work {
            begin,
            by_process: HashMap::new(),
            is_absent: false,
        }
    }

    /// Work per second since the last call, of the processes that were counted then; those before others that matter
    /// more. Others begin to be counted.
    pub(super) fn rates(&mut self, processes: &[ProcessKey]) -> HashMap<ProcessKey, f64> {
        self.by_process
            .retain(|process, _| processes.contains(process));
        let now = Instant::now();
        let mut rates = HashMap::new();
        for (process, counted) in &mut self.by_process {
            let Some(counted) = counted else { continue };
            let elapsed_s = now.duration_since(counted.since).as_secs_f64();
            let count = (counted.count)();
            counted.since = now;
            if elapsed_s > 0.0 {
                rates.insert(*process, count / elapsed_s);
            }
        }
        for process in processes {
            if self.is_absent {
                break;
            }
            if !self.by_process.contains_key(process) {
                let counted = self.counted(*process);
                self.by_process.insert(*process, counted);
            }
        }
        rates
    }

    fn counted(&mut self, process: ProcessKey) -> Option<Counted> {
        let threads = task::threads(process.process_id);
        let others = self.by_process.values().flatten();
        let others: usize = others.map(|counted| counted.threads).sum();
        if threads.is_empty() || others + threads.len() > MAX_THREADS {
            return None;
        }
        match (self.begin)(&threads) {
            Ok(count) => Some(Counted {
                count,
                threads: threads.len(),
                since: Instant::now(),
            }),
            Err(error) => {
                self.is_absent = matches!(error, PerfError::NoInstructions);
                tracing::debug!(process = process.process_id, "work is not counted: {error}");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    fn own() -> ProcessKey {
        task::process(std::process::id()).unwrap()
    }

    fn other() -> ProcessKey {
        task::process(task::parent(std::process::id()).unwrap()).unwrap()
    }

    /// Counts a million in each window; notes the threads that it was begun with.
    fn counting(begun: &Arc<Mutex<Vec<Vec<u32>>>>) -> Work {
        let begun = Arc::clone(begun);
        Work::of(Box::new(move |threads| {
            begun.lock().unwrap().push(threads.to_vec());
            Ok(Box::new(|| 1e6))
        }))
    }

    #[test]
    fn a_process_is_counted_from_the_second_window_on() {
        let begun = Arc::default();
        let mut work = counting(&begun);
        assert_eq!(work.rates(&[own()]), HashMap::new());
        let before = Instant::now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let rates = work.rates(&[own(), other()]);
        let least = 1e6 / (before.elapsed().as_secs_f64() + 1.0);
        assert!(rates.len() == 1 && rates[&own()] > least && rates[&own()] < 1e6 / 0.02);
        let begun = begun.lock().unwrap();
        let [threads, _] = &begun[..] else {
            panic!("{begun:?}");
        };
        assert!(threads.contains(&(rustix::thread::gettid().as_raw_pid() as u32)));
    }

    #[test]
    fn a_process_that_is_away_is_counted_from_new() {
        let begun = Arc::default();
        let mut work = counting(&begun);
        for processes in [&[own()][..], &[], &[own()]] {
            assert_eq!(work.rates(processes), HashMap::new());
        }
        assert_eq!(begun.lock().unwrap().len(), 2);
    }

    #[test]
    fn where_nothing_counts_it_is_tried_once() {
        for (absent, wanted) in [(true, 1), (false, 2)] {
            let tried = Arc::new(AtomicUsize::new(0));
            let also = Arc::clone(&tried);
            let mut work = Work::of(Box::new(move |_| {
                also.fetch_add(1, Ordering::Relaxed);
                Err(if absent {
                    PerfError::NoInstructions
                } else {
                    PerfError::NotAllowed("2".to_owned())
                })
            }));
            for _ in 0..3 {
                assert_eq!(work.rates(&[own(), other()]), HashMap::new());
            }
            assert_eq!(tried.load(Ordering::Relaxed), wanted);
        }
    }

    #[test]
    fn no_more_threads_are_counted_than_allowed() {
        let begun = Arc::default();
        let mut work = counting(&begun);
        work.rates(&[own()]);
        if let Some(Some(counted)) = work.by_process.get_mut(&own()) {
            counted.threads = MAX_THREADS;
        }
        work.rates(&[own(), other()]);
        assert_eq!(begun.lock().unwrap().len(), 1);
        assert!(work.by_process[&other()].is_none());
    }
}
