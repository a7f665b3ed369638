//! Brings files into the page cache of chosen nodes.
//!
//! Files are cut into stripes, and each stripe has a node. The workers of a node take its stripes. They move pages
//! that are cached elsewhere, if no other process has them mapped. They read pages that are not cached, with a memory
//! policy that takes pages of this node only. Holes are left holes. A second pass then looks at every page, since the
//! kernel may have dropped some during the first.

mod before;
mod stripe;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use egeria_machine::{Machine, NodeId};
use egeria_proc::task;
use rustix::fs::SeekFrom;

use crate::files::file;
use crate::kernel::calls;
use crate::kernel::mapping::Touch;
pub use before::Before;
pub use stripe::Outcome;
use stripe::{Piece, STRIPE_BYTES, Stripe};

/// Reads under way at once, for each node: a device needs several to be fast.
const WORKERS_OF_NODE: usize = 4;
/// How often all is repeated if pages were dropped during it; the kernel may drop them at any time.
const ROUNDS: usize = 3;
/// Failures that are reported.
const MAX_FAILURES: usize = 10;

/// Which stripes go to which node.
pub struct Plan {
    files: Vec<PathBuf>,
    /// For each node its stripes.
    nodes: Vec<(NodeId, Vec<Stripe>)>,
    /// Whose turn it is: positions in `nodes`.
    turns: Vec<usize>,
    /// Also move pages that other processes have mapped.
    pub also_mapped: bool,
    /// Read nothing: only cached pages are moved.
    pub only_cached: bool,
}

/// How far it is, and whether it should stop; for threads that monitor it.
#[derive(Default)]
pub struct Progress {
    /// Bytes done: each counts when it is read, and when it is verified.
    pub done_bytes: AtomicU64,
    /// Set to end it soon.
    pub stop: AtomicBool,
}

/// Files with failures, and the failures; the first few.
#[derive(Default)]
pub struct Failures(Mutex<Vec<(PathBuf, String)>>);

impl Plan {
    /// An empty plan for these nodes, in this turn; one that should get more comes more often.
    pub fn for_nodes(nodes: &[NodeId], also_mapped: bool) -> Plan {
        let mut each = nodes.to_vec();
        each.sort_unstable();
        each.dedup();
        let position = |node: &NodeId| each.binary_search(node).ok();
        Plan {
            files: Vec::new(),
            turns: nodes.iter().filter_map(position).collect(),
            nodes: each.into_iter().map(|node| (node, Vec::new())).collect(),
            also_mapped,
            only_cached: false,
        }
    }

    /// Adds a file: its stripes go to the nodes in turn. Its first node depends on its inode number.
    ///
    /// # Errors
    /// When it cannot be opened, or lies in no page cache.
    pub fn add(&mut self, path: &Path) -> io::Result<()> {
        let opened = file::open(path)?;
        check_movable(&opened)?;
        let metadata = opened.metadata()?;
        let count = self.turns.len() as u64;
        let number = self.files.len();
        self.files.push(path.to_owned());
        let mut at = 0;
        while let Some(data) = next_data(&opened, at, metadata.len())? {
            at = data.end;
            for range in stripes(data) {
                let turn = (range.start / STRIPE_BYTES).wrapping_add(metadata.ino()) % count;
                let stripe = Stripe {
                    file: number,
                    range,
                };
                self.nodes[self.turns[turn as usize]].1.push(stripe);
            }
        }
        Ok(())
    }

    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// What each node is to get.
    pub fn bytes_of_nodes(&self) -> Vec<(NodeId, u64)> {
        let bytes = |stripes: &[Stripe]| {
            let lengths = stripes
                .iter()
                .map(|stripe| stripe.range.end - stripe.range.start);
            lengths.sum()
        };
        let nodes = self.nodes.iter();
        nodes
            .map(|(node, stripes)| (*node, bytes(stripes)))
            .collect()
    }

    /// Reads and moves, then looks at every page. What was done when it is stopped stays.
    ///
    /// # Errors
    /// When a node may not be used.
    pub fn run(
        &self,
        machine: &Machine,
        progress: &Progress,
        failures: &Failures,
    ) -> io::Result<Vec<(NodeId, Outcome)>> {
        let mut all: Vec<(NodeId, Outcome)> = Vec::new();
        for _ in 0..ROUNDS {
            let brought = self.on_all_nodes(machine, progress, failures, true)?;
            let verified = self.on_all_nodes(machine, progress, failures, false)?;
            let both = brought.into_iter().zip(verified);
            let round =
                both.map(|((node, brought), (_, verified))| (node, brought.then(&verified)));
            let round: Vec<_> = round.collect();
            // Of a repeated round, only the additional bytes count, and where pages are afterwards.
            all = if all.is_empty() {
                round
            } else {
                all.into_iter()
                    .zip(round)
                    .map(|((node, before), (_, after))| (node, before.then(&after)))
                    .collect()
            };
            let is_stopped = progress.stop.load(Ordering::Relaxed);
            if is_stopped || self.only_cached || all.iter().all(|(_, outcome)| outcome.missing == 0)
            {
                break;
            }
        }
        Ok(all)
    }

    /// Lets the workers of all nodes bring or verify their stripes.
    fn on_all_nodes(
        &self,
        machine: &Machine,
        progress: &Progress,
        failures: &Failures,
        bring: bool,
    ) -> io::Result<Vec<(NodeId, Outcome)>> {
        std::thread::scope(|scope| {
            let nodes = self.nodes.iter().map(|(node, stripes)| {
                let queue = Queue {
                    plan: self,
                    node: *node,
                    stripes,
                    next: AtomicUsize::new(0),
                    progress,
                    failures,
                };
                let queue = std::sync::Arc::new(queue);
                let count = WORKERS_OF_NODE.min(stripes.len());
                let workers = (0..count).map(|_| {
                    let queue = queue.clone();
                    scope.spawn(move || queue.work(machine, bring))
                });
                (*node, workers.collect::<Vec<_>>())
            });
            // All are started before the first is waited for.
            let nodes: Vec<_> = nodes.collect();
            let mut outcomes = Vec::new();
            let mut failed = None;
            for (node, workers) in nodes {
                let mut sum = Outcome::default();
                for worker in workers {
                    match worker.join() {
                        Ok(Ok(outcome)) => sum.add(&outcome),
                        Ok(Err(error)) => failed = failed.or(Some(error)),
                        Err(panic) => std::panic::resume_unwind(panic),
                    }
                }
                outcomes.push((node, sum));
            }
            failed.map_or(Ok(outcomes), Err)
        })
    }
}

/// Whether pages of a file can be moved, and seen to be where they should.
///
/// # Errors
/// When it lies in no page cache; `EACCES` when the kernel does not tell this process where its pages are.
pub fn check_movable(file: &File) -> io::Result<()> {
    match file::store_of(file)? {
        file::Store::PageCache | file::Store::Tmpfs => (),
        file::Store::Dax => {
            return Err(io::Error::other(
                "it lies on memory itself (DAX) and is not cached",
            ));
        }
        file::Store::Hugetlbfs => {
            return Err(io::Error::other(
                "it lies in huge pages, which stay where they are",
            ));
        }
    }
    if file::may_see(file, &file.metadata()?) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }
}

/// Moves the cached pages of open files, part by part. Nothing is read, and pages that other processes have mapped
/// stay.
pub struct CachedPages {
    touch: Touch,
}

/// The result for the cached pages of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MovedPages {
    /// On their new node, as the kernel says.
    pub moved_bytes: u64,
    /// Still on the old one: mapped by other processes, pinned, in use, or there was no room.
    pub left_bytes: u64,
}

impl CachedPages {
    /// To be used again and again.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn new() -> io::Result<CachedPages> {
        Ok(CachedPages {
            touch: Touch::new()?,
        })
    }

    /// Moves what one node has of a part of a file, which begins with a page, to another.
    ///
    /// # Errors
    /// When the part cannot be mapped, or the kernel has no memory.
    pub fn move_range(
        &self,
        file: &File,
        range: Range<u64>,
        (from, to): (NodeId, NodeId),
    ) -> io::Result<MovedPages> {
        let piece = Piece {
            file,
            stripe: &Stripe { file: 0, range },
            from: Some(from),
            node: to,
            touch: &self.touch,
        };
        let mut outcome = Outcome::default();
        piece.bring(false, &mut [], &mut outcome)?;
        let page_bytes = rustix::param::page_size() as u64;
        Ok(MovedPages {
            moved_bytes: outcome.moved * page_bytes,
            left_bytes: outcome.left * page_bytes,
        })
    }
}

impl Failures {
    fn note(&self, path: &Path, error: &io::Error) {
        let mut all = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if all.len() < MAX_FAILURES && !all.iter().any(|(other, _)| other == path) {
            all.push((path.to_owned(), error.to_string()));
        }
    }

    pub fn into_inner(self) -> Vec<(PathBuf, String)> {
        self.0
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The next piece with data from `at` on. A file system that knows no holes has none.
fn next_data(file: &File, at: u64, size: u64) -> io::Result<Option<Range<u64>>> {
    use rustix::io::Errno;
    if at >= size {
        return Ok(None);
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL) => return Ok(Some(at..size)),
        Err(error) => return Err(error.into()),
    };
    let end = match rustix::fs::seek(file, SeekFrom::Hole(start)) {
        Ok(end) if end > start => end,
        Err(error) if error != Errno::NXIO => return Err(error.into()),
        _ => size,
    };
    let page_bytes = rustix::param::page_size() as u64;
    let start = (start / page_bytes * page_bytes).max(at);
    // Blocks may be smaller than pages.
    let end = end.checked_next_multiple_of(page_bytes).unwrap_or(size);
    Ok(Some(start..end.min(size)))
}

/// The stripes that a range of a file lies in, each with its part.
fn stripes(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let first = range.start / STRIPE_BYTES;
    let behind = range.end.div_ceil(STRIPE_BYTES);
    (first..behind).map(move |stripe| {
        let (start, end) = (stripe * STRIPE_BYTES, (stripe + 1) * STRIPE_BYTES);
        start.max(range.start)..end.min(range.end)
    })
}

/// The stripes of a node, which its workers take in turn.
struct Queue<'a> {
    plan: &'a Plan,
    node: NodeId,
    stripes: &'a [Stripe],
    next: AtomicUsize,
    progress: &'a Progress,
    failures: &'a Failures,
}

impl Queue<'_> {
    /// Takes stripes until there are no more.
    fn work(&self, machine: &Machine, bring: bool) -> io::Result<Outcome> {
        let mut outcome = Outcome::default();
        let touch = Touch::new()?;
        let mut buffer = Vec::new();
        if bring {
            self.settle(machine)?;
            if !self.plan.only_cached {
                buffer.resize(STRIPE_BYTES as usize, 0);
            }
        }
        let mut open: Option<(usize, File)> = None;
        while !self.progress.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(stripe) = self.stripes.get(number) else {
                break;
            };
            let path = &self.plan.files[stripe.file];
            let done = self.file_of(stripe, &mut open).and_then(|file| {
                let piece = Piece {
                    file,
                    stripe,
                    from: None,
                    node: self.node,
                    touch: &touch,
                };
                if bring {
                    piece.bring(self.plan.also_mapped, &mut buffer, &mut outcome)
                } else {
                    piece.verify(&mut outcome)
                }
            });
            if let Err(error) = done {
                self.failures.note(path, &error);
            }
            let bytes = stripe.range.end - stripe.range.start;
            self.progress.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(outcome)
    }

    /// New pages come from the node. Running there makes copies faster too, but is not needed.
    fn settle(&self, machine: &Machine) -> io::Result<()> {
        let cpus = machine
            .node(self.node)
            .map(|node| node.cpus.iter().copied());
        let cpus = cpus.into_iter().flatten().collect::<Vec<_>>();
        if !cpus.is_empty() {
            let thread = rustix::thread::gettid().as_raw_pid() as u32;
            let _ = task::set_affinity(thread, &cpus.into_iter().collect());
        }
        if self.plan.only_cached {
            Ok(())
        } else {
            calls::allocate_on(self.node)
        }
    }

    fn file_of<'f>(
        &self,
        stripe: &Stripe,
        open: &'f mut Option<(usize, File)>,
    ) -> io::Result<&'f File> {
        let is_open = open
            .as_ref()
            .is_some_and(|(number, _)| *number == stripe.file);
        if !is_open {
            let file = file::open(&self.plan.files[stripe.file])?;
            // Nothing is read ahead into stripes of other nodes.
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
            *open = Some((stripe.file, file));
        }
        let opened = open.as_ref().map(|(_, file)| file);
        opened.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_turn_is_twice_as_often_gets_twice_as_much() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        std::fs::write(file.path(), vec![1; 6 * STRIPE_BYTES as usize]).unwrap();
        let mut plan = Plan::for_nodes(&[NodeId(3), NodeId(0), NodeId(3)], false);
        plan.add(file.path()).unwrap();
        let expected = [(NodeId(0), 2 * STRIPE_BYTES), (NodeId(3), 4 * STRIPE_BYTES)];
        assert_eq!(plan.bytes_of_nodes(), expected);
    }

    #[test]
    fn only_pages_of_the_first_node_move() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        std::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
        let opened = file::open(file.path()).unwrap();
        check_movable(&opened).unwrap();
        let mut locator = file::Locator::for_one(1 << 10).unwrap();
        let before = file::look(&opened, &mut locator).unwrap().by_node;
        let (here, nowhere) = (before.iter().next().unwrap().0, NodeId(1023));
        let pages = CachedPages::new().unwrap();
        let moved = pages.move_range(&opened, 0..1 << 20, (nowhere, here));
        assert_eq!(moved.unwrap(), MovedPages::default());
        if let Ok(moved) = pages.move_range(&opened, 0..1 << 20, (here, nowhere)) {
            assert_eq!(moved.moved_bytes, 0);
        }
        let after = file::look(&opened, &mut locator).unwrap().by_node;
        assert_eq!(after.total(), before.total());
    }

    #[test]
    fn stripes_lie_on_their_boundaries() {
        let found: Vec<Range<u64>> = stripes(4096..(5 << 20)).collect();
        assert_eq!(found, [4096..2 << 20, 2 << 20..4 << 20, 4 << 20..5 << 20]);
        assert_eq!(stripes(0..0).count(), 0);
    }
}
