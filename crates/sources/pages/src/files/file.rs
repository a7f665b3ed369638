//! Where the cached pages of an open file lie.
//!
//! The pages of a file are counted in parts, parts with none are left out, and of the rest either all pages are
//! located or, when there are more than the budget allows, a sample: groups of neighbours, or larger pieces, chosen by
//! a hash of their place, so that no stripe width can hide from it. A sample's shares stand for the whole.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use egeria_machine::NodeId;
use rustix::fs::{Access, AtFlags, StatxAttributes, StatxFlags};

use crate::NodeBytes;
use crate::kernel::cached::Counter;
use crate::kernel::device;
use crate::kernel::mapping::{Mapping, Touch};

/// Bytes that are mapped at a time.
const LEAF_BYTES: u64 = 32 << 20;
/// Pieces that are sampled when much more is cached than may be looked at.
const PIECE_BYTES: u64 = 2 << 20;
/// Beyond this ratio of cached pages to budget, pieces are sampled, and of each about one group.
const MAX_GROUP_STRIDE: u64 = 32;
/// Groups and pieces are chosen independently of each other.
const OF_PIECES: u64 = 1 << 63;
/// Neighbours that are sampled together.
const GROUP_PAGES: u64 = 16;
/// Parts that a range is divided into.
const FAN_OUT: u64 = 8;

/// Locates pages of files, with a budget for all of them together.
pub struct Locator {
    left: u64,
    /// Of what is left, the part that one file may use.
    part: u64,
    touch: Touch,
    devices: HashMap<u64, Vec<NodeId>>,
}

/// Pages of a file that are located even when the budget is used up: enough for shares.
const MIN_PAGES: u64 = 256;

impl Locator {
    /// For one file: locates about as many pages at most, and samples when there are more.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn for_one(pages: u64) -> io::Result<Locator> {
        Ok(Locator {
            left: pages,
            part: 1,
            touch: Touch::new()?,
            devices: HashMap::new(),
        })
    }

    /// A locator for many files: none uses the whole budget.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn for_many(pages: u64) -> io::Result<Locator> {
        let one = Locator::for_one(pages)?;
        Ok(Locator { part: 16, ..one })
    }

    fn devices(&mut self, device: u64) -> Vec<NodeId> {
        let nodes = self.devices.entry(device);
        nodes.or_insert_with(|| device::nodes_of(device)).clone()
    }
}

/// What holds the content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Store {
    /// Pages that are copies of what lies on a device, or elsewhere.
    PageCache,
    /// Pages that are all there is, or swap.
    Tmpfs,
    /// Huge pages, seen only where a process has mapped them.
    Hugetlbfs,
    /// The device itself, which is memory.
    Dax,
}

/// Where the content of a file lies.
#[derive(Clone, Debug)]
pub struct FilePages {
    pub store: Store,
    pub size_bytes: u64,
    /// Bytes allocated for it on its file system.
    pub allocated_bytes: u64,
    /// Bytes in memory; with DAX all allocated bytes.
    pub cached_bytes: u64,
    /// Dirty bytes of these; `None` when the kernel does not report them.
    pub dirty_bytes: Option<u64>,
    /// Bytes on each node; a sample is scaled to the whole.
    pub by_node: NodeBytes,
    /// Bytes in memory on an unknown node.
    pub unknown_bytes: u64,
    /// The kernel reported what is in memory; otherwise `problem` says why not.
    pub is_told: bool,
    /// `by_node` is extrapolated from a sample.
    pub sampled: bool,
    /// The nodes of the device below, where it has any.
    pub device_nodes: Vec<NodeId>,
    /// Why nodes are not known.
    pub problem: Option<String>,
}

impl FilePages {
    /// The pages of a file with a place that is known without looking at pages, as for pools.
    pub fn known(store: Store, metadata: &Metadata, by_node: NodeBytes) -> FilePages {
        FilePages {
            store,
            size_bytes: metadata.len(),
            allocated_bytes: metadata.blocks().saturating_mul(512),
            cached_bytes: by_node.total(),
            dirty_bytes: None,
            by_node,
            unknown_bytes: 0,
            is_told: true,
            sampled: false,
            device_nodes: Vec::new(),
            problem: None,
        }
    }
}

/// Opens a regular file to look at it: no other kind is opened, and access times do not change.
///
/// # Errors
/// When it cannot be read, or is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let found = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path)?;
    if !found.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    // The file found before; the path may name another one by now.
    let found = format!("/proc/self/fd/{}", found.as_raw_fd());
    let open = |flags| {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(flags | libc::O_NONBLOCK | libc::O_NOCTTY);
        options.open(&found)
    };
    match open(libc::O_NOATIME) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => open(0),
        opened => opened,
    }
}

/// Looks at an open regular file.
///
/// # Errors
/// When the kernel does not say what is cached.
pub fn look(file: &File, locator: &mut Locator) -> io::Result<FilePages> {
    let metadata = file.metadata()?;
    let store = store_of(file)?;
    let mut pages = FilePages::known(store, &metadata, NodeBytes::default());
    pages.device_nodes = locator.devices(metadata.dev());
    match store {
        Store::Dax => on_device(&mut pages),
        Store::Hugetlbfs => on_huge_pages(&mut pages),
        Store::PageCache | Store::Tmpfs => in_cache(&mut pages, file, &metadata, locator)?,
    }
    Ok(pages)
}

pub(crate) fn store_of(file: &File) -> io::Result<Store> {
    let magic = rustix::fs::fstatfs(file)?.f_type as i64;
    match magic {
        libc::TMPFS_MAGIC => return Ok(Store::Tmpfs),
        libc::HUGETLBFS_MAGIC => return Ok(Store::Hugetlbfs),
        _ => (),
    }
    let told = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::empty());
    let is_dax = told.is_ok_and(|told| told.stx_attributes.contains(StatxAttributes::DAX));
    Ok(if is_dax { Store::Dax } else { Store::PageCache })
}

fn on_device(pages: &mut FilePages) {
    pages.cached_bytes = pages.allocated_bytes;
    match pages.device_nodes[..] {
        [node] => pages.by_node.add(node, pages.allocated_bytes),
        _ => {
            pages.unknown_bytes = pages.allocated_bytes;
            pages.problem = Some("the kernel does not tell the node of its device".to_owned());
        }
    }
}

fn on_huge_pages(pages: &mut FilePages) {
    pages.cached_bytes = pages.allocated_bytes;
    pages.unknown_bytes = pages.allocated_bytes;
    pages.problem = Some(
        "huge pages are seen only in processes that map them: `egeria where PID` of one".to_owned(),
    );
}

fn in_cache(
    pages: &mut FilePages,
    file: &File,
    metadata: &Metadata,
    locator: &mut Locator,
) -> io::Result<()> {
    // For other users' files the kernel reports all pages as cached, and touching them would read them.
    if !may_see(file, metadata) {
        pages.is_told = false;
        pages.problem = Some(
            "only who owns a file or may write it is told what is cached of it; run as root"
                .to_owned(),
        );
        return Ok(());
    }
    let page_bytes = rustix::param::page_size() as u64;
    let all = 0..metadata.len();
    let mut counter = Counter::new(file.as_fd());
    let (cached, dirty) = match counter.count(&all) {
        // Some files with a size have no pages.
        Err(error) if is_unmappable(&error) => {
            pages.is_told = false;
            pages.problem = Some(format!("its file system has no page cache: {error}"));
            return Ok(());
        }
        counted => counted?,
    };
    pages.cached_bytes = cached.saturating_mul(page_bytes);
    pages.dirty_bytes = dirty.map(|dirty| dirty.saturating_mul(page_bytes));
    let budget = (locator.left / locator.part).max(MIN_PAGES);
    let mut look = Look {
        file: file.as_fd(),
        counter,
        page_bytes,
        budget,
        located: 0,
        stride: cached.div_ceil(budget).max(1),
        touch: &locator.touch,
        found: NodeBytes::default(),
    };
    pages.sampled = look.stride > 1;
    if let Err(error) = look.divide(&all, cached) {
        pages.problem = Some(format!("the kernel does not tell nodes: {error}"));
    }
    if look.counter.is_cut() {
        pages.problem = Some(
            "too large to be looked at wholly (before Linux 6.5, and on overlayfs)".to_owned(),
        );
    }
    let (found, located) = (look.found, look.located);
    locator.left = locator.left.saturating_sub(located);
    pages.by_node = if pages.sampled && found.total() > 0 {
        found.scaled_to(pages.cached_bytes)
    } else {
        found
    };
    pages.unknown_bytes = pages.cached_bytes.saturating_sub(pages.by_node.total());
    Ok(())
}

fn is_unmappable(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    matches!(
        number,
        Some(libc::ENODEV | libc::EACCES | libc::EOPNOTSUPP | libc::EPERM)
    )
}

/// Whether the kernel reports the true state of the file's pages to this process.
pub(crate) fn may_see(file: &File, metadata: &Metadata) -> bool {
    let user = rustix::process::geteuid();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let writable =
        || rustix::fs::accessat(rustix::fs::CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    user.is_root() || metadata.uid() == user.as_raw() || writable()
}

/// One look at what is cached.
struct Look<'a> {
    file: BorrowedFd<'a>,
    counter: Counter<'a>,
    page_bytes: u64,
    budget: u64,
    located: u64,
    /// One of this number of groups or pieces is looked at.
    stride: u64,
    touch: &'a Touch,
    found: NodeBytes,
}

impl Look<'_> {
    /// Leaves out parts of which nothing is cached, and locates the pages of the others. `cached` pages are in the range.
    fn divide(&mut self, range: &Range<u64>, cached: u64) -> io::Result<()> {
        if cached == 0 {
            return Ok(());
        }
        let length = range.end - range.start;
        if self.stride > MAX_GROUP_STRIDE && length <= LEAF_BYTES * FAN_OUT {
            return self.pieces(range);
        }
        if length <= LEAF_BYTES {
            return self.leaf(range, self.stride);
        }
        let part = (length / FAN_OUT)
            .next_multiple_of(LEAF_BYTES)
            .max(LEAF_BYTES);
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start.saturating_add(part));
            let part = start..end;
            let cached = self.counter.count(&part)?.0;
            self.divide(&part, cached)?;
            start = end;
        }
        Ok(())
    }

    /// Some pieces of a range, and some groups of each.
    fn pieces(&mut self, range: &Range<u64>) -> io::Result<()> {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start.saturating_add(PIECE_BYTES));
            let of_pieces = self.stride / MAX_GROUP_STRIDE;
            if is_chosen((start / PIECE_BYTES) | OF_PIECES, of_pieces) {
                self.leaf(&(start..end), MAX_GROUP_STRIDE)?;
            }
            start = end;
        }
        Ok(())
    }

    fn leaf(&mut self, range: &Range<u64>, stride: u64) -> io::Result<()> {
        // More than twice the budget: a badly chosen sample, or a file that grew.
        if self.located / 2 >= self.budget {
            return Ok(());
        }
        let length = (range.end - range.start) as usize;
        let mapping = Mapping::new(self.file, range.start, length)?;
        let first_group = range.start / self.page_bytes / GROUP_PAGES;
        let groups = 0..(range.end - range.start).div_ceil(GROUP_PAGES * self.page_bytes);
        let chosen: Vec<u64> = groups
            .filter(|group| is_chosen(first_group + group, stride))
            .collect();
        let mut pages = Vec::new();
        // Neighbours are asked about at once.
        for run in chosen.chunk_by(|one, next| one + 1 == *next) {
            let first = (run[0] * GROUP_PAGES) as usize;
            let run = first..first + run.len() * GROUP_PAGES as usize;
            let cached = mapping.cached_of(run)?.into_iter().enumerate();
            pages.extend(cached.filter_map(|(page, cached)| cached.then_some(first + page)));
        }
        if pages.is_empty() {
            return Ok(());
        }
        self.located += pages.len() as u64;
        for node in mapping.nodes(&pages, self.touch)?.into_iter().flatten() {
            self.found.add(node, self.page_bytes);
        }
        Ok(())
    }
}

/// Whether the sample has this group or piece: about one in `stride`.
fn is_chosen(number: u64, stride: u64) -> bool {
    stride <= 1 || mixed(number).is_multiple_of(stride)
}

/// A number independent of its neighbours' (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_its_share_of_every_stripe() {
        for (stride, width) in [(2, 2), (3, 8), (8, 4), (64, 2), (1000, 512)] {
            let numbers = 0..4_000_000_u64;
            let chosen = numbers.filter(|number| is_chosen(*number, stride));
            let chosen: Vec<u64> = chosen.collect();
            let even = chosen
                .iter()
                .filter(|number| *number / width % 2 == 0)
                .count();
            let share = even as f64 / chosen.len() as f64;
            assert!((share - 0.5).abs() < 0.05, "{stride} {width}: {share}");
            let part = chosen.len() as f64 * stride as f64 / 4e6;
            assert!((part - 1.0).abs() < 0.05, "{stride}: {part}");
        }
    }
}
