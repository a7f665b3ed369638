//! Finding the pools of a volume: superblocks are accepted only when they agree.

use crate::format::*;
use crate::requests::{VolumeError, failure, io_failure};
use crate::session::segments::FileIdentity;
use crate::session::trust::Owner;
use egeria_media::{Access, BlockNumber, Pool, PoolOffset};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

/// The pools of a volume, found and opened but not yet mapped.
pub(crate) struct Found {
    pub(crate) superblock: Superblock,
    /// By index; empty for a pool that was removed, which has no file.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) files: Vec<Option<File>>,
    /// Their owner; `None` for memory without a file.
    pub(crate) owner: Option<Owner>,
    /// Of pool 0.
    pub(crate) identity: FileIdentity,
}

/// Read bytes from an offset; device DAX can only be mapped.
fn read_at(file: &File, path: &Path, at: PoolOffset, into: &mut [u8]) -> std::io::Result<()> {
    if !file.metadata()?.file_type().is_char_device() {
        return file.read_exact_at(into, at.0);
    }
    let pool = Pool::open_with_file(file.try_clone()?, path, Access::ReadOnly);
    let read = pool.and_then(|pool| pool.read_bytes(at, into));
    read.map_err(std::io::Error::other)
}

/// Read the better copy of a pool's superblock; returns also the index of a damaged copy.
pub(crate) fn read_superblock(
    file: &File,
    path: &Path,
) -> Result<(Superblock, Option<usize>), VolumeError> {
    better_superblock(path, |at, bytes| read_at(file, path, at, bytes).is_ok())
}

/// Read the better copy of the superblock of a mapped pool.
pub(crate) fn superblock_of(pool: &Pool) -> Result<(Superblock, Option<usize>), VolumeError> {
    better_superblock(pool.path(), |at, bytes| pool.read_bytes(at, bytes).is_ok())
}

fn better_superblock(
    path: &Path,
    read: impl Fn(PoolOffset, &mut [u8]) -> bool,
) -> Result<(Superblock, Option<usize>), VolumeError> {
    let decoded = SUPERBLOCK_COPIES.map(|first| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        if read(BlockNumber(first).offset(), &mut bytes) {
            Superblock::decode(&bytes)
        } else {
            Err(SuperblockFault::NotAPool)
        }
    });
    match decoded {
        // A change was interrupted after its first copy.
        [Ok(first), Ok(second)] if second.generation > first.generation => Ok((second, None)),
        [Ok(first), Ok(_)] => Ok((first, None)),
        [Ok(first), Err(_)] => Ok((first, Some(1))),
        [Err(_), Ok(second)] => Ok((second, Some(0))),
        [Err(SuperblockFault::NotAPool), Err(fault)] | [Err(fault), Err(_)] => {
            Err(superblock_failure(path, fault))
        }
    }
}

fn superblock_failure(path: &Path, fault: SuperblockFault) -> VolumeError {
    let path = path.display();
    match fault {
        SuperblockFault::NotAPool => failure(
            libc::EINVAL,
            format!(
                "{path} is not an Egeria pool; name a pool of the volume, or make one with `egeria mkfs`"
            ),
        ),
        SuperblockFault::Version(version) => failure(
            libc::EPROTO,
            format!(
                "{path} has format version {version}, this program knows {OLDEST_FORMAT_VERSION} to {FORMAT_VERSION}; use the Egeria release that wrote it, volumes cannot be downgraded"
            ),
        ),
        SuperblockFault::Damaged => failure(
            libc::EIO,
            format!("both superblock copies of {path} are damaged; restore the pool from a backup"),
        ),
    }
}

/// Open a pool that this process may trust; returns also its owner.
pub(crate) fn open_pool(path: &Path) -> Result<(Owner, File), VolumeError> {
    let file = crate::session::trust::open_carefully(path, 0).map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc::ENOENT) => "check the path; all pools of a volume must be there",
            Some(libc::EACCES | libc::EPERM) => {
                "run as the pools' owner or root, or use the volume through its mount"
            }
            Some(libc::EROFS) => "the pool's file system is read-only; remount it read-write",
            Some(libc::EISDIR) => "name a pool file, not a directory",
            Some(libc::EINVAL) => "it is neither a file nor a device; name a pool",
            _ => "check that the file system with the pool is there",
        };
        io_failure("open pool", path, &error, hint)
    })?;
    match owner_of(&file, path) {
        Ok(owner) => Ok((owner, file)),
        // A user that named the wrong file should not be asked to change its mode.
        Err(untrusted) => match read_superblock(&file, path) {
            Err(error) if error.errno == libc::EINVAL => Err(error),
            _ => Err(untrusted),
        },
    }
}

fn owner_of(file: &File, path: &Path) -> Result<Owner, VolumeError> {
    let metadata = file.metadata();
    let metadata =
        metadata.map_err(|error| io_failure("look at pool", path, &error, "check it"))?;
    Owner::of_pool(&metadata, path)
}

/// Size of a pool's file or device, bytes.
pub(crate) fn media_bytes(file: &File, path: &Path) -> Result<u64, VolumeError> {
    let metadata = file
        .metadata()
        .map_err(|error| io_failure("look at pool", path, &error, "check the device"))?;
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(metadata.len());
    }
    if kind.is_block_device() || kind.is_char_device() {
        // Devices are sized by the media layer when mapped.
        return Ok(u64::MAX);
    }
    Err(failure(
        libc::EINVAL,
        format!(
            "{} is neither a file nor a device; name a pool",
            path.display()
        ),
    ))
}

/// Find and open all pools of the volume that the pool at `given` belongs to. What pool 0 says of them is in force.
pub(crate) fn find_pools(given: &Path) -> Result<Found, VolumeError> {
    let (owner, file) = open_pool(given)?;
    let (named, _) = read_superblock(&file, given)?;
    let named_index = named.pool_index as usize;
    let mut given_file = Some(file);
    let mut open = |index: usize, recorded: &[u8]| -> Result<(PathBuf, File), VolumeError> {
        if index == named_index
            && let Some(file) = given_file.take()
        {
            return Ok((given.to_path_buf(), file));
        }
        let path = sibling_path(given, recorded);
        let (theirs, file) = open_pool(&path)?;
        check_owner(owner, theirs, &path)?;
        Ok((path, file))
    };
    let (path, file) = open(0, &named.pools[0].path)?;
    let (superblock, _) = read_superblock(&file, &path)?;
    check_volume(&named, &superblock, 0, &path)?;
    if !superblock.has_pool(named_index) {
        return Err(no_pool_of(&superblock, named_index, given));
    }
    check_size(&superblock, 0, &file, &path)?;
    let mut paths = vec![std::fs::canonicalize(&path).unwrap_or(path)];
    let identity = FileIdentity::of(&file)
        .map_err(|error| io_failure("look at pool", &paths[0], &error, "check the device"))?;
    let mut files = vec![Some(file)];
    for (index, sibling) in superblock.pools.iter().enumerate().skip(1) {
        if index == named_index && named.generation < superblock.generation {
            check_not_replaced(&superblock, index, given)?;
        }
        if sibling.removed.is_some() {
            paths.push(PathBuf::new());
            files.push(None);
            continue;
        }
        let (path, file) = open(index, &sibling.path)?;
        check_sibling(&superblock, index, &file, &path)?;
        check_size(&superblock, index, &file, &path)?;
        paths.push(std::fs::canonicalize(&path).unwrap_or(path));
        files.push(Some(file));
    }
    Ok(Found {
        superblock,
        paths,
        files,
        owner: Some(owner),
        identity,
    })
}

impl Found {
    /// Pool 0, which is always there.
    pub(crate) fn first(&self) -> Result<&File, VolumeError> {
        let missing = || failure(libc::EIO, "pool 0 is not open; this is an error of Egeria");
        self.files
            .first()
            .and_then(Option::as_ref)
            .ok_or_else(missing)
    }

    /// Refuse what was read before another process changed the pools of the volume. Called with the locks held that
    /// keep such processes out.
    ///
    /// # Errors
    /// `EBUSY`: find the pools again.
    pub(crate) fn check_current(&self) -> Result<(), VolumeError> {
        let path = &self.paths[0];
        let (now, _) = read_superblock(self.first()?, path)?;
        if now == self.superblock {
            return Ok(());
        }
        let path = path.display();
        Err(failure(
            libc::EBUSY,
            format!("the pools of the volume of {path} were changed just now; try again"),
        ))
    }
}

fn no_pool_of(superblock: &Superblock, index: usize, path: &Path) -> VolumeError {
    let why = if index < superblock.pools.len() {
        "it was removed; name another pool"
    } else {
        "adding it was interrupted; run `egeria pool add` again, or name another pool"
    };
    failure(
        libc::EINVAL,
        format!(
            "{} is no pool of volume {}: {why}",
            path.display(),
            uuid::Uuid::from_bytes(superblock.volume)
        ),
    )
}

pub(crate) fn check_owner(ours: Owner, theirs: Owner, path: &Path) -> Result<(), VolumeError> {
    if ours == theirs {
        Ok(())
    } else {
        Err(failure(
            libc::EPERM,
            format!(
                "{} is not shared with the same users as the other pools of its volume; give all pools one owner, group and mode",
                path.display()
            ),
        ))
    }
}

/// Path of a sibling: the recorded path, else the same name next to the given pool.
pub(crate) fn sibling_path(given: &Path, recorded: &[u8]) -> PathBuf {
    let recorded = PathBuf::from(std::ffi::OsStr::from_bytes(recorded));
    let beside = given
        .parent()
        .zip(recorded.file_name())
        .map(|(directory, name)| directory.join(name));
    match beside {
        Some(beside) if !recorded.exists() && beside.exists() => beside,
        _ => recorded,
    }
}

/// Check that a pool belongs to the same volume as another one, under this index.
fn check_volume(
    ours: &Superblock,
    theirs: &Superblock,
    index: usize,
    path: &Path,
) -> Result<(), VolumeError> {
    if theirs.volume != ours.volume || theirs.pool_index as usize != index {
        return Err(failure(
            libc::EINVAL,
            format!(
                "{} is pool {} of another volume ({}); give the pools of one volume",
                path.display(),
                theirs.pool_index,
                uuid::Uuid::from_bytes(theirs.volume)
            ),
        ));
    }
    // The UUID is public; this secret was read from a pool by the creator of this one.
    if theirs.secret != ours.secret {
        return Err(not_made_with_it(path));
    }
    Ok(())
}

fn not_made_with_it(path: &Path) -> VolumeError {
    failure(
        libc::EPERM,
        format!(
            "{} has the UUID of the volume but was not made with it; do not use pools that others handed over",
            path.display()
        ),
    )
}

/// Whether a superblock of pool `index` can be of the volume that pool 0 describes.
pub(crate) fn agrees(first: &Superblock, theirs: &Superblock, index: usize) -> bool {
    let own = |superblock: &Superblock| superblock.pools.get(index).map(|pool| pool.blocks);
    let is_behind = theirs.generation < first.generation
        && theirs.version <= first.version
        && own(theirs) == own(first);
    let is_same = theirs.generation == first.generation
        && theirs.version == first.version
        && theirs.pools == first.pools;
    is_same || is_behind
}

/// Refuse a pool that was named, and another is in its place: the superblock of a failing medium may be left.
fn check_not_replaced(first: &Superblock, index: usize, given: &Path) -> Result<(), VolumeError> {
    let recorded = PathBuf::from(std::ffi::OsStr::from_bytes(&first.pools[index].path));
    let is_other = std::fs::canonicalize(given).is_ok_and(|given| given != recorded);
    let there = open_pool(&recorded).and_then(|(_, file)| read_superblock(&file, &recorded));
    let is_pool = there.is_ok_and(|(there, _)| {
        there.volume == first.volume
            && there.secret == first.secret
            && there.pool_index as usize == index
    });
    if is_other && is_pool {
        return Err(failure(
            libc::EINVAL,
            format!(
                "{} was replaced by {}; name that one",
                given.display(),
                recorded.display()
            ),
        ));
    }
    Ok(())
}

pub(crate) fn check_sibling(
    first: &Superblock,
    index: usize,
    file: &File,
    path: &Path,
) -> Result<(), VolumeError> {
    let (theirs, _) = read_superblock(file, path)?;
    check_volume(first, &theirs, index, path)?;
    if theirs.generation > first.generation {
        return Err(failure(
            libc::EIO,
            format!(
                "{} is of a later state of the volume than its pool 0, which may be an old copy; bring back all pools of one time",
                path.display()
            ),
        ));
    }
    if agrees(first, &theirs, index) {
        Ok(())
    } else {
        Err(not_made_with_it(path))
    }
}

pub(crate) fn check_size(
    superblock: &Superblock,
    index: usize,
    file: &File,
    path: &Path,
) -> Result<(), VolumeError> {
    let needed = superblock.pools[index].blocks * BLOCK as u64;
    let there = media_bytes(file, path)?;
    if there < needed {
        return Err(failure(
            libc::EIO,
            format!(
                "{} is truncated: {there} of {needed} bytes are there; restore the file (`truncate -s {needed}` brings the rest back as zeros) and run `egeria check`",
                path.display()
            ),
        ));
    }
    Ok(())
}
