//! The words of the file system below, as FUSE says them.

use std::time::{Duration, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::{self, Stat, Timespec};
use rustix::io::Errno;

pub(crate) fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

pub(crate) fn kind(kind: fs::FileType) -> FileType {
    match kind {
        fs::FileType::Directory => FileType::Directory,
        fs::FileType::Symlink => FileType::Symlink,
        fs::FileType::Fifo => FileType::NamedPipe,
        fs::FileType::Socket => FileType::Socket,
        fs::FileType::CharacterDevice => FileType::CharDevice,
        fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

pub(crate) fn attributes(facts: &Stat) -> FileAttr {
    let at = |seconds: i64, nanoseconds: u64| {
        UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanoseconds as u32)
    };
    FileAttr {
        ino: INodeNo(facts.st_ino),
        size: facts.st_size as u64,
        blocks: facts.st_blocks as u64,
        atime: at(facts.st_atime, facts.st_atime_nsec),
        mtime: at(facts.st_mtime, facts.st_mtime_nsec),
        ctime: at(facts.st_ctime, facts.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind(fs::FileType::from_raw_mode(facts.st_mode)),
        perm: (facts.st_mode & 0o7777) as u16,
        nlink: facts.st_nlink as u32,
        uid: facts.st_uid,
        gid: facts.st_gid,
        rdev: facts.st_rdev as u32,
        blksize: 4096,
        flags: 0,
    }
}

pub(crate) fn time(time: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(fs::UTIME_OMIT),
        Some(TimeOrNow::Now) => special(fs::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            Timespec {
                tv_sec: since.as_secs() as i64,
                tv_nsec: since.subsec_nanos().into(),
            }
        }
    }
}
