//! Accesses as the page tables know them: the CPU sets a bit in the entry of each page that it accesses.
//!
//! `/proc/PID/clear_refs` clears the bits, `/proc/PID/smaps` counts those set a moment later, by mapping. Works on
//! every kernel and CPU, also in virtual machines, which have no samples of the PMU. It sees that a page was accessed,
//! not how often nor by which thread. So rates are lower bounds: each page once in that moment.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use egeria_facts::ProcessKey;
use egeria_machine::NodeId;
use egeria_proc::{living, task};

use super::mapped::{self, Mapped};
use super::region::Region;
use super::sampler::{HotPages, Sample, Sampler};
use crate::memory::areas::Area;
use crate::memory::located::{BATCH_PAGES, Located};
use crate::memory::walk::{self, Part};

/// How long processes are looked at: long enough for programs to come around, short enough to tell busy memory from
/// idle.
const MOMENT: Duration = Duration::from_millis(50);
/// If a process ran for less than one part in this number of a moment, that moment shows little of it. It is then
/// looked at for up to as many moments.
const PARTS: u32 = 4;
/// Longest that a call looks for pages: a mapping of terabytes may have few of them.
const MAX_SEARCH: Duration = Duration::from_millis(50);

/// The mappings that were accessed in the last samples.
#[derive(Clone, Debug, Default)]
pub struct HotAreas(Arc<Mutex<HashMap<ProcessKey, Vec<Part>>>>);

/// Asks the page tables.
#[derive(Debug)]
pub struct Referenced {
    hot: HotAreas,
    moment: Duration,
    known: HashMap<ProcessKey, Mapped>,
}

impl Default for Referenced {
    fn default() -> Referenced {
        Referenced {
            hot: HotAreas::default(),
            moment: MOMENT,
            known: HashMap::new(),
        }
    }
}

impl Referenced {
    /// For windows of this length: a look takes a quarter of one at most.
    pub fn in_windows_of(window: Duration) -> Referenced {
        Referenced {
            moment: MOMENT.min(window / 4 / PARTS),
            ..Referenced::default()
        }
    }

    /// Where the mappings that it finds accessed are noted.
    pub fn hot(&self) -> HotAreas {
        self.hot.clone()
    }

    /// How long it looks at a process that runs.
    pub(super) fn moment(&self) -> Duration {
        self.moment
    }

    /// Whether the kernel lets this process ask of itself.
    ///
    /// # Errors
    /// `ENOENT` without page-table accounting or NUMA support, `EACCES` in a sandbox.
    pub fn check() -> io::Result<()> {
        let own = std::process::id();
        clear(own)?;
        walk::begin(own, "smaps")?.next(1).map(drop)
    }
}

impl Sampler for Referenced {
    fn sample(&mut self, processes: &[ProcessKey]) -> Vec<Sample> {
        let begin = Instant::now();
        let clears =
            |process: &&ProcessKey| task::lives(**process) && clear(process.process_id).is_ok();
        let cleared = processes.iter().filter(clears).map(|process| Cleared {
            process: *process,
            since: Instant::now(),
            ran: task::ran(process.process_id),
        });
        let cleared: Vec<Cleared> = cleared.collect();
        for moment in 1..=PARTS {
            let over = begin + self.moment * moment;
            std::thread::sleep(over.saturating_duration_since(Instant::now()));
            if cleared.iter().all(|each| each.has_run(self.moment / PARTS)) {
                break;
            }
        }
        let mut samples = Vec::new();
        for each in cleared {
            let (process, has_run) = (each.process, each.has_run(self.moment / PARTS));
            let known = self.known.entry(process).or_default();
            let Ok(is_tracked) = known.look(process.process_id, "smaps") else {
                self.known.remove(&process);
                continue;
            };
            let hot = known.hot();
            samples.push(Sample {
                is_tracked,
                ..known.sample(process, &hot, each.since.elapsed())
            });
            let mut all = self.hot.lock();
            // What it used before says more than a moment in which it waited.
            if has_run || !all.contains_key(&process) {
                all.insert(process, hot);
            }
        }
        samples
    }

    fn looks_at_each(&self) -> bool {
        true
    }

    fn keep(&mut self, processes: &[ProcessKey]) {
        self.known.retain(|process, _| processes.contains(process));
        self.hot
            .lock()
            .retain(|process, _| processes.contains(process));
    }
}

/// A process with cleared bits.
struct Cleared {
    process: ProcessKey,
    since: Instant,
    /// For how long it had run then.
    ran: Option<Duration>,
}

impl Cleared {
    /// Whether it has run for so long since, or is gone.
    fn has_run(&self, enough: Duration) -> bool {
        let ran = task::ran(self.process.process_id).zip(self.ran);
        ran.is_none_or(|(now, before)| now.saturating_sub(before) >= enough)
    }
}

fn clear(process_id: u32) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .open(living::path(process_id, "clear_refs"))?;
    file.write_all(b"1")
}

impl HotAreas {
    /// Notes what is used of a process, the most used first.
    pub(super) fn note(&self, process: ProcessKey, hot: Vec<Part>) {
        self.lock().insert(process, hot);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProcessKey, Vec<Part>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HotPages for HotAreas {
    fn hot_pages(
        &mut self,
        process: ProcessKey,
        on: &[NodeId],
        max: usize,
    ) -> Vec<(usize, NodeId)> {
        let hot = self.lock().get(&process).cloned().unwrap_or_default();
        let is_there = |area: &Area| area.bytes.iter().any(|(node, _)| on.contains(node));
        let until = Instant::now() + MAX_SEARCH;
        let mut found = Vec::new();
        for part in hot.iter().filter(|part| is_there(&part.area)) {
            let done = pages_on(process, &part.area, (on, max, until), &mut found);
            if done.is_err() || found.len() >= max || Instant::now() >= until {
                break;
            }
        }
        found.truncate(max);
        found
    }

    fn regions(&self, process: ProcessKey) -> Vec<Region> {
        let all = self.lock();
        let hot = all.get(&process).map_or(&[][..], |hot| hot);
        hot.iter().map(mapped::region).collect()
    }
}

/// Adds the pages of a mapping that lie on these nodes, as long as there is time.
fn pages_on(
    process: ProcessKey,
    area: &Area,
    (on, max, until): (&[NodeId], usize, Instant),
    found: &mut Vec<(usize, NodeId)>,
) -> io::Result<()> {
    let located = Located::open(process)?;
    let mut at = area.range.start;
    while at < area.range.end && found.len() < max && Instant::now() < until {
        let end = at.saturating_add(BATCH_PAGES * area.page_bytes);
        let range: Range<usize> = at..end.min(area.range.end);
        at = range.end;
        let pages = located.pages(range, area.page_bytes)?;
        found.extend(pages.into_iter().filter(|(_, node)| on.contains(node)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_harness::testing::skip;

    #[test]
    fn used_memory_is_told_from_idle() {
        if Referenced::check().is_err() {
            skip("this kernel does not count accesses by page tables");
            return;
        }
        let idle = vec![1_u8; 64 << 20];
        let mut used = vec![1_u8; 16 << 20];
        let process = task::process(std::process::id()).unwrap();
        let mut sampler = Referenced::default();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let samples = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    for byte in used.iter_mut().step_by(4096) {
                        *byte = byte.wrapping_add(1);
                    }
                }
            });
            // On a busy machine it may not come around in the moment of one look.
            let mut samples = Vec::new();
            for _ in 0..200 {
                samples = sampler.sample(&[process]);
                if samples[0].accessed.total() >= 16 << 20 {
                    break;
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            samples
        });
        let sample = &samples[0];
        assert!(sample.accessed.total() >= 16 << 20, "{sample:?}");
        let idle_bytes = idle.len() as u64;
        assert!(
            sample.accessed.total() < sample.resident.total() - idle_bytes / 2,
            "{sample:?}"
        );
        let node = sample.accessed.iter().next().unwrap().0;
        let hot = sampler.hot().hot_pages(process, &[node], 100);
        assert_eq!(hot.len(), 100);
        assert!(
            sampler
                .hot()
                .hot_pages(process, &[NodeId(63)], 100)
                .is_empty()
        );
    }

    #[test]
    fn who_is_gone_is_left_out() {
        let gone = ProcessKey {
            process_id: std::process::id(),
            start_ticks: 1,
        };
        assert!(Referenced::default().sample(&[gone]).is_empty());
    }

    /// A shell that computes until it is dropped.
    struct Shell(std::process::Child);

    impl Shell {
        fn new() -> Shell {
            let mut shell = std::process::Command::new("sh");
            Shell(shell.args(["-c", "while :; do :; done"]).spawn().unwrap())
        }

        fn key(&self) -> ProcessKey {
            task::process(self.0.id()).unwrap()
        }

        fn stop(&self) {
            use rustix::process::{Pid, Signal, kill_process};
            let process = Pid::from_child(&self.0);
            kill_process(process, Signal::STOP).unwrap();
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn waiting_processes_are_looked_at_longer_and_remembered() {
        if Referenced::check().is_err() {
            skip("this kernel does not count accesses by page tables");
            return;
        }
        let (shell, mut sampler) = (Shell::new(), Referenced::default());
        let process = shell.key();
        let mut hot = sampler.hot();
        let nodes: Vec<NodeId> = (0..64).map(NodeId).collect();
        let mut used = || hot.hot_pages(process, &nodes, 1000).len();
        let before = loop {
            sampler.sample(&[process]);
            if used() > 2 {
                break used();
            }
        };
        shell.stop();
        let begin = Instant::now();
        let samples = sampler.sample(&[process]);
        assert!(begin.elapsed() >= MOMENT * PARTS, "{:?}", begin.elapsed());
        assert_eq!((samples.len(), used()), (1, before));
        sampler.keep(&[]);
        assert_eq!(used(), 0);
    }
}
