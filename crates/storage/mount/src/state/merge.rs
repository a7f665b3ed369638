//! Merging of writes through the mount with stores through shared mappings of the same page.
//!
//! A `write` reaches the engine past the kernel's page. A store reaches it later, with the whole page around it as the
//! kernel had it. So until a written range is invalidated, its old content is kept. When the kernel writes such a page
//! back, only the bytes that differ from the old content were stored, and only these are written.
//!
//! ```text
//! write:      keep the old page; write; invalidate (dirty pages come back); let the old page go; answer
//! write-back: kept? then the page now, with the bytes in it that differ from the kept one; else all of it
//! ```
//!
//! The kernel lets one `write` at a time into a file that is mapped, so at most one old page is kept of each.
//!
//! What programs store behind the end of a file is not part of it. When the file grows, also by `ftruncate` or
//! `fallocate`, the page of the old end is kept as well. What is written back behind that end is dropped.

use egeria_engine::{Errno, FileReference, Outcome, Volume, lock_within_patience};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PAGE_BYTES: usize = 4096;
/// For longer changes, only the first and the last page are kept: the pages between are overwritten completely.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// What a page held before a write that is under way.
struct Kept {
    bytes: [u8; PAGE_BYTES],
    /// How many of them were part of the file.
    file_bytes: usize,
    writes: u32,
    /// The write is done, and the kernel has read the page since.
    is_read_anew: Arc<AtomicBool>,
    is_written: bool,
}

/// Writes under way into one mapped file.
#[derive(Default)]
pub(crate) struct Merge {
    /// Held while the engine is written to. No thread waits for the kernel while it holds this.
    writing: Mutex<()>,
    kept: Mutex<HashMap<u64, Kept>>,
}

/// Pages kept for one write; let go when dropped.
pub(crate) struct Keeping {
    merge: Arc<Merge>,
    pages: Vec<u64>,
    /// The first byte that the kernel may have wrong.
    pub(crate) from_bytes: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pages_of(offset_bytes: u64, bytes: usize) -> std::ops::Range<u64> {
    let page = PAGE_BYTES as u64;
    offset_bytes / page..offset_bytes.saturating_add(bytes as u64).div_ceil(page)
}

/// The pages of a change, and the page of the old end if the file may grow.
fn pages_to_keep(offset_bytes: u64, bytes: usize, size_bytes: u64) -> Vec<u64> {
    let mut pages: Vec<u64> = match (pages_of(offset_bytes, bytes), bytes) {
        (pages, ..=MAX_KEPT_BYTES) => pages.collect(),
        (pages, _) => vec![pages.start, pages.end - 1],
    };
    let end = size_bytes / PAGE_BYTES as u64;
    let grows = offset_bytes.saturating_add(bytes as u64) > size_bytes;
    if grows && !size_bytes.is_multiple_of(PAGE_BYTES as u64) && !pages.contains(&end) {
        pages.push(end);
    }
    pages
}

/// A page as the engine has it; zeros behind the end of file.
fn page_now(volume: &Volume, file: FileReference, page: u64) -> Outcome<[u8; PAGE_BYTES]> {
    let mut bytes = [0; PAGE_BYTES];
    let read = volume.read(file, page * PAGE_BYTES as u64, &mut bytes)?;
    bytes[read..].fill(0);
    Ok(bytes)
}

impl Merge {
    /// Change a range, and keep what was there until the answer is dropped, which must be after the invalidation.
    pub(crate) fn change<T>(
        self: &Arc<Self>,
        volume: &Volume,
        file: FileReference,
        (offset_bytes, bytes): (u64, usize),
        change: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<(T, Keeping)> {
        let _writing = lock_within_patience(&self.writing)?;
        let size_bytes = volume.size_bytes(file)?;
        let mut keeping = Keeping {
            merge: Arc::clone(self),
            pages: Vec::new(),
            from_bytes: offset_bytes.min(size_bytes),
        };
        for page in pages_to_keep(offset_bytes, bytes, size_bytes) {
            self.keep(volume, file, page, size_bytes)?;
            keeping.pages.push(page);
        }
        let changed = change()?;
        let mut kept = locked(&self.kept);
        for page in &keeping.pages {
            if let Some(entry) = kept.get_mut(page) {
                entry.is_written = true;
            }
        }
        drop(kept);
        Ok((changed, keeping))
    }

    fn keep(
        &self,
        volume: &Volume,
        file: FileReference,
        page: u64,
        size_bytes: u64,
    ) -> Outcome<()> {
        let bytes = page_now(volume, file, page)?;
        let file_bytes = size_bytes.saturating_sub(page * PAGE_BYTES as u64);
        let now = Kept {
            bytes,
            file_bytes: file_bytes.min(PAGE_BYTES as u64) as usize,
            writes: 0,
            is_read_anew: Arc::default(),
            is_written: false,
        };
        let mut kept = locked(&self.kept);
        match kept.get_mut(&page) {
            None => _ = kept.insert(page, Kept { writes: 1, ..now }),
            Some(entry) => {
                let writes = entry.writes + 1;
                // The kernel has read the page again, so its copy is current.
                if entry.is_read_anew.load(Ordering::Acquire) {
                    *entry = Kept { writes, ..now }
                } else {
                    entry.writes = writes;
                    (entry.is_read_anew, entry.is_written) = (Arc::default(), false);
                }
            }
        }
        Ok(())
    }

    /// Call before pages are read for the kernel. Returns those that the kernel will have as they are after the write.
    pub(crate) fn begin_read(&self, offset_bytes: u64, bytes: usize) -> Vec<Arc<AtomicBool>> {
        let kept = locked(&self.kept);
        if kept.is_empty() {
            return Vec::new();
        }
        pages_of(offset_bytes, bytes)
            .filter_map(|page| kept.get(&page))
            .filter(|entry| entry.is_written)
            .map(|entry| entry.is_read_anew.clone())
            .collect()
    }

    /// The kernel gets what was read.
    pub(crate) fn end_read(pages: Vec<Arc<AtomicBool>>) {
        for page in pages {
            page.store(true, Ordering::Release);
        }
    }

    /// Write back what the kernel sends of its pages: all that can be written, and the first error.
    pub(crate) fn write_back(
        &self,
        volume: &Volume,
        file: FileReference,
        offset_bytes: u64,
        data: &[u8],
    ) -> Outcome<()> {
        let _writing = lock_within_patience(&self.writing)?;
        let mut outcome = Ok(());
        let mut at = 0;
        while at < data.len() {
            let offset = offset_bytes + at as u64;
            let within = (offset % PAGE_BYTES as u64) as usize;
            let piece = (PAGE_BYTES - within).min(data.len() - at);
            let page = offset / PAGE_BYTES as u64;
            let stored = &data[at..at + piece];
            let (written, bytes) = match self.merged(volume, file, page, within, stored)? {
                Some(merged) => (volume.write_back(file, offset, &merged), piece),
                None => {
                    let plain = self.plain_bytes(offset, &data[at..]);
                    (
                        volume.write_back(file, offset, &data[at..at + plain]),
                        plain,
                    )
                }
            };
            if written == Err(Errno(libc::EAGAIN)) {
                // The thread that may wait repeats all of it.
                return written;
            }
            outcome = outcome.and(written);
            at += bytes;
        }
        outcome
    }

    /// Bytes from here up to the next page that is kept.
    fn plain_bytes(&self, offset_bytes: u64, data: &[u8]) -> usize {
        let kept = locked(&self.kept);
        let next = pages_of(offset_bytes, data.len())
            .skip(1)
            .find(|page| kept.contains_key(page));
        next.map_or(data.len(), |page| {
            (page * PAGE_BYTES as u64 - offset_bytes) as usize
        })
    }

    /// A part of a page as it is now, merged with the stored bytes; `None`: the page is not kept.
    fn merged(
        &self,
        volume: &Volume,
        file: FileReference,
        page: u64,
        within: usize,
        stored: &[u8],
    ) -> Outcome<Option<Vec<u8>>> {
        let end = within + stored.len();
        let kept = locked(&self.kept);
        let (old, file_bytes) = match kept.get(&page) {
            Some(entry) if !entry.is_read_anew.load(Ordering::Acquire) => {
                (entry.bytes, entry.file_bytes)
            }
            _ => return Ok(None),
        };
        drop(kept);
        let mut merged = page_now(volume, file, page)?[within..end].to_vec();
        // Bytes stored behind the old end were not part of the file.
        let before_end = file_bytes.saturating_sub(within);
        let old = &old[within..end];
        for ((now, old), stored) in merged.iter_mut().zip(old).zip(stored).take(before_end) {
            if old != stored {
                *now = *stored;
            }
        }
        Ok(Some(merged))
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        let mut kept = locked(&self.merge.kept);
        for page in &self.pages {
            if let Some(entry) = kept.get_mut(page) {
                entry.writes -= 1;
                if entry.writes == 0 {
                    kept.remove(page);
                }
            }
        }
    }
}
