//! Moves the memory of a process to other nodes: all of it, by several workers, or single pages.
//!
//! The mappings are cut into pieces of a number of pages, and each worker takes the next piece. It finds its pages,
//! moves those that are elsewhere, and asks afterwards where each one is. The process continues during this; a thread
//! that touches a page being copied waits for that page. Pages that other processes have mapped too, pinned pages, and
//! pages bound by their owner are left, and counted.

mod kernel;
mod outcome;
mod piece;
mod target;

use std::fs::File;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use egeria_machine::{CpuId, Machine, NodeId};
use egeria_proc::{living, task};

use crate::cpu_time;
use crate::kernel::calls;
use crate::kernel::present;
use crate::memory::areas::{self, Area};
use kernel::Process;
pub use outcome::Outcome;
use outcome::Purse;
use piece::Piece;
pub use target::Target;

/// Pages that a worker takes at once, by default: 32 MiB.
pub const PIECE_PAGES: usize = 8192;
/// Workers, by default: more hardly help, as they wait for the same locks of the kernel.
const WORKERS_OF_NODE: usize = 4;
const MAX_WORKERS: usize = 64;
const SMALL_PAGE: usize = 4096;
/// Size of huge pages that the kernel makes of small ones.
const HUGE_BYTES: usize = 2 << 20;

/// What is to be moved, where to, and how much at most.
#[derive(Clone, Debug)]
pub struct Order {
    /// The process whose memory it is.
    pub process_id: u32,
    /// When it began, to distinguish it from a later process with the same id.
    pub start_ticks: u64,
    /// The nodes that get the memory.
    pub target: Target,
    /// The node where all pages of the target were a moment ago; `None`: it is asked.
    pub from: Option<NodeId>,
    /// Move pages that other processes have mapped, too.
    pub also_shared: bool,
    /// The same for the mappings that begin at these addresses only.
    pub also_shared_in: Vec<usize>,
    /// Most bytes to move.
    pub max_bytes: u64,
    /// No piece is begun after this time.
    pub max_time: Duration,
    /// Pages a worker takes at once.
    pub piece_pages: usize,
    /// Workers; `None`: as many as the nodes that have pages or get them have CPUs, up to four for each.
    pub workers: Option<usize>,
}

impl Order {
    /// An order for all memory of a process, without a time limit.
    pub fn of(process_id: u32, start_ticks: u64, target: Target) -> Order {
        Order {
            process_id,
            start_ticks,
            target,
            from: None,
            also_shared: false,
            also_shared_in: Vec::new(),
            max_bytes: u64::MAX,
            max_time: Duration::MAX,
            piece_pages: PIECE_PAGES,
            workers: None,
        }
    }
}

impl Order {
    /// Whether pages of a mapping move that other processes have mapped, too.
    fn moves_shared(&self, area: &Area) -> bool {
        self.also_shared || self.also_shared_in.contains(&area.range.start)
    }
}

/// How far it is, and whether it should stop; for threads that monitor it.
#[derive(Default)]
pub struct Progress {
    /// Bytes of address space done.
    pub done_bytes: AtomicU64,
    /// The total of `done_bytes`.
    pub all_bytes: AtomicU64,
    /// Set to end it soon.
    pub stop: AtomicBool,
}

/// The result of a migration.
#[derive(Clone, Debug)]
pub struct Migration {
    /// The results of single pages.
    pub outcome: Outcome,
    /// The number of workers.
    pub workers: usize,
    /// Duration, without finding the mappings.
    pub took: Duration,
    /// CPU time of the worker that had most: what the process was hindered for, however busy the CPUs are.
    pub worked: Duration,
    /// The process ended during the migration.
    pub is_ended: bool,
    /// The time limit or a stop ended it early: not all pages were looked at.
    pub is_cut: bool,
}

/// Pages of a mapping that a worker takes at once.
struct Part<'a> {
    area: &'a Area,
    start: usize,
    pages: usize,
}

/// Moves memory, then looks at every page. If it is stopped, finished moves stay.
///
/// # Errors
/// `ENOENT` without NUMA support, `ESRCH` when the process is gone at the beginning, `EACCES` or `EPERM` when it is
/// another user's, `EACCES`, `EINVAL` or `ENODEV` when it may not have memory of a node.
pub fn run(order: &Order, machine: &Machine, progress: &Progress) -> io::Result<Migration> {
    run_in(&areas::of(order.process_id)?, order, machine, progress)
}

/// As [`run`], in these mappings of the process only.
///
/// # Errors
/// As for [`run`].
pub fn run_in(
    areas: &[Area],
    order: &Order,
    machine: &Machine,
    progress: &Progress,
) -> io::Result<Migration> {
    let pagemap = File::open(living::path(order.process_id, "pagemap"))?;
    let process = Process {
        id: order.process_id,
        start_ticks: order.start_ticks,
    };
    let parts = parts(areas, &order.target, order.piece_pages);
    let bytes = parts.iter().map(|part| part.pages * part.area.page_bytes);
    let all_bytes = bytes.fold(0_u64, |sum, bytes| sum.saturating_add(bytes as u64));
    progress.all_bytes.store(all_bytes, Ordering::Relaxed);
    let queue = Queue {
        order,
        parts: &parts,
        pagemap: &pagemap,
        process,
        purse: Purse::of(order.max_bytes),
        next: AtomicUsize::new(0),
        begin: Instant::now(),
        progress,
        is_ended: AtomicBool::new(false),
        is_cut: AtomicBool::new(false),
        worked_ns: AtomicU64::new(0),
    };
    let workers = workers(order, machine, areas, parts.len());
    let outcome = queue.run(&workers)?;
    Ok(Migration {
        outcome,
        workers: workers.len(),
        took: queue.begin.elapsed(),
        worked: Duration::from_nanos(queue.worked_ns.into_inner()),
        is_ended: queue.is_ended.into_inner(),
        is_cut: queue.is_cut.into_inner(),
    })
}

/// Moves the memory by one call of `migrate_pages`, for comparison. Returns how many pages it left.
///
/// # Errors
/// When the kernel refuses.
pub fn by_system_call(process_id: u32, from: NodeId, to: NodeId) -> io::Result<u64> {
    calls::migrate(process_id, from, to)
}

/// The mappings in pieces, huge pages undivided. For single pages, only mappings that contain some of them.
fn parts<'a>(areas: &'a [Area], target: &Target, piece_pages: usize) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    for area in areas {
        let range = match target {
            Target::Pages(pages) => {
                let mut inside = pages.range(area.range.clone()).map(|(page, _)| *page);
                let first = inside.next();
                let last = inside.next_back().or(first);
                match first.zip(last) {
                    Some((first, last)) => {
                        let end = last.saturating_add(area.page_bytes);
                        area.range.start.max(first)..area.range.end.min(end)
                    }
                    None => continue,
                }
            }
            _ => area.range.clone(),
        };
        let mut start = range.start / area.page_bytes * area.page_bytes;
        // No huge page is cut, neither of a hugetlbfs mapping nor of the kernel's own making.
        let whole_bytes = area.page_bytes.max(HUGE_BYTES);
        let piece_bytes =
            (piece_pages.clamp(1, 1 << 20) * SMALL_PAGE).next_multiple_of(whole_bytes);
        while start < range.end {
            let end = (start / piece_bytes + 1)
                .saturating_mul(piece_bytes)
                .min(range.end);
            parts.push(Part {
                area,
                start,
                pages: (end - start).div_ceil(area.page_bytes),
            });
            start = end;
        }
    }
    parts
}

/// The CPUs of each worker: of the nodes that get pages and those that have them, in turn.
fn workers(order: &Order, machine: &Machine, areas: &[Area], parts: usize) -> Vec<Vec<CpuId>> {
    let mut nodes = order.target.nodes();
    let holders = areas.iter().flat_map(|area| &area.bytes);
    for (node, _) in holders {
        if !nodes.contains(node) {
            nodes.push(*node);
        }
    }
    let cpus_of = |node: &NodeId| machine.node(*node).map_or(&[][..], |node| &node.cpus);
    let mut with_cpus: Vec<&[CpuId]> = nodes.iter().map(cpus_of).collect();
    with_cpus.retain(|cpus| !cpus.is_empty());
    let own = with_cpus.iter().map(|cpus| cpus.len().min(WORKERS_OF_NODE));
    let count = order.workers.unwrap_or(own.sum());
    let count = count.min(parts).clamp(1, MAX_WORKERS);
    let turn = with_cpus.iter().map(|cpus| cpus.to_vec()).cycle();
    let workers: Vec<Vec<CpuId>> = turn.take(count).collect();
    if workers.is_empty() {
        vec![Vec::new()]
    } else {
        workers
    }
}

/// The parts of a migration, which its workers take in turn.
struct Queue<'a> {
    order: &'a Order,
    parts: &'a [Part<'a>],
    pagemap: &'a File,
    process: Process,
    purse: Purse,
    next: AtomicUsize,
    begin: Instant,
    progress: &'a Progress,
    is_ended: AtomicBool,
    is_cut: AtomicBool,
    /// CPU time of the worker that had most.
    worked_ns: AtomicU64,
}

impl Queue<'_> {
    fn run(&self, workers: &[Vec<CpuId>]) -> io::Result<Outcome> {
        let sum = Mutex::new(Ok(Outcome::default()));
        std::thread::scope(|scope| {
            for cpus in workers {
                scope.spawn(|| {
                    settle(cpus);
                    let done = self.work();
                    let worked_ns = cpu_time::of_thread().as_nanos();
                    let worked_ns = u64::try_from(worked_ns).unwrap_or(u64::MAX);
                    self.worked_ns.fetch_max(worked_ns, Ordering::Relaxed);
                    let mut sum = sum
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner);
                    match (&mut *sum, done) {
                        (Ok(sum), Ok(done)) => sum.add(&done),
                        (Ok(_), Err(error)) => *sum = Err(error),
                        (Err(_), _) => (),
                    }
                });
            }
        });
        sum.into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes pieces until there are no more.
    fn work(&self) -> io::Result<Outcome> {
        let mut outcome = Outcome::default();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = self.parts.get(number) else {
                return Ok(outcome);
            };
            let is_late = self.begin.elapsed() >= self.order.max_time;
            if is_late || self.progress.stop.load(Ordering::Relaxed) {
                self.is_cut.store(true, Ordering::Relaxed);
                return Ok(outcome);
            }
            match self.bring(part) {
                Ok(done) => outcome.add(&done),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                    self.is_ended.store(true, Ordering::Relaxed);
                    return Ok(outcome);
                }
                Err(error) => {
                    // Other workers need not find this out too.
                    self.purse.close();
                    self.progress.stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            let bytes = part.pages * part.area.page_bytes;
            self.progress
                .done_bytes
                .fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    fn bring(&self, part: &Part<'_>) -> io::Result<Outcome> {
        let end = part.start + part.pages * part.area.page_bytes;
        let range = part.start..end;
        let pages: Vec<usize> = match &self.order.target {
            Target::Pages(wanted) => {
                let begins = |page: &usize| page.is_multiple_of(part.area.page_bytes);
                let pages = wanted.range(range).map(|(page, _)| *page);
                pages.filter(begins).collect()
            }
            _ => present::pages(self.pagemap, range, part.area.page_bytes)?,
        };
        if pages.is_empty() {
            return Ok(Outcome::default());
        }
        let piece = Piece {
            kernel: &self.process,
            area: part.area,
            pages: &pages,
            target: &self.order.target,
            from: self.order.from,
            also_shared: self.order.moves_shared(part.area),
            purse: &self.purse,
        };
        piece.bring()
    }
}

/// Runs on the target nodes, if it may: copies are faster there, but it is not needed.
fn settle(cpus: &[CpuId]) {
    let thread = rustix::thread::gettid().as_raw_pid() as u32;
    let Ok(allowed) = task::affinity(thread) else {
        return;
    };
    let there = allowed.intersection(&cpus.iter().copied().collect());
    if !there.is_empty() {
        let _ = task::set_affinity(thread, &there);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: usize, end: usize, page_bytes: usize) -> Area {
        Area {
            range: start..end,
            page_bytes,
            bound_to: None,
            is_interleaved: false,
            bytes: Vec::new(),
            file: None,
            mappers: 1,
        }
    }

    #[test]
    fn pieces_cut_no_huge_page_and_miss_nothing() {
        const HUGE: usize = 2 << 20;
        let areas = [
            area(0x5000, 0x5000 + 3 * HUGE, 4096),
            area(64 * HUGE, 70 * HUGE, HUGE),
        ];
        let parts = parts(&areas, &Target::Nodes(vec![NodeId(0)]), 1000);
        let mut ends: Vec<(usize, usize)> = Vec::new();
        for part in &parts {
            let end = part.start + part.pages * part.area.page_bytes;
            assert!(end - part.start <= 2 * HUGE);
            assert!(part.start % HUGE == 0 || part.start == 0x5000);
            ends.push((part.start, end));
        }
        let small: Vec<_> = ends
            .iter()
            .filter(|(start, _)| *start < 64 * HUGE)
            .collect();
        assert_eq!(small.len(), 2);
        assert!(small.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert_eq!(small[1].1, areas[0].range.end);
        let huge = &ends[2..];
        assert_eq!((huge[0].0, huge[2].1), (64 * HUGE, 70 * HUGE));
    }

    #[test]
    fn workers_run_on_the_nodes_involved() {
        let mut machine = Machine::profile("optane-2s").unwrap();
        machine.nodes[0].cpus = (0..20).map(CpuId).collect();
        machine.nodes[1].cpus = (20..40).map(CpuId).collect();
        let mut areas = [area(0, 1 << 30, 4096)];
        areas[0].bytes = vec![(NodeId(0), 1 << 30)];
        let target = Target::Nodes(vec![NodeId(1)]);
        let order = Order::of(1, 1, target);
        let found = workers(&order, &machine, &areas, 1000);
        assert_eq!(found.len(), 2 * WORKERS_OF_NODE);
        assert_eq!(found[0], machine.nodes[1].cpus);
        assert_eq!(found[1], machine.nodes[0].cpus);
        assert_eq!(workers(&order, &machine, &areas, 3).len(), 3);
        let one = Order {
            workers: Some(1),
            ..order
        };
        assert_eq!(workers(&one, &machine, &[], 9).len(), 1);
    }

    #[test]
    fn of_single_pages_only_their_neighbourhood_is_looked_at() {
        let areas = [area(0, 1 << 40, 4096), area(1 << 41, 1 << 42, 4096)];
        let pages = [(4096 * 9, NodeId(1)), (4096 * 20, NodeId(0))];
        let parts = parts(&areas, &Target::Pages(pages.into()), 8192);
        assert_eq!(parts.len(), 1);
        assert_eq!((parts[0].start, parts[0].pages), (4096 * 9, 12));
    }
}
