//! Reading and writing.

use crate::kernel::negotiation::REQUEST_BYTES;
use crate::replies::failures::Operation;
use crate::state::adapter::Adapter;
use crate::state::coherence::{Range, Writing};
use crate::state::merge::{Keeping, Merge};
use crate::state::open_files::OpenFile;
use crate::state::privilege::Caller;
use egeria_engine::{AllocateMode, Errno, FileReference, InodeNumber, Outcome, within_patience};
use fuser::{ReplyWrite, WriteFlags};
use std::cell::RefCell;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Most bytes one COPY_FILE_RANGE copies before it answers; the caller asks again.
const COPY_BYTES: u64 = 64 << 20;

/// How long a write waits for its inode while the kernel gets no pages because of it.
const ALONE_PATIENCE: Duration = Duration::from_millis(5);

const PAGE_BYTES: u64 = 4096;

/// How long the answer to a write through pages waits for the gap before it. The kernel has the page of the gap locked
/// if the data begins in it and the kernel has dropped it since it was given.
const GAP_PATIENCE: Duration = Duration::from_millis(200);

/// Call what is still to be called.
fn give<F: FnOnce()>(answer: &Mutex<Option<F>>) {
    let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(answer) = answer {
        answer();
    }
}

thread_local! {
    /// Data on its way from a pool to the kernel.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The properties of a WRITE request other than its range and data.
#[derive(Clone, Copy)]
pub(crate) struct WriteManner {
    pub caller: Caller,
    pub write_flags: WriteFlags,
    /// Flags of the open file now, `F_SETFL` included.
    pub open_flags: i32,
    /// It came from a caller's memory, not through pages. The kernel keeps pages locked until the answer.
    pub direct: bool,
}

/// A change to announce to the kernel.
pub(crate) struct Changed {
    open: Arc<OpenFile>,
    range: Range,
    /// The range is one that was skipped by a write through pages.
    is_gap: bool,
    /// Dropped after the announcement.
    _keeping: Vec<Keeping>,
}

impl Changed {
    /// The kept pages may begin before the range, at the old end of file.
    fn new(open: Arc<OpenFile>, range: Range, keeping: Vec<Keeping>) -> Changed {
        let from = keeping.iter().map(|keeping| keeping.from_bytes).min();
        let before = from.map_or(0, |from| range.offset_bytes.saturating_sub(from));
        let range = Range {
            offset_bytes: range.offset_bytes - before,
            length_bytes: range.length_bytes.saturating_add(before),
        };
        Changed {
            open,
            range,
            is_gap: false,
            _keeping: keeping,
        }
    }
}

/// What a write did.
pub(crate) struct Written {
    pub bytes: usize,
    pub changed: Option<Changed>,
}

/// A range of one file that is copied to another.
#[derive(Clone, Copy)]
pub(crate) struct Copy {
    pub from: u64,
    pub from_offset_bytes: u64,
    pub to: u64,
    pub to_offset_bytes: u64,
    pub length_bytes: u64,
}

impl Adapter {
    /// Read, and hand what was read to `answer`. Fewer bytes than asked for: end of file.
    pub(crate) fn read<T>(
        &self,
        handle: u64,
        offset_bytes: u64,
        size_bytes: u32,
        for_pages: bool,
        answer: impl FnOnce(&[u8]) -> T,
    ) -> Outcome<T> {
        BUFFER.with_borrow_mut(|buffer| {
            let bytes = (size_bytes as usize).min(16 * REQUEST_BYTES);
            if buffer.len() < bytes {
                buffer.resize(bytes, 0);
            }
            let (read, stores) =
                self.read_into(handle, offset_bytes, &mut buffer[..bytes], for_pages)?;
            let answered = answer(&buffer[..read]);
            if let Some(ino) = stores {
                self.leases.changed_by_kernel(ino, &self.kernel);
            }
            Ok(answered)
        })
    }

    /// Returns the bytes read, and the inode if its attributes are to be forgotten after the answer.
    ///
    /// The kernel takes the size of the file from an answer that is shorter than what it asked for, unless it is
    /// notified in the meantime.
    fn read_into(
        &self,
        handle: u64,
        offset_bytes: u64,
        buffer: &mut [u8],
        for_pages: bool,
    ) -> Outcome<(usize, Option<InodeNumber>)> {
        let open = self.files.get(handle)?;
        if !for_pages {
            let read = self.volume.read(open.file, offset_bytes, buffer)?;
            return Ok((read, None));
        }
        self.coherence.mark(open.ino, &open.mark)?;
        if open.keeps_pages {
            let file_bytes = self.volume.size_bytes(open.file)?;
            self.leases.cover_pages(open.ino, file_bytes);
        } else {
            self.leases.note_other_pages(open.ino)
        }
        let end_bytes = offset_bytes.saturating_add(buffer.len() as u64);
        let pages = offset_bytes / PAGE_BYTES..end_bytes.div_ceil(PAGE_BYTES);
        self.leases.note_given(open.ino, pages);
        let is_stored_to = self.note_given(&open, offset_bytes, buffer.len());
        let merge = self.coherence.merge(open.ino);
        let pages = merge.map(|merge| merge.begin_read(offset_bytes, buffer.len()));
        let read = self.volume.read(open.file, offset_bytes, buffer)?;
        Merge::end_read(pages.unwrap_or_default());
        if is_stored_to && read < buffer.len() {
            return Ok((read, Some(open.ino)));
        }
        if is_stored_to {
            self.leases.changed_by_kernel(open.ino, &self.kernel);
        }
        Ok((read, None))
    }

    /// Write; durable when answered. Write-back of the kernel's own pages needs no invalidation.
    pub(crate) fn write(
        &self,
        handle: u64,
        offset_bytes: u64,
        data: &[u8],
        manner: WriteManner,
    ) -> Outcome<Written> {
        let open = self.files.get(handle)?;
        if manner.write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            let (_, bytes) = self.write_back(&open, offset_bytes, data)?;
            return Ok(Written {
                bytes,
                changed: None,
            });
        }
        let appends = manner.open_flags & libc::O_APPEND != 0;
        if open.keeps_pages && !manner.direct && !appends {
            return self.write_through(open, offset_bytes, data, manner);
        }
        let ((landed_bytes, bytes), keeping) = self.write_now(&open, offset_bytes, data, manner)?;
        // Pages with the data may lie where the kernel took the end to be.
        if open.keeps_pages {
            let end_bytes = landed_bytes.saturating_add(bytes as u64);
            self.leases.cover_pages(open.ino, end_bytes);
        }
        let begin = landed_bytes.min(offset_bytes);
        let range = Range {
            offset_bytes: begin,
            length_bytes: landed_bytes.max(offset_bytes) - begin + bytes as u64,
        };
        let changed = Changed::new(open, range, keeping.into_iter().collect());
        Ok(Written {
            bytes,
            changed: Some(changed),
        })
    }

    /// Notify the kernel of a change, then call `answer`.
    pub(crate) fn after_invalidation(
        &self,
        changed: Option<Changed>,
        answer: impl FnOnce() + Send + 'static,
    ) {
        let Some(changed) = changed else {
            return answer();
        };
        let (open, range) = (changed.open.clone(), changed.range);
        self.coherence
            .changed_then(open.ino, open.file, range, move || {
                drop(changed);
                answer();
            });
    }

    /// Write what the kernel's pages have already. They are not invalidated: stores through mappings are in the same
    /// pages. But if there is a gap between the end of file and the data, mappings may have stored into it.
    fn write_through(
        &self,
        open: Arc<OpenFile>,
        offset_bytes: u64,
        data: &[u8],
        manner: WriteManner,
    ) -> Outcome<Written> {
        let setid = WriteFlags::FUSE_WRITE_KILL_SUIDGID;
        let clears = manner.write_flags.contains(setid);
        self.clear_privileges(manner.caller, open.file, || clears)?;
        let size_bytes = self.volume.size_bytes(open.file)?;
        let end_bytes = offset_bytes.saturating_add(data.len() as u64);
        if offset_bytes.div_ceil(PAGE_BYTES) < end_bytes / PAGE_BYTES {
            // The kernel has the whole pages without having read them. Before the write: from now on a change past the
            // kernel drops them first.
            self.leases.cover_pages(open.ino, size_bytes.max(end_bytes));
        }
        let write = || self.volume.write(open.file, offset_bytes, data);
        let last_page = size_bytes / PAGE_BYTES;
        let has_gap = offset_bytes > size_bytes
            && !size_bytes.is_multiple_of(PAGE_BYTES)
            && self.leases.may_have_page(open.ino, last_page);
        let (bytes, changed) = if has_gap {
            let range = || Ok((offset_bytes, 0));
            let (bytes, keeping) = self.change_beside((open.ino, open.file), range, write)?;
            self.leases.forget_page(open.ino, last_page);
            let page_end = (last_page + 1) * PAGE_BYTES;
            let gap = Range {
                offset_bytes: size_bytes,
                length_bytes: page_end.min(offset_bytes) - size_bytes,
            };
            let mut changed = Changed::new(open.clone(), gap, keeping.into_iter().collect());
            changed.is_gap = true;
            (bytes, Some(changed))
        } else {
            (write()?, None)
        };
        self.leases.wrote_through(open.ino);
        Ok(Written { bytes, changed })
    }

    /// Answer a write after its invalidation if the kernel does not wait for the answer with a page locked.
    pub(crate) fn answer_written(&self, reply: ReplyWrite, written: Written, is_direct: bool) {
        let Written { bytes, changed } = written;
        let answer = move || reply.written(bytes as u32);
        if is_direct {
            return self.after_invalidation(changed, answer);
        }
        match changed {
            Some(changed) if changed.is_gap => self.answer_within(GAP_PATIENCE, changed, answer),
            changed => {
                answer();
                self.after_invalidation(changed, || ());
            }
        }
    }

    /// Notify the kernel of a change, then call `answer`; also if that takes longer than this.
    fn answer_within(
        &self,
        patience: Duration,
        changed: Changed,
        answer: impl FnOnce() + Send + 'static,
    ) {
        let answer = Arc::new(Mutex::new(Some(answer)));
        let (done, is_done) = channel();
        let at_end = answer.clone();
        self.after_invalidation(Some(changed), move || {
            give(&at_end);
            let _ = done.send(());
        });
        let _ = is_done.recv_timeout(patience);
        give(&answer);
    }

    /// Returns where the data landed, how much, and the pages kept for the merge. An append lands at the end that the
    /// engine knows; the kernel's may be old.
    fn write_now(
        &self,
        open: &OpenFile,
        offset_bytes: u64,
        data: &[u8],
        manner: WriteManner,
    ) -> Outcome<((u64, usize), Option<Keeping>)> {
        let setid = WriteFlags::FUSE_WRITE_KILL_SUIDGID;
        let clears = manner.write_flags.contains(setid);
        self.clear_privileges(manner.caller, open.file, || clears)?;
        let appends = manner.open_flags & libc::O_APPEND != 0;
        let range = || {
            let at = if appends {
                self.volume.size_bytes(open.file)?
            } else {
                offset_bytes
            };
            Ok((at, data.len()))
        };
        self.change_beside((open.ino, open.file), range, || {
            if appends {
                self.volume.append(open.file, data)
            } else {
                let written = self.volume.write(open.file, offset_bytes, data)?;
                Ok((offset_bytes, written))
            }
        })
    }

    /// Change the content so that pages that the kernel writes back later do not undo it.
    ///
    /// If the kernel has no pages, it gets none during the change. This is safe only while the change does not wait.
    /// The process that holds the inode may write from a mapping and need such a page, or it may be stopped for long.
    /// So this waits for the inode with pages allowed, and then checks again whether the kernel has any.
    pub(crate) fn change_beside<T>(
        &self,
        (ino, file): (InodeNumber, FileReference),
        range: impl Fn() -> Outcome<(u64, usize)>,
        change: impl Fn() -> Outcome<T>,
    ) -> Outcome<(T, Option<Keeping>)> {
        loop {
            let alone = match self.coherence.writing(ino) {
                Writing::Alone(alone) => alone,
                Writing::Beside(merge) => {
                    let (changed, keeping) = merge.change(&self.volume, file, range()?, change)?;
                    return Ok((changed, Some(keeping)));
                }
            };
            if let Some(outcome) = within_patience(ALONE_PATIENCE, &change) {
                return outcome.map(|changed| (changed, None));
            }
            drop(alone);
            self.volume.wait_for_inode(ino)?;
        }
    }

    /// A dirty page is written back. Bytes beyond the end, after a truncation past the kernel, are dropped, as the
    /// kernel does.
    fn write_back(&self, open: &OpenFile, offset_bytes: u64, data: &[u8]) -> Outcome<(u64, usize)> {
        self.coherence.mark(open.ino, &open.mark)?;
        let room_bytes = self
            .volume
            .size_bytes(open.file)?
            .saturating_sub(offset_bytes);
        let kept = &data[..data
            .len()
            .min(usize::try_from(room_bytes).unwrap_or(usize::MAX))];
        if let Some(merge) = self.coherence.merge(open.ino) {
            let written = merge.write_back(&self.volume, open.file, offset_bytes, kept);
            self.changed(open.ino);
            written?;
        }
        Ok((offset_bytes, data.len()))
    }

    /// Pages could not be written back. Each handle gets the error once; handles of the kernel get it from the kernel.
    pub(crate) fn note_lost_stores(&self, operation: Operation, ino: InodeNumber, errno: Errno) {
        self.volume.note_write_back_error(ino, errno);
        self.failures.log_lost_stores(operation, errno);
    }

    /// Whether programs may have stored into holes through mappings, which no request has reported yet.
    pub(crate) fn may_have_stores(&self, ino: InodeNumber) -> bool {
        self.coherence.has_given_holes(ino) && self.leases.has_writers(ino)
    }

    /// The kernel gets pages of this range. Stores into holes change attributes, and no request reports such stores.
    /// Returns whether the kernel must be made to forget cached attributes for that.
    fn note_given(&self, open: &OpenFile, offset_bytes: u64, bytes: usize) -> bool {
        // Data stored behind the end of file does not count.
        let end = offset_bytes.saturating_add(bytes as u64);
        let has_hole = self.volume.has_hole(open.file, offset_bytes..end);
        has_hole.unwrap_or(true) && self.coherence.note_given_hole(open.ino)
    }

    /// `fallocate`. The kernel drops the pages of a hole itself; pages that it read during the change are dropped
    /// here.
    pub(crate) fn allocate(
        &self,
        caller: Caller,
        handle: u64,
        range: Range,
        mode: i32,
    ) -> Outcome<Changed> {
        let open = self.files.get(handle)?;
        let mode = AllocateMode::of_flags(mode).ok_or(Errno(libc::EOPNOTSUPP))?;
        self.clear_privileges(caller, open.file, || !caller.keeps_setid())?;
        let (at, length_bytes) = (range.offset_bytes, range.length_bytes);
        let bytes = usize::try_from(length_bytes).unwrap_or(usize::MAX);
        let allocate = || self.volume.allocate(open.file, at, length_bytes, mode);
        let allocated = self.change_beside((open.ino, open.file), || Ok((at, bytes)), allocate);
        self.changed(open.ino);
        let (_, keeping) = allocated?;
        Ok(Changed::new(open, range, keeping.into_iter().collect()))
    }

    /// `SEEK_DATA` and `SEEK_HOLE`; the kernel knows the rest.
    pub(crate) fn seek(&self, handle: u64, offset: i64, whence: i32) -> Outcome<i64> {
        let open = self.files.get(handle)?;
        let offset_bytes = u64::try_from(offset).map_err(|_| Errno(libc::ENXIO))?;
        let found = match whence {
            libc::SEEK_DATA => self.volume.seek_data(open.file, offset_bytes)?,
            libc::SEEK_HOLE => self.volume.seek_hole(open.file, offset_bytes)?,
            _ => return Err(Errno(libc::EINVAL)),
        };
        i64::try_from(found).map_err(|_| Errno(libc::EOVERFLOW))
    }

    /// Copy inside the volume. The kernel would read the source through its page cache, and during the copy every
    /// process would have to go through the kernel for it.
    pub(crate) fn copy(&self, caller: Caller, copy: &Copy) -> Outcome<Written> {
        let to = self.files.get(copy.to)?;
        let from = self.files.get(copy.from)?;
        self.clear_privileges(caller, to.file, || !caller.keeps_setid())?;
        let mut keeping = Vec::new();
        let bytes = self.copy_between(&from, &to, copy, &mut keeping)?;
        let range = Range {
            offset_bytes: copy.to_offset_bytes,
            length_bytes: bytes,
        };
        let changed = Changed::new(to, range, keeping);
        Ok(Written {
            bytes: bytes as usize,
            changed: Some(changed),
        })
    }

    /// Returns the bytes copied. These are fewer than requested at the end of the source, or if a later part failed.
    fn copy_between(
        &self,
        from: &OpenFile,
        to: &OpenFile,
        copy: &Copy,
        keepings: &mut Vec<Keeping>,
    ) -> Outcome<u64> {
        let length_bytes = copy.length_bytes.min(COPY_BYTES);
        let mut copied = 0;
        while copied < length_bytes {
            let rest = (length_bytes - copied).min(REQUEST_BYTES as u64) as usize;
            let source = copy.from_offset_bytes + copied;
            let target = copy.to_offset_bytes + copied;
            let part = BUFFER.with_borrow_mut(|buffer| {
                buffer.resize(buffer.len().max(REQUEST_BYTES), 0);
                let read = self.volume.read(from.file, source, &mut buffer[..rest])?;
                if read == 0 {
                    return Ok(0);
                }
                let range = || Ok((target, read));
                let ((_, written), keeping) =
                    self.change_beside((to.ino, to.file), range, || {
                        let written = self.volume.write(to.file, target, &buffer[..read])?;
                        Ok((target, written))
                    })?;
                keepings.extend(keeping);
                Ok(written)
            });
            match part {
                Ok(0) => break,
                Ok(part) => copied += part as u64,
                Err(error) if copied == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(copied)
    }
}
