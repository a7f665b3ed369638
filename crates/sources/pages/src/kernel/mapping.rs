//! A piece of a file, mapped to ask the kernel which node has its pages.
//!
//! The kernel tells the node of a page that this process has mapped. A page gets mapped when it is touched, which
//! would read it if it were not cached; so only pages that `mincore` calls cached are touched. `MADV_RANDOM` makes the
//! kernel neither read ahead nor take a touch for use. A page that is dropped between the two calls is read again;
//! that cannot be excluded.

use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use egeria_machine::NodeId;

use crate::kernel::calls;

/// Pages the kernel maps with one touch, if they are cached.
const FAULT_AROUND_PAGES: usize = 16;
/// Pieces of one `writev`.
const MAX_PIECES: usize = 1024;

/// A mapped piece; unmapped when dropped.
pub(crate) struct Mapping {
    start: usize,
    length: usize,
    page_bytes: usize,
}

impl Mapping {
    /// Maps `length` bytes from `offset`, both multiples of a page.
    ///
    /// # Errors
    /// When the file cannot be mapped.
    pub(crate) fn new(file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Mapping> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        let file = file.as_raw_fd();
        // SAFETY: the kernel chooses a place that nothing else has, of which the advice is.
        let (start, advised) = unsafe {
            let (none, read, shared) = (std::ptr::null_mut(), libc::PROT_READ, libc::MAP_SHARED);
            let start = libc::mmap(none, length, read, shared, file, offset);
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            (start, libc::madvise(start, length, libc::MADV_RANDOM))
        };
        let mapping = Mapping {
            start: start as usize,
            length,
            page_bytes: rustix::param::page_size(),
        };
        match advised {
            0 => Ok(mapping),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Which pages are cached.
    ///
    /// # Errors
    /// When the kernel has no memory.
    pub(crate) fn cached(&self) -> io::Result<Vec<bool>> {
        self.cached_of(0..self.length.div_ceil(self.page_bytes))
    }

    /// Which pages of a range are cached; there is none after the end of the mapping.
    ///
    /// # Errors
    /// When the kernel has no memory.
    pub(crate) fn cached_of(&self, range: Range<usize>) -> io::Result<Vec<bool>> {
        let end = range.end.min(self.length.div_ceil(self.page_bytes));
        let mut pages = vec![0_u8; end.saturating_sub(range.start)];
        // SAFETY: the range is mapped by this object, and there is a byte for each of its pages.
        let status = unsafe {
            libc::mincore(
                (self.start + range.start.min(end) * self.page_bytes) as *mut libc::c_void,
                pages.len() * self.page_bytes,
                pages.as_mut_ptr(),
            )
        };
        match status {
            0 => Ok(pages.iter().map(|page| page & 1 == 1).collect()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The nodes of these pages, which are cached and ascending; `None` where that cannot be seen.
    ///
    /// # Errors
    /// When the kernel does not tell nodes.
    pub(crate) fn nodes(&self, pages: &[usize], touch: &Touch) -> io::Result<Vec<Option<NodeId>>> {
        let mut first_of_group = pages.to_vec();
        first_of_group.dedup_by_key(|page| *page / FAULT_AROUND_PAGES);
        touch.touch(&self.addresses(&first_of_group))?;
        let mut nodes = self.known_nodes(pages)?;
        let unmapped = |(node, page): (&Option<NodeId>, &usize)| node.is_none().then_some(*page);
        let absent: Vec<usize> = nodes.iter().zip(pages).filter_map(unmapped).collect();
        if absent.is_empty() {
            return Ok(nodes);
        }
        touch.touch(&self.addresses(&absent))?;
        let mut found = self.known_nodes(&absent)?.into_iter();
        for node in nodes.iter_mut().filter(|node| node.is_none()) {
            *node = found.next().flatten();
        }
        Ok(nodes)
    }

    /// Moves pages that were located to a node: where each is now, or a negative error number.
    ///
    /// # Errors
    /// When pages may not be moved there.
    pub(crate) fn move_to(
        &self,
        node: NodeId,
        pages: &[usize],
        also_shared: bool,
    ) -> io::Result<Vec<i32>> {
        calls::move_to(
            calls::THIS_PROCESS,
            node,
            &self.addresses(pages),
            also_shared,
        )
    }

    fn known_nodes(&self, pages: &[usize]) -> io::Result<Vec<Option<NodeId>>> {
        let status = calls::nodes_of(calls::THIS_PROCESS, &self.addresses(pages))?;
        let node = |status: i32| u16::try_from(status).ok().map(NodeId);
        Ok(status.into_iter().map(node).collect())
    }

    fn addresses(&self, pages: &[usize]) -> Vec<usize> {
        let address = |page: &usize| self.start + page * self.page_bytes;
        pages.iter().map(address).collect()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and there is no reference into it.
        unsafe {
            libc::munmap(self.start as *mut libc::c_void, self.length);
        }
    }
}

/// Touches pages by having the kernel copy a byte of each into a pipe. If the file was truncated in the meantime, that
/// is an error, and not a signal.
pub(crate) struct Touch {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Touch {
    /// # Errors
    /// When there is no descriptor left.
    pub(crate) fn new() -> io::Result<Touch> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        Ok(Touch { reader, writer })
    }

    /// Touches what can be touched.
    fn touch(&self, addresses: &[usize]) -> io::Result<()> {
        let mut rest = addresses;
        while !rest.is_empty() {
            let now = &rest[..rest.len().min(MAX_PIECES)];
            let copied = self.copy(now);
            self.drain(copied)?;
            // The one that stopped it cannot be touched any more.
            let done = (copied + usize::from(copied < now.len())).max(1);
            rest = &rest[done..];
        }
        Ok(())
    }

    /// How many of these bytes the kernel copied.
    fn copy(&self, addresses: &[usize]) -> usize {
        let piece = |address: &usize| libc::iovec {
            iov_base: *address as *mut libc::c_void,
            iov_len: 1,
        };
        let pieces: Vec<libc::iovec> = addresses.iter().map(piece).collect();
        // SAFETY: the kernel reads at the addresses and checks them; the pipe is empty and takes a page at least.
        let written = unsafe {
            libc::writev(
                self.writer.as_raw_fd(),
                pieces.as_ptr(),
                pieces.len() as libc::c_int,
            )
        };
        usize::try_from(written).unwrap_or(0)
    }

    fn drain(&self, bytes: usize) -> io::Result<()> {
        let mut buffer = [0; MAX_PIECES];
        let mut reader = std::fs::File::from(self.reader.try_clone()?);
        reader.read_exact(&mut buffer[..bytes])
    }
}
