//! The types that every front end uses: inode numbers, attributes, requests and errors.

use egeria_media::AccessFault;
use std::fmt;
use std::ops::Range;

/// Number of an inode, unique in a volume; the root directory is [`InodeNumber::ROOT`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct InodeNumber(pub u64);

impl InodeNumber {
    /// The root directory of every volume.
    pub const ROOT: InodeNumber = InodeNumber(1);
}

/// An inode to change: given by number alone, or by number and generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InodeHandle {
    pub ino: InodeNumber,
    /// Generation of the number; if it differs, the change fails with `ESTALE`.
    pub generation: Option<u32>,
}

impl From<InodeNumber> for InodeHandle {
    fn from(ino: InodeNumber) -> InodeHandle {
        InodeHandle {
            ino,
            generation: None,
        }
    }
}

impl From<&Attributes> for InodeHandle {
    fn from(attributes: &Attributes) -> InodeHandle {
        InodeHandle {
            ino: attributes.ino,
            generation: Some(attributes.generation),
        }
    }
}

/// An errno value, as the corresponding system call would set it.
///
/// Every operation on an inode can fail with `ESTALE` (there is no such inode), `EIO` (damage, which is reported, or a
/// medium that fails), `ENOMEM` (no more memory for the session) and `EAGAIN` (all slots of threads or processes are
/// taken, or a lock is not free within the limit that [`crate::within_patience`] sets). Every change can also fail
/// with `EROFS`, `ENOSPC` and, in a directory tree with limits, `EDQUOT`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl fmt::Debug for Errno {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Errno({}: {})",
            self.0,
            std::io::Error::from_raw_os_error(self.0)
        )
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", std::io::Error::from_raw_os_error(self.0))
    }
}

impl std::error::Error for Errno {}

impl From<AccessFault> for Errno {
    fn from(fault: AccessFault) -> Errno {
        match fault {
            AccessFault::Pool => Errno(libc::EIO),
            AccessFault::Caller => Errno(libc::EFAULT),
        }
    }
}

/// Result of one file system operation.
pub type Outcome<T> = Result<T, Errno>;

/// The kind of an inode, with the on-media numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FileKind {
    /// Regular file.
    Regular = 1,
    /// Directory.
    Directory = 2,
    /// Symbolic link.
    Symlink = 3,
    /// Named pipe.
    Fifo = 4,
    /// Unix socket.
    Socket = 5,
    /// Character device.
    CharacterDevice = 6,
    /// Block device.
    BlockDevice = 7,
}

impl FileKind {
    /// The kind in the type bits of a mode.
    pub fn from_mode(mode: u32) -> Option<FileKind> {
        Some(match mode & libc::S_IFMT {
            libc::S_IFREG => FileKind::Regular,
            libc::S_IFDIR => FileKind::Directory,
            libc::S_IFLNK => FileKind::Symlink,
            libc::S_IFIFO => FileKind::Fifo,
            libc::S_IFSOCK => FileKind::Socket,
            libc::S_IFCHR => FileKind::CharacterDevice,
            libc::S_IFBLK => FileKind::BlockDevice,
            _ => return None,
        })
    }

    /// The `d_type` value of a directory entry of this kind.
    pub fn dirent_type(self) -> u8 {
        match self {
            FileKind::Regular => libc::DT_REG,
            FileKind::Directory => libc::DT_DIR,
            FileKind::Symlink => libc::DT_LNK,
            FileKind::Fifo => libc::DT_FIFO,
            FileKind::Socket => libc::DT_SOCK,
            FileKind::CharacterDevice => libc::DT_CHR,
            FileKind::BlockDevice => libc::DT_BLK,
        }
    }
}

/// Attributes of an inode, as `stat` shows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    pub ino: InodeNumber,
    /// Reuse count of the inode number.
    pub generation: u32,
    /// Type and permission bits.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: u32,
    pub size_bytes: u64,
    /// Allocated 4 KiB blocks.
    pub blocks: u64,
    /// Last access, ns since the epoch (changed only by request: the volume is noatime).
    pub atime_ns: i64,
    /// Last data change, ns since the epoch.
    pub mtime_ns: i64,
    /// Last change of the inode, ns since the epoch.
    pub ctime_ns: i64,
}

impl Attributes {
    /// Of no inode: to be filled in.
    pub const NONE: Attributes = Attributes {
        ino: InodeNumber(0),
        generation: 0,
        mode: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        size_bytes: 0,
        blocks: 0,
        atime_ns: 0,
        mtime_ns: 0,
        ctime_ns: 0,
    };

    /// What the inode is.
    pub fn kind(&self) -> FileKind {
        FileKind::from_mode(self.mode).unwrap_or(FileKind::Regular)
    }
}

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeChange {
    /// Now, by the engine's clock.
    Now,
    /// This many ns since the epoch.
    At(i64),
}

/// Attributes that `set_attributes` changes; `None` leaves one unchanged. The caller checks permissions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct AttributeChange {
    /// Permission bits (07777).
    pub permissions: Option<u32>,
    /// Mode bits to clear: set-user-id and set-group-id ([`crate::rights::cleared_setid`]).
    pub clears: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Size in bytes (truncate).
    pub size_bytes: Option<u64>,
    pub atime: Option<TimeChange>,
    /// Modification time.
    pub mtime: Option<TimeChange>,
}

/// Attributes of a new inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewInode {
    /// Type and permission bits, umask already applied.
    pub mode: u32,
    /// Owner of the new inode.
    pub uid: u32,
    /// Group of the new inode unless the directory is setgid.
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: u32,
}

impl NewInode {
    /// An inode of root that is no device.
    pub const fn of_root(mode: u32) -> NewInode {
        NewInode {
            mode,
            uid: 0,
            gid: 0,
            rdev: 0,
        }
    }
}

/// `rename` flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// Replace an existing target.
    Replace,
    /// `RENAME_NOREPLACE`.
    NoReplace,
    /// `RENAME_EXCHANGE`.
    Exchange,
}

/// `setxattr` flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrMode {
    /// Create or replace.
    Any,
    /// `XATTR_CREATE`.
    Create,
    /// `XATTR_REPLACE`.
    Replace,
}

/// What `allocate` does to a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocateMode {
    /// Reserve blocks, grow the file.
    Extend,
    /// Reserve blocks, keep the size.
    KeepSize,
    /// Punch a hole, keep the size.
    PunchHole,
    /// Zero the range, grow the file.
    ZeroRange,
    ZeroRangeKeepSize,
}

impl AllocateMode {
    /// The operation that `fallocate` requests with these flags (`FALLOC_FL_*`); `None`: not supported.
    pub fn of_flags(flags: i32) -> Option<AllocateMode> {
        const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        const ZERO_RANGE_KEEP_SIZE: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
        Some(match flags {
            0 => AllocateMode::Extend,
            libc::FALLOC_FL_KEEP_SIZE => AllocateMode::KeepSize,
            PUNCH_HOLE => AllocateMode::PunchHole,
            libc::FALLOC_FL_ZERO_RANGE => AllocateMode::ZeroRange,
            ZERO_RANGE_KEEP_SIZE => AllocateMode::ZeroRangeKeepSize,
            _ => return None,
        })
    }
}

/// One entry of a directory, as `read_directory` gives it.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry<'a> {
    /// The entry's inode.
    pub ino: InodeNumber,
    /// What the inode is.
    pub kind: FileKind,
    /// Pass this cookie to continue after this entry; stable while the entry exists.
    pub cookie: u64,
    /// The name: 1 to 255 bytes, no `/`, no NUL.
    pub name: &'a [u8],
}

/// Space of a volume or of one pool.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SpaceReport {
    /// Data blocks in all.
    pub blocks: u64,
    /// Data blocks free.
    pub free_blocks: u64,
    /// Of these, data blocks available to one file.
    pub available_blocks: u64,
    pub inodes: u64,
    pub free_inodes: u64,
}

/// A run of a file's data on one pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentReport {
    pub file_offset_bytes: u64,
    pub length_bytes: u64,
    /// Pool that holds it.
    pub pool: u8,
    /// Node of that pool.
    pub node: u16,
    /// First block in the pool.
    pub block: u64,
    /// Allocated, never written: reads as zeros.
    pub unwritten: bool,
}

/// Where the data of a file goes, by its attribute `user.egeria.layout`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileLayout {
    /// Not set: the session decides.
    Unset,
    /// To the node of the writing thread.
    Local,
    /// In stripes over all nodes.
    Striped { stripe_bytes: u64 },
}

/// Where new data goes (spec.md §1, baselines).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocationPolicy {
    /// On the node where the writing thread runs (NThread, write placement).
    Local,
    /// On random nodes (`nova_n`).
    Random,
    /// In stripes over all nodes (OdinFS §4); files created under this policy stay striped.
    Striped,
    /// All on the pool with this index (`nova`).
    Pool(u8),
}

/// Ranges in order, none of which touches another.
pub(crate) fn sorted_apart(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    ranges
}
