//! Conversions between the types of FUSE and of the engine.

use crate::replies::failures;
use egeria_engine::{Attributes, Errno, FileKind, InodeNumber, Outcome, TimeChange, Volume};
use fuser::{FileAttr, FileType, Generation, INodeNo, TimeOrNow};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Validity of answers that the kernel must not cache, because no lease covers them.
pub(crate) const NO_TIME: Duration = Duration::ZERO;

/// Inode 0 in an answer to a look-up: the name does not exist, and this may be cached.
pub(crate) const NOTHING: FileAttr = FileAttr {
    ino: INodeNo(0),
    size: 0,
    blocks: 0,
    atime: UNIX_EPOCH,
    mtime: UNIX_EPOCH,
    ctime: UNIX_EPOCH,
    crtime: UNIX_EPOCH,
    kind: FileType::RegularFile,
    perm: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: 0,
    flags: 0,
};

/// Longest name of an entry, bytes. The kernel lets FUSE have longer ones.
const NAME_BYTES: usize = 255;

/// The data of a reply about one inode.
pub(crate) struct Entry {
    pub attributes: FileAttr,
    pub generation: Generation,
}

pub(crate) fn entry(volume: &Volume, attributes: &Attributes) -> Entry {
    Entry {
        attributes: file_attributes(volume, attributes),
        generation: generation(volume.uuid().as_bytes(), attributes),
    }
}

/// The generation that the kernel keeps with the inode, and in handles of it: the one on the media, and bits of the
/// volume. So a handle means nothing in another volume, even if that is mounted in the place of the first. The root is
/// never looked up, and the kernel takes its generation for 0.
fn generation(volume: &[u8; 16], attributes: &Attributes) -> Generation {
    if attributes.ino == InodeNumber::ROOT {
        return Generation(0);
    }
    let (parts, _) = volume.as_chunks();
    let of_volume = parts.iter().map(|part| u32::from_le_bytes(*part));
    let of_volume = of_volume.fold(0, |all, part| all ^ part);
    Generation((attributes.generation ^ of_volume).into())
}

pub(crate) fn inode(number: INodeNo) -> InodeNumber {
    InodeNumber(number.0)
}

/// Every reply with an error goes through here; `EIO`, `ENOSPC` and `EDQUOT` are logged (module `failures`).
pub(crate) fn errno(error: Errno) -> fuser::Errno {
    match error.0 {
        libc::EIO => failures::note_answer(),
        libc::ENOSPC => failures::note_full(),
        libc::EDQUOT => failures::note_over_limit(),
        _ => {}
    }
    fuser::Errno::from_i32(error.0)
}

/// A name the volume can hold.
pub(crate) fn name(name: &OsStr) -> Outcome<&[u8]> {
    match name.len() {
        0..=NAME_BYTES => Ok(name.as_bytes()),
        _ => Err(Errno(libc::ENAMETOOLONG)),
    }
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharacterDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// Attributes for the kernel, which shows their times to programs.
pub(crate) fn file_attributes(volume: &Volume, attributes: &Attributes) -> FileAttr {
    volume.note_times_shown(attributes.ino);
    FileAttr {
        ino: INodeNo(attributes.ino.0),
        size: attributes.size_bytes,
        blocks: attributes.blocks.saturating_mul(8),
        atime: system_time(attributes.atime_ns),
        mtime: system_time(attributes.mtime_ns),
        ctime: system_time(attributes.ctime_ns),
        crtime: UNIX_EPOCH,
        kind: file_type(attributes.kind()),
        perm: (attributes.mode & 0o7777) as u16,
        nlink: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: attributes.rdev,
        blksize: 4096,
        flags: 0,
    }
}

fn system_time(since_epoch_ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(since_epoch_ns.unsigned_abs());
    let time = if since_epoch_ns < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(UNIX_EPOCH)
}

/// A time to set, limited to the years 1677 to 2262 that the volume can hold.
///
/// fuser turns the kernel's (−s, +ns) into the time −(s + ns); this function reverses it.
pub(crate) fn time_change(time: TimeOrNow) -> TimeChange {
    let time = match time {
        TimeOrNow::Now => return TimeChange::Now,
        TimeOrNow::SpecificTime(time) => time,
    };
    let (sign, distance) = match time.duration_since(UNIX_EPOCH) {
        Ok(distance) => (1, distance),
        Err(before) => (-1, before.duration()),
    };
    let seconds = sign * i128::from(distance.as_secs());
    let since_epoch_ns = seconds * 1_000_000_000 + i128::from(distance.subsec_nanos());
    TimeChange::At(since_epoch_ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_survive_the_way_through_fuser() {
        // The kernel sends 1.25 s before the epoch as (-2 s, +750,000,000 ns), and fuser makes
        // this of it:
        let garbled = UNIX_EPOCH - Duration::new(2, 750_000_000);
        let change = time_change(TimeOrNow::SpecificTime(garbled));
        assert_eq!(change, TimeChange::At(-1_250_000_000));
        assert_eq!(
            system_time(-1_250_000_000),
            UNIX_EPOCH - Duration::from_millis(1250)
        );
    }

    #[test]
    fn times_beyond_what_the_volume_holds_are_its_last() {
        let late = UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(
            time_change(TimeOrNow::SpecificTime(late)),
            TimeChange::At(i64::MAX)
        );
    }

    #[test]
    fn generations_differ_between_volumes_and_lives() {
        let of = |ino, generation| Attributes {
            ino: InodeNumber(ino),
            generation,
            ..Attributes::NONE
        };
        let (one, other) = (b"the first volume", b"another volume's");
        let first = generation(one, &of(18, 1));
        assert_ne!(first, generation(one, &of(18, 2)));
        assert_ne!(first, generation(other, &of(18, 1)));
        assert_eq!(first, generation(one, &of(18, 1)));
        let root = of(InodeNumber::ROOT.0, 1);
        assert_eq!(generation(one, &root), Generation(0), "the kernel's own");
    }

    #[test]
    fn names_beyond_255_bytes_are_refused() {
        assert!(name(OsStr::new(&"x".repeat(255))).is_ok());
        assert_eq!(
            name(OsStr::new(&"x".repeat(256))),
            Err(Errno(libc::ENAMETOOLONG))
        );
    }
}
