//! Accesses as the page tables know them: the CPU sets a bit in the entry of each page that it accesses.
//!
//! `/proc/PID/clear_refs` clears the bits, `/proc/PID/smaps` counts those set a moment later, by mapping. Works on
//! every kernel and CPU, also in virtual machines, which have no samples of the PMU. It sees that a page was accessed,
//! not how often nor by which thread. So rates are lower bounds: each page once in that moment.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use egeria_facts::ProcessKey;
use egeria_machine::NodeId;
use egeria_proc::{living, task};

use super::sampler::{HotPages, Sample, Sampler};
use crate::NodeBytes;
use crate::kernel::calls;
use crate::kernel::present;
use crate::memory::areas::{self, Area};

/// How long processes are looked at: long enough for programs to come around, short enough to tell busy memory from
/// idle.
const MOMENT: Duration = Duration::from_millis(50);
/// If a process ran for less than one part in this number of a moment, that moment shows little of it. It is then
/// looked at for up to as many moments.
const PARTS: u32 = 4;
/// The kernel's lines are shorter.
const MAX_LINE_BYTES: u64 = 1 << 16;
/// Pages asked for at once.
const BATCH_PAGES: usize = 8192;

/// A mapping, and how much of it was accessed.
#[derive(Clone, Debug)]
struct Hot {
    area: Area,
    accessed_bytes: u64,
}

/// The mappings that were accessed in the last samples.
#[derive(Clone, Debug, Default)]
pub struct HotAreas(Arc<Mutex<HashMap<ProcessKey, Vec<Hot>>>>);

/// Asks the page tables.
#[derive(Debug)]
pub struct Referenced {
    hot: HotAreas,
    moment: Duration,
}

impl Default for Referenced {
    fn default() -> Referenced {
        Referenced {
            hot: HotAreas::default(),
            moment: MOMENT,
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

    /// Whether the kernel lets this process ask of itself.
    ///
    /// # Errors
    /// `ENOENT` without page-table accounting or NUMA support, `EACCES` in a sandbox.
    pub fn check() -> io::Result<()> {
        let own = std::process::id();
        clear(own)?;
        referenced(own)?;
        areas::of(own).map(drop)
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
        let mut all = self.hot.lock();
        for each in cleared {
            let (process, has_run) = (each.process, each.has_run(self.moment / PARTS));
            let Ok((sample, hot)) = look(process, each.since) else {
                continue;
            };
            samples.push(sample);
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

fn look(process: ProcessKey, since: Instant) -> io::Result<(Sample, Vec<Hot>)> {
    let accessed = referenced(process.process_id)?;
    let took = since.elapsed();
    let areas = areas::of(process.process_id)?;
    let mut sample = Sample {
        process,
        accessed: NodeBytes::default(),
        resident: NodeBytes::default(),
        from: Vec::new(),
        took,
    };
    let mut hot = Vec::new();
    for area in areas {
        let mut own = NodeBytes::default();
        for (node, bytes) in &area.bytes {
            own.add(*node, *bytes);
        }
        sample.resident.add_all(&own);
        let accessed_bytes = accessed.get(&area.range.start).copied().unwrap_or(0);
        let accessed_bytes = accessed_bytes.min(own.total());
        if accessed_bytes > 0 {
            sample.accessed.add_all(&own.scaled_to(accessed_bytes));
            hot.push(Hot {
                area,
                accessed_bytes,
            });
        }
    }
    // What is used most in proportion to its size first.
    hot.sort_by(|one, other| other.density().total_cmp(&one.density()));
    Ok((sample, hot))
}

/// By the begin of each mapping, how much of it was accessed, bytes.
fn referenced(process_id: u32) -> io::Result<HashMap<usize, u64>> {
    let file = File::open(living::path(process_id, "smaps"))?;
    read_smaps(BufReader::with_capacity(1 << 16, file))
}

fn read_smaps(mut lines: impl BufRead) -> io::Result<HashMap<usize, u64>> {
    let mut found = HashMap::new();
    let (mut line, mut start) = (Vec::new(), None);
    loop {
        line.clear();
        let mut limited = (&mut lines).take(MAX_LINE_BYTES);
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(found);
        }
        let text = String::from_utf8_lossy(&line);
        if let Some(range) = areas::range(&text) {
            start = Some(range.start);
        } else if let Some(count) = text.strip_prefix("Referenced:") {
            let kib = count.split_ascii_whitespace().next();
            let kib = kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
            if let Some(start) = start.filter(|_| kib > 0) {
                found.insert(start, kib.saturating_mul(1024));
            }
        }
    }
}

impl Hot {
    fn density(&self) -> f64 {
        let all = self.area.bytes.iter().map(|(_, bytes)| *bytes as f64);
        self.accessed_bytes as f64 / all.sum::<f64>().max(1.0)
    }

    fn is_on(&self, nodes: &[NodeId]) -> bool {
        let mut own = self.area.bytes.iter();
        own.any(|(node, _)| nodes.contains(node))
    }
}

impl HotAreas {
    fn lock(&self) -> MutexGuard<'_, HashMap<ProcessKey, Vec<Hot>>> {
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
        let mut found = Vec::new();
        for hot in hot.iter().filter(|hot| hot.is_on(on)) {
            if pages_on(process, &hot.area, on, max, &mut found).is_err() || found.len() >= max {
                break;
            }
        }
        found.truncate(max);
        found
    }
}

/// Adds the pages of a mapping that lie on these nodes.
fn pages_on(
    process: ProcessKey,
    area: &Area,
    on: &[NodeId],
    max: usize,
    found: &mut Vec<(usize, NodeId)>,
) -> io::Result<()> {
    let pagemap = File::open(living::path(process.process_id, "pagemap"))?;
    let mut at = area.range.start;
    while at < area.range.end && found.len() < max {
        let end = at.saturating_add(BATCH_PAGES * area.page_bytes);
        let range: Range<usize> = at..end.min(area.range.end);
        at = range.end;
        let pages = present::pages(&pagemap, range, area.page_bytes)?;
        if !task::lives(process) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let status = calls::nodes_of(process.process_id, &pages)?;
        let nodes = pages.into_iter().zip(status);
        found.extend(nodes.filter_map(|(page, status)| {
            let node = NodeId(u16::try_from(status).ok()?);
            on.contains(&node).then_some((page, node))
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accessed_bytes_are_read_by_mapping() {
        let text = "1000-3000 rw-p 00000000 00:00 0 [heap]\nSize: 8 kB\nReferenced: 4 kB\nVmFlags: rd\n\
            5000-9000 r--p 0 00:00 0\nReferenced:       0 kB\n9000-a000 r--p 0 00:00 0\nReferenced: many\n\
            Referenced: 99999999999999999999 kB\n";
        let found = read_smaps(text.as_bytes()).unwrap();
        assert_eq!(found, [(0x1000, 4096)].into());
        assert!(read_smaps(&b"Referenced: 4 kB\n"[..]).unwrap().is_empty());
    }

    #[test]
    fn used_memory_is_told_from_idle() {
        if Referenced::check().is_err() {
            eprintln!("SKIPPED: this kernel does not count accesses by page tables");
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
            eprintln!("SKIPPED: this kernel does not count accesses by page tables");
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
