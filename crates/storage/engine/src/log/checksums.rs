//! Checksums of file data: the CRC-32C of each block of the files that were made in a directory with the attribute.
//!
//! 1. A file is created with checksums or without, and this never changes: its certificate records it. A
//!    directory passes on what its certificate, and later its attribute, says.
//! 2. Blocks of such a file are never changed in place. Bytes behind its end are zeros. So a block and
//!    its checksum belong together as long as the block is mapped.
//! 3. A writer copies a block to private memory, computes its checksum there, and stores it. The entry that maps
//!    blocks holds their checksums, so one commit makes both valid. The index keeps them with the words (see `index`).
//! 4. A reader copies a whole block to private memory, checks the checksum there, and returns data from the copy.
//!    Without the lock, a mismatch may mean that the block was just replaced. With the lock, it is damage.
//!    See `verified`.

use crate::format::checksum::crc32c;
use crate::format::*;
use crate::log::Log;
use crate::log::mapping::Mapping;
use crate::session::access::{Access, Run};
use crate::session::inode::Locked;
use crate::session::volume::Volume;
use crate::types::*;
use egeria_media::{BlockNumber, CallerSource, PoolIndex};
use std::sync::atomic::Ordering;

/// The attribute of directories.
pub(crate) const ATTRIBUTE: &[u8] = b"user.egeria.checksum";
/// Its value: files made here have checksums.
pub(crate) const ON: &[u8] = b"crc32c";
/// Its value: they have none.
const OFF: &[u8] = b"off";

/// Checksums of the blocks of one operation, in the order they were stored.
#[derive(Default)]
pub(crate) struct NewSums {
    /// The file has checksums.
    pub(crate) wanted: bool,
    bytes: Vec<u8>,
}

impl NewSums {
    pub(crate) fn new(wanted: bool) -> NewSums {
        let bytes = Vec::new();
        NewSums { wanted, bytes }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.bytes.len() / 4
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The checksums of a mapping's blocks; empty for files without checksums.
    pub(crate) fn of(&self, mapping: &Mapping) -> &[u8] {
        if !self.wanted || mapping.unwritten {
            return &[];
        }
        let end = mapping.sums_at + mapping.count as usize;
        &self.bytes[4 * mapping.sums_at..4 * end]
    }

    /// Store one block, from memory that no other thread changes, and note its checksum.
    pub(crate) fn store_block(
        &mut self,
        volume: &Volume,
        (pool, block): (PoolIndex, BlockNumber),
        bytes: &[u8; BLOCK],
    ) -> Outcome<()> {
        if self.wanted {
            self.bytes.extend(crc32c(bytes).to_le_bytes());
        }
        let run = Run {
            pool,
            at: block.offset(),
            bytes: BLOCK,
        };
        Access::upkeep(volume, run, |pool| {
            pool.copy_in(run.at, bytes[..].into()).map_err(Errno::from)
        })
    }

    /// Store blocks from a caller's memory, which may be invalid and may change during the copy.
    pub(crate) fn store_blocks_of_caller(
        &mut self,
        volume: &Volume,
        (pool, block): (PoolIndex, BlockNumber),
        count: u64,
        source: CallerSource<'_>,
    ) -> Outcome<()> {
        let mut bytes = [0u8; BLOCK];
        for at in 0..count {
            let from = source.after(at as usize * BLOCK);
            from.read(&mut bytes).map_err(Errno::from)?;
            self.store_block(volume, (pool, BlockNumber(block.0 + at)), &bytes)?;
        }
        Ok(())
    }
}

/// Whether what is created in a directory has checksums from an entry for the attribute on; `None`: such an inode cannot have it.
pub(crate) fn checksums_of_entry(kind: FileKind, entry: &Entry<'_>) -> Option<bool> {
    match *entry {
        _ if kind != FileKind::Directory => None,
        Entry::XattrSet { value, .. } if value == ON => Some(true),
        Entry::XattrSet { value, .. } if value != OFF => None,
        _ => Some(false),
    }
}

impl Log<'_> {
    /// Whether `user.egeria.checksum` may be set to this value; `Ok(true)` when it has this value already.
    pub(crate) fn check_checksum_attribute(
        self,
        locked: &Locked<'_>,
        value: &[u8],
    ) -> Outcome<bool> {
        match locked.kind() {
            FileKind::Directory if value == ON || value == OFF => Ok(false),
            FileKind::Directory => Err(Errno(libc::EINVAL)),
            // A file keeps what it was created with.
            _ if locked.has_sums() && value == ON => Ok(true),
            _ => Err(Errno(libc::EOPNOTSUPP)),
        }
    }

    /// Apply an entry for the attribute, which was checked.
    pub(crate) fn apply_checksum_attribute(self, locked: &Locked<'_>, entry: &Entry<'_>) {
        if let Some(passes_on) = checksums_of_entry(locked.kind(), entry) {
            let word = u8::from(passes_on);
            locked.inode.checksums.store(word, Ordering::Relaxed);
        }
    }
}
