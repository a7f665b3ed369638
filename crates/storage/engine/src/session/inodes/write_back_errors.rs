//! Errors of pages that a kernel could not write back. The program that stored may be gone, so each handle that was
//! open reports the error once. If no open handle checked, the next handle opened reports it. Works like the kernel's
//! `errseq_t`, for handles that the kernel does not have.

use crate::session::volume::{FileReference, Volume};
use crate::types::{Errno, InodeNumber};
use std::sync::atomic::Ordering;

const SEEN: u64 = 1;
const COUNT_UNIT: u64 = 2;
const COUNT: u64 = 0x00ff_fffe;
const ERRNO_SHIFT: u32 = 24;
const GENERATION_SHIFT: u32 = 32;

/// Errors of an inode's write-back at an instant: its life, the last errno, their number, and whether a handle has
/// seen the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteBackErrors(pub u64);

impl WriteBackErrors {
    /// Whether there was another error since `before`.
    pub fn is_new_since(self, before: WriteBackErrors) -> bool {
        self.0 & !SEEN != before.0 & !SEEN && self.0 != 0
    }

    /// Whether no handle has seen the last error.
    pub fn is_unseen(self) -> bool {
        self.0 != 0 && self.0 & SEEN == 0
    }

    /// These errors, marked as seen by a handle.
    pub fn seen(self) -> WriteBackErrors {
        match self.0 {
            0 => self,
            word => WriteBackErrors(word | SEEN),
        }
    }

    /// The last error.
    pub fn errno(self) -> Errno {
        Errno((self.0 >> ERRNO_SHIFT & 0xff) as i32)
    }

    fn with_another(self, errno: Errno, generation: u32) -> WriteBackErrors {
        let count = if self.0 >> GENERATION_SHIFT == u64::from(generation) {
            self.0.wrapping_add(COUNT_UNIT) & COUNT
        } else {
            COUNT_UNIT
        };
        let errno = u64::from(errno.0.clamp(1, 0xff) as u32) << ERRNO_SHIFT;
        WriteBackErrors(u64::from(generation) << GENERATION_SHIFT | errno | count)
    }
}

impl Volume {
    /// Note that a kernel's page could not be written back.
    pub fn note_write_back_error(&self, ino: InodeNumber, errno: Errno) {
        let Ok(inode) = self.inode(ino.0) else { return };
        let generation = inode.generation.load(Ordering::Relaxed);
        let more = |word| Some(WriteBackErrors(word).with_another(errno, generation).0);
        let errors = &inode.write_back_errors;
        let _ = errors.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
    }

    /// The errors so far, of this generation of the inode.
    #[inline]
    pub fn write_back_errors(&self, file: FileReference) -> WriteBackErrors {
        let inode = file.inode();
        let word = inode.write_back_errors.load(Ordering::Acquire);
        let generation = inode.generation.load(Ordering::Relaxed);
        if word >> GENERATION_SHIFT == u64::from(generation) {
            WriteBackErrors(word)
        } else {
            WriteBackErrors::default()
        }
    }

    /// Report the last of these errors to a handle; `false`: another handle saw it before.
    pub fn see_write_back_error(&self, file: FileReference, errors: WriteBackErrors) -> bool {
        let word = &file.inode().write_back_errors;
        let seen = errors.seen().0;
        let changed = word.compare_exchange(errors.0, seen, Ordering::AcqRel, Ordering::Relaxed);
        errors.is_unseen() && changed.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use crate::test_volume::{FILE, new_volume};
    use crate::*;

    #[test]
    fn each_error_is_new_once_and_goes_with_the_inode() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = new_volume(&directory);
        let made = volume.create(InodeNumber::ROOT, b"file", &FILE);
        let ino = made.expect("create").ino;
        let file = volume.open(ino, None).expect("open");
        let before = volume.write_back_errors(file);
        assert!(!before.is_unseen());
        volume.note_write_back_error(ino, Errno(libc::ENOSPC));
        let after = volume.write_back_errors(file);
        assert!(after.is_new_since(before) && after.is_unseen());
        assert_eq!(after.errno(), Errno(libc::ENOSPC));
        assert!(volume.see_write_back_error(file, after));
        assert!(!volume.see_write_back_error(file, after));
        let seen = volume.write_back_errors(file);
        assert!(!seen.is_unseen() && !seen.is_new_since(after));
        volume.note_write_back_error(ino, Errno(libc::ENOSPC));
        assert!(volume.write_back_errors(file).is_new_since(seen));
        // Its number gets another life.
        volume.close(ino);
        volume.unlink(InodeNumber::ROOT, b"file").expect("unlink");
        let next = |number: u32| {
            let name = format!("next{number}");
            let made = volume.create(InodeNumber::ROOT, name.as_bytes(), &FILE);
            made.expect("create").ino
        };
        let again = (0..1000)
            .map(next)
            .find(|next| *next == ino)
            .expect("the number again");
        let file = volume.open(again, None).expect("open");
        assert_eq!(volume.write_back_errors(file), WriteBackErrors::default());
        volume.close(again);
    }
}
