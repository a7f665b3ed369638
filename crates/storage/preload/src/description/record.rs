//! An open description of ours, as this process knows it. Descriptors made from each other in this
//! process (`dup`) share one record.

use super::deferral::{Deferral, Openings};
use super::private_offset::PrivateOffset;
use super::read_position::Reading;
use crate::description::reply::PASS;
use crate::system::{errno, raw};
use crate::trust::{Place, settings};
use egeria_engine::control::NO_DESCRIPTION_SLOT;
use egeria_engine::{
    CallerDestination, DescriptionSlot, FileReference, InodeNumber, Outcome, Volume,
    WriteBackErrors,
};
use libc::c_int;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The most that one call moves, as in the kernel (`MAX_RW_COUNT`).
pub const MAX_BYTES: usize = 0x7fff_f000;

/// Records whose file the kernel has not opened.
pub static OPENINGS: Openings = Openings::new();

/// Whether there may be a record whose file the kernel has not opened.
#[inline(always)]
pub fn may_any_be_deferred() -> bool {
    OPENINGS.may_any_be_deferred()
}

/// One open description.
#[repr(align(64))]
pub struct Record {
    volume: &'static Volume,
    file: FileReference,
    readable: bool,
    writable: bool,
    appends: AtomicBool,
    /// Other processes may hold the description, and may change its flags.
    shared: AtomicBool,
    references: AtomicU32,
    /// The offset, while it is not the kernel's.
    pub(crate) offset: PrivateOffset,
    /// Whether the kernel has no open file yet, and the slot, or [`NO_DESCRIPTION_SLOT`].
    pub(crate) deferral: Deferral,
    /// This process locks ranges of the file, and the kernel has it open under all numbers.
    locks_ranges: AtomicBool,
    /// Status flags of the open.
    status: c_int,
    /// Where it was opened without the kernel.
    origin: Option<Origin>,
    ino: InodeNumber,
    /// Where the kernel has it.
    place: Place,
    /// Errors of write-back that this description knows of.
    write_back_errors: AtomicU64,
    /// Of a directory.
    reading: Option<Reading>,
    pub(crate) next: AtomicPtr<Record>,
}

/// Whether a range ends behind the largest offset: an error, which the kernel knows best.
#[inline(always)]
pub fn is_beyond(offset_bytes: u64, bytes: usize) -> bool {
    bytes as u64 > (i64::MAX as u64).saturating_sub(offset_bytes)
}

/// Where a file was opened without the kernel.
pub struct Origin {
    /// Directory of the mount.
    pub point: &'static CStr,
    /// Number of the mount that the kernel never gives out again.
    pub mount: u64,
    /// Life of the inode's number.
    pub generation: u32,
    /// Directory of the name it was opened by.
    pub parent: InodeNumber,
    pub name: Vec<u8>,
    /// The open made it, under a name.
    pub is_new: bool,
    /// It was made without a name and may be given its first (`O_TMPFILE` without `O_EXCL`).
    pub may_be_named: AtomicBool,
}

impl Origin {
    /// Whether the open made the file, under a name.
    pub fn was_created(&self) -> bool {
        self.is_new
    }
}

/// What a record begins with.
pub struct Found {
    /// The volume, attached.
    pub volume: &'static Volume,
    /// The inode, opened for this process.
    pub file: FileReference,
    pub ino: InodeNumber,
    /// Where the kernel has it.
    pub place: Place,
    /// A directory, whose offset is the cookie of its last entry told; else a regular file.
    pub is_directory: bool,
    /// Slot of the description, or [`NO_DESCRIPTION_SLOT`].
    pub slot: u32,
    /// Where it was opened without the kernel, when it was.
    pub origin: Option<Origin>,
    /// Status flags, as `F_GETFL` tells them.
    pub status: c_int,
    /// The mount refuses changes.
    pub read_only: bool,
    /// The kernel's position, when this process may keep the offset to itself.
    pub private_offset_bytes: Option<u64>,
    /// Other processes may hold the description.
    pub shared: bool,
}

impl Record {
    /// A record with one reference, for the table.
    pub fn make(found: Found) -> *mut Record {
        let access = found.status & libc::O_ACCMODE;
        Box::into_raw(Box::new(Record {
            volume: found.volume,
            file: found.file,
            // Linux has a fourth mode (3), in which neither is allowed.
            readable: !found.is_directory && matches!(access, libc::O_RDONLY | libc::O_RDWR),
            writable: matches!(access, libc::O_WRONLY | libc::O_RDWR) && !found.read_only,
            reading: found.is_directory.then(Reading::new),
            appends: AtomicBool::new(found.status & libc::O_APPEND != 0),
            shared: AtomicBool::new(found.shared),
            references: AtomicU32::new(1),
            offset: PrivateOffset::new(found.private_offset_bytes),
            deferral: OPENINGS.begin(found.origin.is_some(), found.slot),
            locks_ranges: AtomicBool::new(false),
            status: found.status,
            origin: found.origin,
            ino: found.ino,
            place: found.place,
            write_back_errors: AtomicU64::new(found.volume.write_back_errors(found.file).0),
            next: AtomicPtr::new(std::ptr::null_mut()),
        }))
    }

    /// Give the inode back to the engine and the memory to the allocator.
    ///
    /// # Safety
    /// Nobody else has the record, nor can get it.
    pub unsafe fn free(record: *mut Record) {
        // SAFETY: made by `make`, and the caller is the last.
        let record = unsafe { Box::from_raw(record) };
        if settings::is_off() {
            // The volume is left, or about to be, and with it all that this process holds open there.
            return;
        }
        let error = errno::get();
        let _ = catch_unwind(AssertUnwindSafe(|| record.volume.close(record.ino)));
        errno::set(error);
    }

    /// One more table word names the record; false when it is already going.
    pub fn add_reference(&self) -> bool {
        let more = |count: u32| (count != 0).then_some(count + 1);
        self.references
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// One table word less; true for the last.
    pub fn drop_reference(&self) -> bool {
        self.references.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The volume.
    #[inline(always)]
    pub fn volume(&self) -> &'static Volume {
        self.volume
    }

    /// Whether it is a directory.
    #[inline(always)]
    pub fn is_directory(&self) -> bool {
        self.reading.is_some()
    }

    /// It is a place for paths alone (`O_PATH`): the kernel refuses all other calls.
    #[inline(always)]
    pub fn is_path(&self) -> bool {
        self.status & libc::O_PATH != 0
    }

    /// How far the directory was read, if it is one.
    pub fn reading(&self) -> Option<&Reading> {
        self.reading.as_ref()
    }

    /// May be read; else the kernel finds the error.
    #[inline(always)]
    pub fn is_readable(&self) -> bool {
        self.readable
    }

    /// May be written; else the kernel finds the error.
    #[inline(always)]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Slot of the description, where the session has one.
    #[inline(always)]
    pub fn slot(&self) -> Option<DescriptionSlot> {
        match self.deferral.slot() {
            NO_DESCRIPTION_SLOT => None,
            slot => Some(DescriptionSlot(slot)),
        }
    }

    /// Status flags of the open.
    pub fn status(&self) -> c_int {
        self.status
    }

    /// Where it was opened without the kernel.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// The kernel has no open file yet.
    #[inline(always)]
    pub fn is_deferred(&self) -> bool {
        self.deferral.is_on()
    }

    /// Whether this process has locked ranges of the file by this record, and the kernel has it open under all numbers.
    pub fn locks_ranges(&self) -> bool {
        self.locks_ranges.load(Ordering::Acquire)
    }

    pub fn note_range_locks(&self) {
        self.locks_ranges.store(true, Ordering::Release);
    }

    pub fn ino(&self) -> InodeNumber {
        self.ino
    }

    /// Where the kernel has it.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether it is the same inode of the same volume.
    pub fn same_file(&self, other: &Record) -> bool {
        std::ptr::eq(self.volume, other.volume) && self.ino == other.ino
    }

    /// Other processes got hold of the description.
    pub fn mark_shared(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// `F_SETFL` was called.
    pub fn set_status(&self, status: c_int) {
        self.appends
            .store(status & libc::O_APPEND != 0, Ordering::Relaxed);
    }

    /// Whether writes go to the end. Asks the kernel when others may have changed it.
    #[inline(always)]
    pub fn appends(&self, fd: c_int) -> bool {
        if self.shared.load(Ordering::Relaxed) {
            let status = raw::fcntl(fd, libc::F_GETFL, 0);
            return status >= 0 && status as c_int & libc::O_APPEND != 0;
        }
        self.appends.load(Ordering::Relaxed)
    }

    /// Whether it may be written, and writes go to their offset. Makes no call: `false` where the kernel would have to say.
    #[inline(always)]
    pub fn writes_at_offset(&self) -> bool {
        self.writes_unshared() && !self.appends.load(Ordering::Relaxed)
    }

    /// As [`Record::writes_at_offset`], and writes go to the end of file.
    #[inline(always)]
    pub fn writes_at_end(&self) -> bool {
        self.writes_unshared() && self.appends.load(Ordering::Relaxed)
    }

    /// Whether it may be written, and no other process can change how.
    #[inline(always)]
    fn writes_unshared(&self) -> bool {
        self.writable && !self.is_path() && !self.shared.load(Ordering::Relaxed)
    }

    /// Size of the file.
    pub fn size_bytes(&self) -> Outcome<u64> {
        self.volume.size_bytes(self.file)
    }

    /// The kernel may hold pages of it.
    pub fn is_kernel_cached(&self) -> bool {
        self.volume.is_kernel_cached(self.file)
    }

    /// Errors of write-back that this description knows of; it knows of `errors` from now on.
    pub fn learn_write_back_errors(&self, errors: WriteBackErrors) -> WriteBackErrors {
        let word = errors.seen().0;
        WriteBackErrors(self.write_back_errors.swap(word, Ordering::Relaxed))
    }

    /// Whether there were none since the description was opened, or asked last, and there were none for it before.
    pub fn knows_write_back_errors(&self, errors: WriteBackErrors) -> bool {
        self.write_back_errors.load(Ordering::Relaxed) == errors.0 && !errors.is_unseen()
    }

    /// Read at an offset, if it goes the quick way.
    #[inline(always)]
    pub fn read_quickly(&self, offset_bytes: u64, buffer: *mut u8, bytes: usize) -> Option<usize> {
        // SAFETY: the program gave the address to be written; a bad one is met by the handler installed at attach.
        let to = unsafe { CallerDestination::new(buffer, bytes) };
        self.volume.read_quickly(self.file, offset_bytes, to)
    }

    /// Read at an offset.
    #[inline(always)]
    pub fn read_at(&self, offset_bytes: u64, buffer: *mut u8, bytes: usize) -> Outcome<usize> {
        if is_beyond(offset_bytes, bytes) {
            return Err(PASS);
        }
        // SAFETY: the program gave the address to be written; a bad one is met by the handler installed at attach.
        let to = unsafe { CallerDestination::new(buffer, bytes.min(MAX_BYTES)) };
        self.volume.read_direct(self.file, offset_bytes, to)
    }

    /// The file, for the engine.
    #[inline(always)]
    pub fn file(&self) -> FileReference {
        self.file
    }

    /// Count a call that was served here.
    #[inline(always)]
    pub fn count_direct(&self) {
        self.volume.count_direct();
    }

    /// Count a call that was passed on.
    pub fn count_passed(&self) {
        self.volume.count_passed();
    }
}
