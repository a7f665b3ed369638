//! Writes through the mount beside stores through shared mappings of the same page.
//!
//! A `write` reaches the engine past the kernel's page; a store reaches it later, with the whole page around it as
//! the kernel had it. So while a range that was written is not yet invalidated, what it held before is kept: of a
//! page that comes back then, only bytes that differ from it were stored, and only they are written.
//!
//! ```text
//! write:      keep the old page; write; invalidate (dirty pages come back); let the old page go; answer
//! write-back: kept? then the page now, with the bytes in it that differ from the kept one; else all of it
//! ```
//!
//! The kernel lets one `write` at a time into a file that is mapped, so at most one old page is kept of each.

use egeria_fs::{FileReference, Outcome, Volume, lock_within_patience};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PAGE_BYTES: usize = 4096;

/// What a page held before a write that is under way.
struct Kept {
    bytes: [u8; PAGE_BYTES],
    writes: u32,
    /// The write is done, and the kernel has read the page since.
    is_read_anew: Arc<AtomicBool>,
    is_written: bool,
}

/// Writes under way into one mapped file.
#[derive(Default)]
pub(crate) struct Merge {
    /// Held while the engine is written to. Nobody waits for the kernel with it.
    writing: Mutex<()>,
    kept: Mutex<HashMap<u64, Kept>>,
}

/// Pages kept for one write; let go when dropped.
pub(crate) struct Keeping {
    merge: Arc<Merge>,
    pages: Vec<u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pages_of(offset_bytes: u64, bytes: usize) -> std::ops::Range<u64> {
    let page = PAGE_BYTES as u64;
    offset_bytes / page..offset_bytes.saturating_add(bytes as u64).div_ceil(page)
}

/// A page as the engine has it; zeros behind the end of file.
fn page_now(volume: &Volume, file: FileReference, page: u64) -> Outcome<[u8; PAGE_BYTES]> {
    let mut bytes = [0; PAGE_BYTES];
    let read = volume.read(file, page * PAGE_BYTES as u64, &mut bytes)?;
    bytes[read..].fill(0);
    Ok(bytes)
}

impl Merge {
    /// Write, and keep what was there until the answer is dropped, which must be after the invalidation. `write`
    /// says where it wrote.
    pub(crate) fn write(
        self: &Arc<Self>,
        volume: &Volume,
        file: FileReference,
        (offset_bytes, bytes): (u64, usize),
        write: impl FnOnce() -> Outcome<(u64, usize)>,
    ) -> Outcome<((u64, usize), Keeping)> {
        let _writing = lock_within_patience(&self.writing)?;
        let mut keeping = Keeping {
            merge: Arc::clone(self),
            pages: Vec::new(),
        };
        for page in pages_of(offset_bytes, bytes) {
            let now = page_now(volume, file, page)?;
            let mut kept = locked(&self.kept);
            let entry = kept.entry(page).or_insert_with(|| Kept {
                bytes: now,
                writes: 0,
                is_read_anew: Arc::default(),
                is_written: false,
            });
            if entry.is_read_anew.load(Ordering::Acquire) {
                // The kernel has the page as it is now.
                entry.bytes = now;
            }
            (entry.is_read_anew, entry.is_written) = (Arc::default(), false);
            entry.writes += 1;
            keeping.pages.push(page);
        }
        let written = write()?;
        let mut kept = locked(&self.kept);
        for page in &keeping.pages {
            if let Some(entry) = kept.get_mut(page) {
                entry.is_written = true;
            }
        }
        drop(kept);
        Ok((written, keeping))
    }

    /// Before pages are read for the kernel: those that it will have as they are after the write.
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

    /// Write back what the kernel sends of its pages.
    pub(crate) fn write_back(
        &self,
        volume: &Volume,
        file: FileReference,
        offset_bytes: u64,
        data: &[u8],
    ) -> Outcome<()> {
        let _writing = lock_within_patience(&self.writing)?;
        let mut at = 0;
        while at < data.len() {
            let offset = offset_bytes + at as u64;
            let within = (offset % PAGE_BYTES as u64) as usize;
            let piece = (PAGE_BYTES - within).min(data.len() - at);
            let page = offset / PAGE_BYTES as u64;
            let stored = &data[at..at + piece];
            match self.merged(volume, file, page, within, stored)? {
                Some(merged) => write_all(volume, file, offset, &merged)?,
                None => {
                    let plain = self.plain_bytes(offset, &data[at..]);
                    write_all(volume, file, offset, &data[at..at + plain])?;
                    at += plain;
                    continue;
                }
            }
            at += piece;
        }
        Ok(())
    }

    /// Bytes from here on up to the next page of which something is kept.
    fn plain_bytes(&self, offset_bytes: u64, data: &[u8]) -> usize {
        let kept = locked(&self.kept);
        let next = pages_of(offset_bytes, data.len())
            .skip(1)
            .find(|page| kept.contains_key(page));
        next.map_or(data.len(), |page| {
            (page * PAGE_BYTES as u64 - offset_bytes) as usize
        })
    }

    /// A part of a page as it is now with what was stored in it; `None`: nothing is kept of it.
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
        let old = match kept.get(&page) {
            Some(entry) if !entry.is_read_anew.load(Ordering::Acquire) => entry.bytes,
            _ => return Ok(None),
        };
        drop(kept);
        let mut merged = page_now(volume, file, page)?[within..end].to_vec();
        for ((now, old), stored) in merged.iter_mut().zip(&old[within..end]).zip(stored) {
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

fn write_all(volume: &Volume, file: FileReference, offset_bytes: u64, data: &[u8]) -> Outcome<()> {
    let mut done = 0;
    while done < data.len() {
        match volume.write(file, offset_bytes + done as u64, &data[done..])? {
            0 => return Err(egeria_fs::Errno(libc::EIO)),
            written => done += written,
        }
    }
    Ok(())
}
