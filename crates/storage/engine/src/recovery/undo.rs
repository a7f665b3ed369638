//! Undo files of repairs. A repair works on a private copy of the pools. Before a changed block is written to a pool,
//! the old content of the block is stored durably in an undo file.
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | `EGERUNDO` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | CRC of the header with this field 0 |
//! | 16 | 16 | UUID of the volume |
//! | 32 | 8 | number of blocks |
//! | 64 | 64 | session line of pool 0: says whether the volume was used since |
//! | 128 | | blocks |
//!
//! A block: pool (8 bytes), block (8), CRC of what the repair wrote (4), CRC of the previous 20 bytes and the old
//! content (4), old content (4096).

use crate::attach::attach_volume::lock_for_check;
use crate::attach::pools::{Found, find_pools};
use crate::format::checksum::{crc32c, crc32c_append};
use crate::format::*;
use crate::recovery::Recovery;
use crate::requests::*;
use egeria_media::{BlockNumber, Pool};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"EGERUNDO";
const VERSION: u32 = 1;
const HEADER: usize = 128;
const CRC_AT: usize = 12;
const PREFIX: usize = 24;

/// A block to bring back.
struct Old {
    pool: usize,
    block: BlockNumber,
    new_crc: u32,
    content: [u8; BLOCK],
}

impl Recovery<'_> {
    /// Write the changes of a private session to the pools, after an undo file if one is wanted.
    pub(crate) fn keep_changes(self, undo: Option<&Path>) -> Result<(), VolumeError> {
        let failed = |error: egeria_media::MediaError| failure(libc::EIO, error.to_string());
        let mut changed = Vec::new();
        for pool in self.volume.media.iter() {
            changed.push(pool.changed_blocks().map_err(failed)?);
        }
        // Device DAX was changed in place, so its changes cannot be undone.
        let media = self.volume.media.iter().enumerate();
        let mut there = media.filter(|(index, _)| self.volume.superblock().has_pool(*index));
        let all_private = there.all(|(_, pool)| pool.is_private());
        if let Some(path) = undo.filter(|_| all_private) {
            write_undo(
                path,
                &self.volume.superblock().volume,
                &self.volume.media,
                &changed,
            )?;
        }
        // From here on a crash leaves a partial repair, which the undo file can undo.
        for (pool, blocks) in self.volume.media.iter().zip(&changed) {
            pool.write_back(blocks).map_err(failed)?;
        }
        Ok(())
    }
}

fn header(volume: &[u8; 16], count: u64, session_line: &[u8]) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    put_u32(&mut bytes, 8, VERSION);
    bytes[16..32].copy_from_slice(volume);
    put_u64(&mut bytes, 32, count);
    bytes[64..].copy_from_slice(session_line);
    let crc = crc32c(&bytes);
    put_u32(&mut bytes, CRC_AT, crc);
    bytes
}

fn block_prefix(pool: usize, block: BlockNumber, new_crc: u32, old: &[u8; BLOCK]) -> [u8; PREFIX] {
    let mut bytes = [0; PREFIX];
    put_u64(&mut bytes, 0, pool as u64);
    put_u64(&mut bytes, 8, block.0);
    put_u32(&mut bytes, 16, new_crc);
    let crc = crc32c_append(crc32c(&bytes[..20]), old);
    put_u32(&mut bytes, 20, crc);
    bytes
}

/// Durable when this returns; on an error, no part of the file is left.
fn write_undo(
    path: &Path,
    volume: &[u8; 16],
    pools: &[Arc<Pool>],
    changed: &[Vec<BlockNumber>],
) -> Result<(), VolumeError> {
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| undo_failure(path, &error))?;
    let written = fill_undo(file, path, volume, pools, changed);
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}

fn undo_failure(path: &Path, error: &std::io::Error) -> VolumeError {
    let hint = "nothing was changed; name another undo file (--undo-file), or free space there";
    io_failure("write the undo file", path, error, hint)
}

fn fill_undo(
    file: File,
    path: &Path,
    volume: &[u8; 16],
    pools: &[Arc<Pool>],
    changed: &[Vec<BlockNumber>],
) -> Result<(), VolumeError> {
    let failed = |error: std::io::Error| undo_failure(path, &error);
    let media = |error: egeria_media::MediaError| failure(libc::EIO, error.to_string());
    let mut writer = BufWriter::new(file);
    let line = pools[0].file_block(SESSION_LINE_BLOCK).map_err(media)?;
    let count = changed.iter().map(|blocks| blocks.len() as u64).sum();
    writer
        .write_all(&header(volume, count, &line[..LINE]))
        .map_err(failed)?;
    for (index, blocks) in changed.iter().enumerate() {
        for &block in blocks {
            let old = pools[index].file_block(block).map_err(media)?;
            let new_crc = crc32c(&pools[index].block(block).map_err(media)?);
            let prefix = block_prefix(index, block, new_crc, &old);
            writer.write_all(&prefix).map_err(failed)?;
            writer.write_all(&old).map_err(failed)?;
        }
    }
    let file = writer
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    // The name too.
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(directory.unwrap_or(Path::new(".")));
    directory
        .and_then(|directory| directory.sync_all())
        .map_err(failed)
}

/// Undo a repair: the changed blocks get their old content. Refused when the volume was used or changed since. Returns
/// the number of blocks. Can be repeated after an interruption.
///
/// # Errors
/// `EINVAL` when the file is no undo file of this volume; `EBUSY` when the volume is attached, or was used or changed
/// since; `EIO` and other errors of the system.
pub fn undo_repair(pool: &Path, undo: &Path) -> Result<u64, VolumeError> {
    let found = find_pools(pool)?;
    let _locks = lock_for_check(&found)?;
    let old = read_undo(undo, &found)?;
    for each in &old {
        check_current(&found, each)?;
    }
    for each in &old {
        let file = file_of(&found, each)?;
        let written = file.write_all_at(&each.content, each.block.offset().0);
        written.map_err(|error| write_failure(&found.paths[each.pool], &error))?;
    }
    for (file, path) in found.files.iter().zip(&found.paths) {
        let Some(file) = file else { continue };
        file.sync_all()
            .map_err(|error| write_failure(path, &error))?;
    }
    Ok(old.len() as u64)
}

fn read_failure(path: &Path, error: &std::io::Error) -> VolumeError {
    io_failure("read pool", path, error, "check the device")
}

fn write_failure(path: &Path, error: &std::io::Error) -> VolumeError {
    io_failure(
        "write pool",
        path,
        error,
        "check the device, then undo again",
    )
}

/// The pool of a block; the undo file may be of a time when there was another one.
fn file_of<'f>(found: &'f Found, old: &Old) -> Result<&'f File, VolumeError> {
    let file = found.files.get(old.pool).and_then(Option::as_ref);
    file.ok_or_else(|| used_since(&found.paths[0]))
}

/// The present content must be what the repair wrote, or (after an interrupted undo) the old content.
fn check_current(found: &Found, old: &Old) -> Result<(), VolumeError> {
    let path = &found.paths[old.pool];
    let mut now = [0; BLOCK];
    file_of(found, old)?
        .read_exact_at(&mut now, old.block.offset().0)
        .map_err(|error| read_failure(path, &error))?;
    if crc32c(&now) == old.new_crc || now == old.content {
        Ok(())
    } else {
        Err(used_since(path))
    }
}

fn used_since(path: &Path) -> VolumeError {
    failure(
        libc::EBUSY,
        format!(
            "the volume of {} was changed after that repair: taking it back would damage what is new; nothing was changed",
            path.display()
        ),
    )
}

/// Nothing in the file is trusted.
fn read_undo(path: &Path, found: &Found) -> Result<Vec<Old>, VolumeError> {
    let unreadable = |error: std::io::Error| {
        io_failure(
            "read the undo file",
            path,
            &error,
            "name the file that the repair named",
        )
    };
    let bad = |what: &str| {
        failure(
            libc::EINVAL,
            format!(
                "{} {what}; name the file that the repair of this volume named",
                path.display()
            ),
        )
    };
    let file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let mut reader = BufReader::new(file);
    let mut head = [0; HEADER];
    reader
        .read_exact(&mut head)
        .map_err(|_| bad("is no undo file"))?;
    let mut line = [0; LINE];
    found
        .first()?
        .read_exact_at(&mut line, SESSION_LINE_BLOCK.offset().0)
        .map_err(|error| read_failure(&found.paths[0], &error))?;
    let count = get_u64(&head, 32);
    if head[..8] != MAGIC {
        return Err(bad("is no undo file"));
    }
    if get_u32(&head, 8) != VERSION {
        return Err(bad("is of another Egeria release"));
    }
    if head[16..32] != found.superblock.volume {
        return Err(bad("is of another volume"));
    }
    if head != header(&found.superblock.volume, count, &head[64..])
        || Some(bytes)
            != count
                .checked_mul((PREFIX + BLOCK) as u64)
                .and_then(|all| all.checked_add(HEADER as u64))
    {
        return Err(bad("is damaged or cut off"));
    }
    if head[64..] != line {
        return Err(used_since(&found.paths[0]));
    }
    let read = |_| read_block(&mut reader, found).ok_or_else(|| bad("is damaged or cut off"));
    (0..count).map(read).collect()
}

fn read_block(reader: &mut impl Read, found: &Found) -> Option<Old> {
    let mut prefix = [0; PREFIX];
    let mut content = [0; BLOCK];
    reader.read_exact(&mut prefix).ok()?;
    reader.read_exact(&mut content).ok()?;
    let pool = get_u64(&prefix, 0) as usize;
    let block = BlockNumber(get_u64(&prefix, 8));
    let new_crc = get_u32(&prefix, 16);
    let whole = prefix == block_prefix(pool, block, new_crc, &content);
    let inside = found.superblock.pools.get(pool)?.blocks > block.0;
    (whole && inside).then_some(Old {
        pool,
        block,
        new_crc,
        content,
    })
}
