//! `/proc/PID/pagemap`: which addresses have pages. This makes large mappings with few pages cheap.
//! Empty ranges are found by a question of its own, since the kernel writes an entry for each page that is not there.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use super::calls;

/// What its entries are about.
const SMALL_PAGE: usize = 4096;
/// Bit of an entry: there is a page.
const PRESENT: u64 = 1 << 63;

/// The addresses of a range that have pages; both its ends are multiples of the size of pages.
pub(crate) fn pages(
    pagemap: &File,
    range: Range<usize>,
    page_bytes: usize,
) -> io::Result<Vec<usize>> {
    const ENTRY: usize = size_of::<u64>();
    if calls::is_empty(pagemap.as_fd(), &range) {
        return Ok(Vec::new());
    }
    let stride = page_bytes / SMALL_PAGE;
    let mut entries = vec![0_u8; (range.end - range.start).div_ceil(SMALL_PAGE) * ENTRY];
    let at = (range.start / SMALL_PAGE * ENTRY) as u64;
    let mut filled = 0;
    while filled < entries.len() {
        match pagemap.read_at(&mut entries[filled..], at + filled as u64) {
            // The process ended.
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    let entries = entries[..filled].chunks_exact(ENTRY).step_by(stride);
    let pages = entries.enumerate().filter_map(|(number, entry)| {
        let entry = u64::from_ne_bytes(entry.try_into().ok()?);
        (entry & PRESENT != 0).then_some(range.start + number * page_bytes)
    });
    Ok(pages.collect())
}
