//! Memory to measure: pages of one node, or of a pool, that only this process uses.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use egeria_machine::NodeId;

use crate::LINE_BYTES;
use crate::hardware::kernels::Line;

/// Of the kernel's `linux/mempolicy.h`: from these nodes and no other.
const MPOL_BIND: libc::c_int = 2;

/// Most nodes a kernel is built for.
const MAX_KERNEL_NODES: usize = 1024;

/// Pages are filled in pieces, so that a stop is heeded in between.
const PIECE_BYTES: usize = 64 << 20;

/// Mapped and filled; unmapped when dropped.
pub(crate) struct Mapping {
    base: NonNull<Line>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value, as that of a `Box<[Line]>` would.
unsafe impl Send for Mapping {}

/// Why there is no mapping.
#[derive(Debug)]
pub(crate) enum MapFault {
    /// Not as much memory.
    Memory(io::Error),
    /// Not on that node.
    Bind(io::Error),
    /// Somebody asked to stop.
    Stopped,
}

impl Mapping {
    /// Zeroed memory, of a node when one is named; whole pages.
    pub(crate) fn anonymous(
        bytes: usize,
        node: Option<NodeId>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Mapping, MapFault> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = map(bytes, flags, -1).map_err(MapFault::Memory)?;
        if let Some(node) = node {
            mapping.bind(node).map_err(MapFault::Bind)?;
        }
        mapping.fill(is_stopped)?;
        Ok(mapping)
    }

    /// The first bytes of a file that has them and that nobody else uses, and whether stores reach it without the
    /// page cache (DAX).
    pub(crate) fn of_file(
        file: &File,
        bytes: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(Mapping, bool), MapFault> {
        // Only DAX grants MAP_SYNC.
        let direct = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
        let (mapping, is_direct) = match map(bytes, direct, file.as_raw_fd()) {
            Ok(mapping) => (mapping, true),
            Err(_) => {
                let through_cache = map(bytes, libc::MAP_SHARED, file.as_raw_fd());
                (through_cache.map_err(MapFault::Memory)?, false)
            }
        };
        mapping.fill(is_stopped)?;
        Ok((mapping, is_direct))
    }

    /// All of it, as cache lines.
    pub(crate) fn lines(&mut self) -> &mut [Line] {
        // SAFETY: mapped for as long as this value lives, aligned to pages, nobody else's; any bytes are a line.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes / LINE_BYTES) }
    }

    fn bind(&self, node: NodeId) -> io::Result<()> {
        let mut mask = [0_u64; MAX_KERNEL_NODES / 64];
        let word = mask.get_mut(usize::from(node.0) / 64);
        *word.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))? |= 1 << (node.0 % 64);
        // SAFETY: the range is ours, and the mask outlives the call and has the size that is said.
        let status = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base.as_ptr(),
                self.bytes,
                MPOL_BIND,
                mask.as_ptr(),
                MAX_KERNEL_NODES + 1,
                0,
            )
        };
        answer(status)
    }

    /// Every page is there afterwards, as large as the kernel has them.
    fn fill(&self, is_stopped: &dyn Fn() -> bool) -> Result<(), MapFault> {
        let _ = self.advise(0, self.bytes, libc::MADV_HUGEPAGE);
        for from in (0..self.bytes).step_by(PIECE_BYTES) {
            if is_stopped() {
                return Err(MapFault::Stopped);
            }
            let bytes = PIECE_BYTES.min(self.bytes - from);
            match self.advise(from, bytes, libc::MADV_POPULATE_WRITE) {
                // A kernel before 5.14, or memory of a device.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.touch(from, bytes),
                other => other.map_err(MapFault::Memory)?,
            }
        }
        Ok(())
    }

    fn advise(&self, from: usize, bytes: usize, advice: libc::c_int) -> io::Result<()> {
        assert!(from + bytes <= self.bytes);
        let start = self.base.as_ptr().cast::<u8>().wrapping_add(from);
        // SAFETY: in the range, which is ours, and of which nobody has a reference.
        answer(unsafe { libc::madvise(start.cast(), bytes, advice) }.into())
    }

    fn touch(&self, from: usize, bytes: usize) {
        for page in (from..from + bytes).step_by(4096) {
            // SAFETY: the byte lies in the range; volatile, because nobody reads it.
            unsafe { self.base.as_ptr().cast::<u8>().add(page).write_volatile(0) };
        }
    }
}

fn map(bytes: usize, flags: libc::c_int, descriptor: i32) -> io::Result<Mapping> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let base = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, descriptor, 0) };
    match NonNull::new(base.cast::<Line>()) {
        Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapping { base, bytes }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn answer(status: libc::c_long) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this value, and nobody has a reference any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

    #[test]
    fn memory_is_there_zeroed_and_whole() {
        let mut mapping = Mapping::anonymous(BYTES, None, &|| false).unwrap();
        assert_eq!(mapping.lines().len(), BYTES / LINE_BYTES);
        assert!(mapping.lines().iter().all(|line| line.0 == [0; 8]));
        mapping.lines()[BYTES / LINE_BYTES - 1].0[7] = 1;
    }

    #[test]
    fn memory_of_node_0_can_be_had_and_of_no_node_cannot() {
        match Mapping::anonymous(BYTES, Some(NodeId(0)), &|| false) {
            Ok(_) => {}
            // A kernel without NUMA, or a container that forbids it.
            Err(MapFault::Bind(error)) => {
                let code = error.raw_os_error();
                assert!(matches!(code, Some(libc::ENOSYS | libc::EPERM)), "{error}");
            }
            Err(fault) => panic!("{fault:?}"),
        }
        for node in [1000, u16::MAX] {
            let fault = Mapping::anonymous(BYTES, Some(NodeId(node)), &|| false).err();
            assert!(matches!(fault, Some(MapFault::Bind(_))), "{fault:?}");
        }
    }

    #[test]
    fn more_than_there_is_address_space_is_no_memory() {
        let fault = Mapping::anonymous(1 << 60, None, &|| false).err();
        assert!(matches!(fault, Some(MapFault::Memory(_))), "{fault:?}");
    }

    #[test]
    fn a_stop_is_heeded_while_pages_are_filled() {
        let fault = Mapping::anonymous(BYTES, None, &|| true).err();
        assert!(matches!(fault, Some(MapFault::Stopped)), "{fault:?}");
    }

    #[test]
    fn a_file_is_mapped_and_keeps_what_is_stored() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES as u64).unwrap();
        let (mut mapping, _) = Mapping::of_file(&file, BYTES, &|| false).unwrap();
        mapping.lines()[1].0[0] = 77;
        let mut bytes = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 64).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 77);
    }
}
