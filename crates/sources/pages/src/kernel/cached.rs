//! How many pages of a file are cached, in parts. `cachestat` costs as much as there is in the cache; `mincore`, used
//! before Linux 6.5 and on overlayfs, costs as much as there is in the file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::SeekFrom;

use crate::kernel::calls;
use crate::kernel::mapping::Mapping;

/// Bytes that `mincore` is asked about at once.
const WINDOW_BYTES: u64 = 64 << 20;
/// Bytes of a file that `mincore` is asked about at most.
const MAX_MINCORE_BYTES: u64 = 256 << 30;
/// How many smaller steps a step is divided into.
const FINER: u64 = 16;

/// Counts cached pages of one file.
pub(crate) struct Counter<'a> {
    file: BorrowedFd<'a>,
    page_bytes: u64,
    has_cachestat: bool,
    /// Bytes that `mincore` was asked about.
    asked_bytes: u64,
}

impl<'a> Counter<'a> {
    pub(crate) fn new(file: BorrowedFd<'a>) -> Counter<'a> {
        let denied = calls::cachestat(file, 0, 1).is_err();
        Counter::with(file, !denied && !is_of_another(file))
    }

    fn with(file: BorrowedFd<'a>, has_cachestat: bool) -> Counter<'a> {
        Counter {
            file,
            page_bytes: rustix::param::page_size() as u64,
            has_cachestat,
            asked_bytes: 0,
        }
    }

    /// Whether the file has more than could be looked at.
    pub(crate) fn is_cut(&self) -> bool {
        self.asked_bytes >= MAX_MINCORE_BYTES
    }

    /// Cached and dirty pages of a range that begins at a page; dirty ones are unknown without `cachestat`.
    pub(crate) fn count(&mut self, range: &Range<u64>) -> io::Result<(u64, Option<u64>)> {
        if range.is_empty() {
            return Ok((0, Some(0)));
        }
        if self.has_cachestat {
            let stat = calls::cachestat(self.file, range.start, range.end - range.start)?;
            return Ok((stat.cached, Some(stat.dirty)));
        }
        let mut cached = 0;
        let mut at = range.start;
        while let Some(data) = self.data(at, range.end)? {
            cached += self.count_window(&data)?;
            at = data.end;
        }
        Ok((cached, None))
    }

    /// The next piece with data, of one window at most.
    fn data(&mut self, at: u64, end: u64) -> io::Result<Option<Range<u64>>> {
        if at >= end || self.is_cut() {
            return Ok(None);
        }
        let start = match rustix::fs::seek(self.file, SeekFrom::Data(at)) {
            Ok(start) => start / self.page_bytes * self.page_bytes,
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            // A file system that does not know its holes.
            Err(rustix::io::Errno::INVAL) => at,
            Err(error) => return Err(error.into()),
        };
        let start = start.max(at);
        let window = start..end.min(start.saturating_add(WINDOW_BYTES));
        Ok((!window.is_empty()).then_some(window))
    }

    fn count_window(&mut self, window: &Range<u64>) -> io::Result<u64> {
        let bytes = window.end - window.start;
        self.asked_bytes += bytes;
        let mapping = Mapping::new(self.file, window.start, bytes as usize)?;
        let pages = mapping.cached()?;
        Ok(pages.into_iter().filter(|cached| *cached).count() as u64)
    }
}

/// Whether the cached pages of a file belong to another file below it. Then `cachestat` finds nothing, but mappings
/// show the pages.
fn is_of_another(file: BorrowedFd<'_>) -> bool {
    let found = rustix::fs::fstatfs(file);
    found.is_ok_and(|found| found.f_type == libc::OVERLAYFS_SUPER_MAGIC)
}

/// Where the next part of a file begins, from `at` on, that has cached pages as far as the kernel tells it cheaply;
/// the end of the file when none has. Parts begin at multiples of their length.
///
/// # Errors
/// When the kernel refuses to tell.
pub fn next_part(file: &File, at: u64, part_bytes: u64) -> io::Result<u64> {
    let size = file.metadata()?.len();
    let mut counter = Counter::new(file.as_fd());
    if !counter.has_cachestat {
        return Ok(counter
            .data(at, size)?
            .map_or(size, |data| at.max(data.start / part_bytes * part_bytes)));
    }
    let mut at = at;
    // Large steps over uncached ranges, then smaller ones into the first cached range.
    let mut step_bytes = size.saturating_sub(at).next_power_of_two().max(part_bytes);
    while at < size {
        let range = at..at.saturating_add(step_bytes).min(size);
        match (counter.count(&range)?.0, step_bytes > part_bytes) {
            (0, _) => at = range.end,
            (_, true) => step_bytes = (step_bytes / FINER).max(part_bytes),
            (_, false) => return Ok(at),
        }
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn both_ways_to_count_agree_on_a_sparse_file() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = File::create_new(directory.path().join("sparse")).unwrap();
        drop(file);
        let file = File::options()
            .read(true)
            .write(true)
            .open(directory.path().join("sparse"))
            .unwrap();
        let size = 1 << 40;
        file.set_len(size).unwrap();
        for page in [0, 5, 6, 1 << 20, (1 << 28) - 1] {
            file.write_at(b"x", page * 4096).unwrap();
        }
        for range in [0..size, 0..4096, 4096..size, 8192..(6 * 4096), 0..0] {
            let known = Counter::with(file.as_fd(), false).count(&range).unwrap().0;
            let expected = [0, 5, 6, 1 << 20, (1 << 28) - 1].iter();
            let expected = expected
                .filter(|page| range.contains(&(**page * 4096)))
                .count() as u64;
            assert_eq!(known, expected, "{range:?}");
            if calls::cachestat(file.as_fd(), 0, 1).is_ok() {
                let stat = Counter::with(file.as_fd(), true).count(&range).unwrap();
                assert_eq!(stat.0, expected, "{range:?}");
            }
        }
    }

    #[test]
    fn the_next_part_with_pages_is_found_in_a_huge_file() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        let (size, part) = (1u64 << 50, 2 << 20);
        file.set_len(size).unwrap();
        assert_eq!(next_part(&file, 0, part).unwrap(), size);
        for at in [5 << 20, 1 << 40] {
            file.write_at(b"x", at).unwrap();
        }
        assert_eq!(next_part(&file, 0, part).unwrap(), 4 << 20);
        assert_eq!(next_part(&file, 6 << 20, part).unwrap(), 1 << 40);
        assert_eq!(next_part(&file, (1 << 40) + part, part).unwrap(), size);
    }
}
