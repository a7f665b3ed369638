//! Making a volume: zeroes the metadata regions, makes the root directory, and writes superblocks last.

use crate::format::*;
use crate::requests::*;
use crate::session::trust::Owner;
use crate::types::InodeNumber;
use egeria_media::{Access, BlockNumber, Pool};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Make a volume of these pools.
///
/// # Errors
/// `EINVAL` for a bad list of pools, or a pool that is too small; `ENAMETOOLONG` for a path; `EEXIST` when one holds a
/// volume and `force` is not set; `EBUSY` when it is attached; `EPERM` when it does not belong to the user; `EIO` and
/// other errors of the system.
pub fn create_volume(
    pools: &[PoolRequest],
    options: &CreateOptions,
) -> Result<uuid::Uuid, VolumeError> {
    FaultHandling::Engine.prepare()?;
    check_request(pools)?;
    for pool in pools {
        prepare_file(pool, options.force)?;
    }
    let mut opened = Vec::new();
    let mut siblings = Vec::new();
    for request in pools {
        let (pool, sibling) = open_new(request)?;
        siblings.push(sibling);
        opened.push(pool);
    }
    let volume = uuid::Uuid::new_v4();
    let created_ns = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as i64);
    let base = Superblock {
        version: FORMAT_VERSION,
        volume: *volume.as_bytes(),
        pool_index: 0,
        created_ns,
        secret: *uuid::Uuid::new_v4().as_bytes(),
        generation: 0,
        pools: siblings,
    };
    let opened: Vec<&Pool> = opened.iter().collect();
    write_volume(&opened, &base, options)?;
    Ok(volume)
}

/// Map a pool that was prepared, and describe it to its siblings.
pub(crate) fn open_new(request: &PoolRequest) -> Result<(Pool, Sibling), VolumeError> {
    let pool = Pool::open(&request.path, Access::ReadWrite)
        .map_err(|error| failure(libc::EIO, error.to_string()))?;
    let blocks = request.bytes.unwrap_or(pool.bytes()).min(pool.bytes()) / BLOCK as u64;
    if blocks * (BLOCK as u64) < MIN_POOL_BYTES {
        return Err(too_small(&request.path, blocks * BLOCK as u64));
    }
    let path = std::fs::canonicalize(&request.path).unwrap_or(request.path.clone());
    let path = path.as_os_str().as_bytes().to_vec();
    if path.len() > MAX_PATH_BYTES {
        return Err(failure(
            libc::ENAMETOOLONG,
            format!(
                "the path {} is longer than {MAX_PATH_BYTES} bytes; use a shorter one",
                request.path.display()
            ),
        ));
    }
    let sibling = Sibling {
        node: request.node,
        blocks,
        path,
        removed: None,
    };
    Ok((pool, sibling))
}

pub(crate) fn too_small(path: &Path, bytes: u64) -> VolumeError {
    failure(
        libc::EINVAL,
        format!(
            "pool {} has {bytes} bytes, the least is {MIN_POOL_BYTES}; make it larger",
            path.display()
        ),
    )
}

fn check_request(pools: &[PoolRequest]) -> Result<(), VolumeError> {
    if pools.is_empty() || pools.len() > MAX_POOLS {
        return Err(failure(
            libc::EINVAL,
            format!(
                "{} pools were named, a volume has 1 to {MAX_POOLS}; nodes without one use the nearest",
                pools.len()
            ),
        ));
    }
    for (index, pool) in pools.iter().enumerate() {
        if pool.bytes.is_some_and(|bytes| bytes < MIN_POOL_BYTES) {
            return Err(too_small(&pool.path, pool.bytes.unwrap_or(0)));
        }
        if pools[..index].iter().any(|other| other.path == pool.path) {
            return Err(failure(
                libc::EINVAL,
                format!(
                    "pool {} is named twice; each pool needs a file of its own",
                    pool.path.display()
                ),
            ));
        }
    }
    Ok(())
}

/// Create or resize the file; refuse a file that is a pool already, or in use.
pub(crate) fn prepare_file(request: &PoolRequest, force: bool) -> Result<(), VolumeError> {
    if let Ok(file) = crate::session::trust::open_carefully(&request.path, 0) {
        make_private(&file, &request.path)?;
        if !force && crate::attach::pools::read_superblock(&file, &request.path).is_ok() {
            return Err(failure(
                libc::EEXIST,
                format!(
                    "{} holds an Egeria volume already; use another file, or --force to destroy that volume",
                    request.path.display()
                ),
            ));
        }
        if crate::attach::attach_volume::is_attached(&request.path) {
            return Err(failure(
                libc::EBUSY,
                format!(
                    "{} is attached; unmount it and end the programs that use it first",
                    request.path.display()
                ),
            ));
        }
    }
    let Some(bytes) = request.bytes else {
        return Ok(());
    };
    let bytes = bytes / BLOCK as u64 * BLOCK as u64;
    let made = if force {
        Pool::create_forced(&request.path, bytes)
    } else {
        Pool::create(&request.path, bytes)
    };
    made.map_err(|error| failure(libc::EIO, error.to_string()))
}

/// Make an existing file private: no other user may open a pool. A device keeps its mode.
fn make_private(file: &std::fs::File, path: &Path) -> Result<(), VolumeError> {
    let metadata = file.metadata();
    let metadata = metadata.map_err(|error| io_failure("look at", path, &error, "check it"))?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if metadata.is_file() && own && metadata.mode() & 0o077 != 0 {
        let private = std::fs::Permissions::from_mode(0o600);
        let made = file.set_permissions(private);
        made.map_err(|error| io_failure("set the mode of", path, &error, "make it 0600 yourself"))?;
    }
    Owner::of_pool(&file.metadata().unwrap_or(metadata), path).map(drop)
}

/// Write an empty volume to these pools.
pub(crate) fn write_volume(
    pools: &[&Pool],
    base: &Superblock,
    options: &CreateOptions,
) -> Result<(), VolumeError> {
    write_regions(pools, base, options).map_err(|error| failure(libc::EIO, error.to_string()))
}

fn write_regions(
    pools: &[&Pool],
    base: &Superblock,
    options: &CreateOptions,
) -> egeria_media::Result<()> {
    // An old superblock must not exist together with new or half-erased metadata: it is erased first.
    for pool in pools {
        zero_blocks(pool, 0, SESSION_LINE_BLOCK.0)?;
    }
    pools[0].fence();
    // The root's fence covers this too: nothing is valid before the superblocks are.
    for (index, pool) in pools.iter().enumerate() {
        let geometry = Geometry::new(index as u8, base.pools[index].blocks);
        zero_blocks(pool, SESSION_LINE_BLOCK.0, geometry.data_block.0)?;
    }
    write_root(
        pools[0],
        &Geometry::new(0, base.pools[0].blocks),
        base.created_ns,
        options,
    )?;
    // Superblocks last, pool 0 at the very end: an interrupted creation leaves no volume.
    for (index, pool) in pools.iter().enumerate().rev() {
        let bytes = Superblock {
            pool_index: index as u8,
            ..base.clone()
        }
        .encode();
        for first in SUPERBLOCK_COPIES {
            let at = BlockNumber(first).offset();
            pool.write_bytes(at, &bytes)?;
            pool.flush(at, bytes.len() as u64);
            pool.fence();
        }
    }
    Ok(())
}

pub(crate) fn zero_blocks(pool: &Pool, first: u64, end: u64) -> egeria_media::Result<()> {
    let zeros = [0u8; BLOCK];
    for block in first..end {
        let at = BlockNumber(block).offset();
        let mut there = [0u8; BLOCK];
        pool.read_bytes(at, &mut there)?;
        // Zero blocks are not written: sparse files stay sparse.
        if there != zeros {
            pool.write_bytes(at, &zeros)?;
            pool.flush(at, BLOCK as u64);
        }
    }
    Ok(())
}

fn write_root(
    pool: &Pool,
    geometry: &Geometry,
    created_ns: i64,
    options: &CreateOptions,
) -> egeria_media::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let own = (user.as_raw(), group.as_raw(), 0o755);
    let (uid, gid, mode) = options.root.unwrap_or(own);
    let root = InodeNumber::ROOT.0;
    let certificate = Certificate {
        ino: root,
        generation: 1,
        mode: libc::S_IFDIR | (mode & 0o7777),
        uid,
        gid,
        rdev: 0,
        nlink: 1,
        birth_ns: created_ns,
        parent: root,
        checksums: false,
        layout: LayoutWord::UNSET,
    };
    let block = geometry.data_block;
    zero_blocks(pool, block.0, block.0 + 1)?;
    pool.write_bytes(block.offset() + CERTIFICATE_AT, &certificate.encode())?;
    let commit = CommitWord {
        tail: LogPosition::NONE,
        head_index: 0,
        orphan: false,
    };
    pool.store_u64(block.offset() + COMMIT_WORD_AT, commit.encode(root))?;
    pool.flush(block.offset(), BLOCK as u64);
    pool.store_u64(inode_pointer(geometry, 0), encode_inode_pointer(0, block))?;
    pool.flush(inode_pointer(geometry, 0), 8);
    pool.fence();
    Ok(())
}
