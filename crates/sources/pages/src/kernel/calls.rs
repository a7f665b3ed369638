//! System calls that libc has no function for.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use egeria_machine::NodeId;
use egeria_proc::living;

/// `cachestat`, since Linux 6.5; the same number on all architectures.
pub(crate) const SYS_CACHESTAT: libc::c_long = 451;

/// Flags of `move_pages`, as <linux/mempolicy.h> has them.
const MPOL_MF_MOVE: libc::c_int = 1 << 1;
const MPOL_MF_MOVE_ALL: libc::c_int = 1 << 2;

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// What the page cache holds of a range of a file, pages.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct CacheStat {
    pub(crate) cached: u64,
    pub(crate) dirty: u64,
    pub(crate) writeback: u64,
    pub(crate) evicted: u64,
    pub(crate) recently_evicted: u64,
}

/// What is cached of these bytes; a length of 0 is up to the end.
///
/// # Errors
/// `ENOSYS` before Linux 6.5, `EPERM` when it is another user's file.
pub(crate) fn cachestat(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<CacheStat> {
    let range = Range { offset, length };
    let mut stat = CacheStat::default();
    // SAFETY: both structures are as the kernel declares them, and live until the call is over.
    let status = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut stat,
            0,
        )
    };
    match status {
        0 => Ok(stat),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `PAGEMAP_SCAN`, since Linux 6.7: `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610_u32 as libc::Ioctl;
/// The page is in memory.
const PAGE_IS_PRESENT: u64 = 1 << 3;

/// `struct pm_scan_arg` of <linux/fs.h>.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of <linux/fs.h>.
#[repr(C)]
#[derive(Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// Whether a process surely has no page in a range, asked of its `pagemap`. False where the kernel does not answer.
pub(crate) fn is_empty(pagemap: BorrowedFd<'_>, range: &std::ops::Range<usize>) -> bool {
    let mut first = PageRegion::default();
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        start: range.start as u64,
        end: range.end as u64,
        regions: (&raw mut first) as u64,
        regions_len: 1,
        max_pages: 1,
        category_mask: PAGE_IS_PRESENT,
        return_mask: PAGE_IS_PRESENT,
        ..Scan::default()
    };
    // SAFETY: the structure is as the kernel declares it and says its size; `regions` is room for one region. Both live
    // until the call is over.
    let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
    found == 0
}

/// For [`nodes_of`] and [`move_to`].
pub(crate) const THIS_PROCESS: u32 = 0;

/// Returns the node of each page at these addresses of a process, or a negative error number.
///
/// # Errors
/// When the kernel has no NUMA support, a sandbox forbids the call, or the process is gone or another user's.
pub(crate) fn nodes_of(process_id: u32, addresses: &[usize]) -> io::Result<Vec<i32>> {
    // Without nodes the call only queries.
    match move_pages(process_id, addresses, None, 0)? {
        (0, status) => Ok(status),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves the pages at these addresses of a process to a node. Returns the present node of each, or a negative error
/// number. Pages that other processes have mapped too are moved only with `also_shared`. The kernel stops at a page
/// that does not move; the pages after it are `-ENOENT`.
///
/// # Errors
/// `EPERM` when pages of others may not be moved, `EACCES` or `ENODEV` when the node may not be used, `ESRCH`.
pub(crate) fn move_to(
    process_id: u32,
    node: NodeId,
    addresses: &[usize],
    also_shared: bool,
) -> io::Result<Vec<i32>> {
    let nodes = vec![libc::c_int::from(node.0); addresses.len()];
    let flags = if also_shared {
        MPOL_MF_MOVE_ALL
    } else {
        MPOL_MF_MOVE
    };
    // Above 0: this number of pages were not moved, as their status says.
    move_pages(process_id, addresses, Some(&nodes), flags).map(|(_, status)| status)
}

/// A thread by which the kernel finds the memory of a process.
fn reached(process_id: u32) -> libc::pid_t {
    match process_id {
        THIS_PROCESS => 0,
        other => living::thread(other) as libc::pid_t,
    }
}

/// `move_pages`: its result, and the status of each page.
fn move_pages(
    process_id: u32,
    addresses: &[usize],
    nodes: Option<&[libc::c_int]>,
    flags: libc::c_int,
) -> io::Result<(libc::c_long, Vec<i32>)> {
    let mut status = vec![-libc::ENOENT; addresses.len()];
    let nodes = nodes.map_or(std::ptr::null(), |nodes| {
        assert_eq!(nodes.len(), addresses.len());
        nodes.as_ptr()
    });
    let thread = reached(process_id);
    // SAFETY: arrays of as many entries as said; the kernel moves pages without changing what is in them.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            thread,
            addresses.len(),
            addresses.as_ptr(),
            nodes,
            status.as_mut_ptr(),
            flags,
        )
    };
    match answer {
        0.. => Ok((answer, status)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves all pages of a process on one node to another, by one call. Returns how many it could not move.
///
/// # Errors
/// As for [`move_to`].
pub(crate) fn migrate(process_id: u32, from: NodeId, to: NodeId) -> io::Result<u64> {
    let mask = |node: NodeId| {
        let mut mask = [0_u64; 16];
        let word = mask.get_mut(usize::from(node.0) / 64);
        *word.ok_or(io::ErrorKind::InvalidInput)? |= 1 << (node.0 % 64);
        io::Result::Ok(mask)
    };
    let (from, to) = (mask(from)?, mask(to)?);
    let thread = reached(process_id);
    // SAFETY: the kernel reads one bit less than the count given, all inside of both.
    let left = unsafe {
        libc::syscall(
            libc::SYS_migrate_pages,
            thread,
            from.len() * 64,
            from.as_ptr(),
            to.as_ptr(),
        )
    };
    u64::try_from(left).map_err(|_| io::Error::last_os_error())
}

/// From now on this thread gets new pages, those of the page cache among them, from this node only.
///
/// # Errors
/// `EINVAL` when the node may not be used (cpuset), `EPERM` in a sandbox.
pub(crate) fn allocate_on(node: NodeId) -> io::Result<()> {
    const WORD: usize = libc::c_ulong::BITS as usize;
    let mut mask = [0 as libc::c_ulong; 1024 / WORD];
    let word = mask.get_mut(usize::from(node.0) / WORD);
    *word.ok_or(io::ErrorKind::InvalidInput)? |= 1 << (usize::from(node.0) % WORD);
    set_mempolicy(libc::MPOL_BIND, &mask)
}

/// From now on this thread gets new pages from the node it runs on, the default.
///
/// # Errors
/// `EPERM` in a sandbox, `ENOSYS` without NUMA support.
pub(crate) fn allocate_anywhere() -> io::Result<()> {
    set_mempolicy(libc::MPOL_DEFAULT, &[])
}

/// `set_mempolicy`, with the nodes as bits.
fn set_mempolicy(policy: libc::c_int, nodes: &[libc::c_ulong]) -> io::Result<()> {
    let bits = std::mem::size_of_val(nodes) * 8;
    // With an address, the kernel expects nodes even for 0 bits (`EINVAL`), so no nodes are null.
    let nodes = match nodes {
        [] => std::ptr::null(),
        _ => nodes.as_ptr(),
    };
    // SAFETY: the kernel reads one bit less than the count given, all inside of `nodes`; nothing at null.
    match unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, nodes, bits) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
