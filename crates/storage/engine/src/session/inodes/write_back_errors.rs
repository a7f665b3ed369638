//! Errors of pages that a kernel could not write back. The program that stored may be gone, so each handle that was
//! open reports the error once. If no open handle checked, the next handle opened reports it. Works like the kernel's
//! `errseq_t`, for handles that the kernel does not have.

use crate::types::Errno;

const SEEN: u64 = 1;
const COUNT_UNIT: u64 = 2;
const COUNT: u64 = 0x00ff_fffe;
const ERRNO_SHIFT: u32 = 24;
pub(in crate::session) const GENERATION_SHIFT: u32 = 32;

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

    pub(in crate::session) fn with_another(self, errno: Errno, generation: u32) -> WriteBackErrors {
        let count = if self.0 >> GENERATION_SHIFT == u64::from(generation) {
            self.0.wrapping_add(COUNT_UNIT) & COUNT
        } else {
            COUNT_UNIT
        };
        let errno = u64::from(errno.0.clamp(1, 0xff) as u32) << ERRNO_SHIFT;
        WriteBackErrors(u64::from(generation) << GENERATION_SHIFT | errno | count)
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
