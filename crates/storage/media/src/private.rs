//! Pools with changes that only one process sees, and writing these changes back.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::address::{BLOCK_BYTES, BlockNumber};
use crate::error::{MediaError, Result};
use crate::map;
use crate::pool::Pool;

const BLOCK: usize = BLOCK_BYTES as usize;
/// Words of the kernel's page map read at once.
const PAGES_AT_ONCE: u64 = 1 << 16;
/// `/proc/self/pagemap`, one word per page (the kernel's admin-guide/mm/pagemap): in memory, swapped out,
/// of a file.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;

impl Pool {
    /// Maps an open file so that stores stay in this process: the file keeps its content until [`Pool::write_back`].
    /// Only stored-to blocks need memory.
    ///
    /// # Errors
    /// [`MediaError::Io`] with what `mmap` failed with: `ENODEV` for device DAX, which cannot be mapped so, `ENOMEM`;
    /// [`MediaError::BadSize`] when it holds no whole block, [`MediaError::NotAPool`] when it is no file or device.
    pub fn open_private_with_file(file: File, path: &Path) -> Result<Pool> {
        let metadata = file
            .metadata()
            .map_err(|error| MediaError::io(path, "cannot inspect the pool", error))?;
        let kind = map::kind_of(path, &metadata)?;
        let bytes = map::size_of(path, &file, &metadata, kind)? / BLOCK_BYTES * BLOCK_BYTES;
        if bytes == 0 {
            return Err(MediaError::BadSize {
                path: path.to_owned(),
                bytes: metadata.len(),
                hint: "it needs at least one block of 4096 bytes; is it truncated?",
            });
        }
        let mapping = map::map_private(&file, bytes)
            .map_err(|error| MediaError::io(path, "cannot map a copy of the pool", error))?;
        Ok(Pool::of_private(mapping, path, Arc::new(file)))
    }

    /// Whether stores stay with this process.
    pub fn is_private(&self) -> bool {
        self.backing().is_some()
    }

    /// Blocks with content that differs from the file's, ascending. For a pool that is not private: none.
    ///
    /// # Errors
    /// [`MediaError::Io`] (`EIO`) when the file or this process's page map cannot be read.
    pub fn changed_blocks(&self) -> Result<Vec<BlockNumber>> {
        let Some(file) = self.backing() else {
            return Ok(Vec::new());
        };
        let failed = |error| MediaError::io(self.path(), "cannot compare with the pool", error);
        let mut changed = Vec::new();
        for block in self.stored_to().map_err(failed)? {
            if self.block(block)? != file_block(file, block).map_err(failed)? {
                changed.push(block);
            }
        }
        Ok(changed)
    }

    /// The file's content of a block of a private pool.
    ///
    /// # Errors
    /// [`MediaError::Io`]: `EIO` when it cannot be read, `EBADF` when the pool is not private.
    pub fn file_block(&self, block: BlockNumber) -> Result<[u8; BLOCK]> {
        let unreadable = |error| MediaError::io(self.path(), "cannot read the pool", error);
        let file = self
            .backing()
            .ok_or_else(|| unreadable(io::Error::from_raw_os_error(libc::EBADF)))?;
        file_block(file, block).map_err(unreadable)
    }

    /// The content of a block in this process.
    ///
    /// # Errors
    /// [`MediaError::OutOfBounds`] beyond the end, [`MediaError::Fault`] when the memory is gone.
    pub fn block(&self, block: BlockNumber) -> Result<[u8; BLOCK]> {
        let mut bytes = [0; BLOCK];
        self.read_bytes(block.offset(), &mut bytes)?;
        Ok(bytes)
    }

    /// Writes blocks of a private pool to its file; durable when this returns.
    ///
    /// # Errors
    /// [`MediaError::Io`] (`EIO`, `ENOSPC`, `EBADF` when it is open for reading alone): part of the blocks may be there.
    pub fn write_back(&self, blocks: &[BlockNumber]) -> Result<()> {
        let Some(file) = self.backing().filter(|_| !blocks.is_empty()) else {
            return Ok(());
        };
        let failed = |error| MediaError::io(self.path(), "cannot write the pool", error);
        for &block in blocks {
            file.write_all_at(&self.block(block)?, block.offset().0)
                .map_err(failed)?;
        }
        file.sync_all().map_err(failed)
    }

    /// Blocks for which this process has its own page; all blocks, if the kernel does not say.
    fn stored_to(&self) -> io::Result<Vec<BlockNumber>> {
        let blocks = self.blocks();
        let Ok(map) = File::open("/proc/self/pagemap") else {
            return Ok((0..blocks).map(BlockNumber).collect());
        };
        let first_page = self.base() as u64 / BLOCK_BYTES;
        let mut stored = Vec::new();
        let mut words = vec![0; PAGES_AT_ONCE.min(blocks) as usize * 8];
        for begin in (0..blocks).step_by(PAGES_AT_ONCE as usize) {
            let count = PAGES_AT_ONCE.min(blocks - begin);
            let bytes = &mut words[..count as usize * 8];
            map.read_exact_at(bytes, (first_page + begin) * 8)?;
            for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let word = u64::from_ne_bytes(*word);
                if word & (PRESENT | SWAPPED) != 0 && word & OF_FILE == 0 {
                    stored.push(BlockNumber(begin + index as u64));
                }
            }
        }
        Ok(stored)
    }
}

fn file_block(file: &File, block: BlockNumber) -> io::Result<[u8; BLOCK]> {
    let mut bytes = [0; BLOCK];
    file.read_exact_at(&mut bytes, block.offset().0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::PoolOffset;
    use rustix::fs::{MemfdFlags, memfd_create};

    #[test]
    fn a_private_pool_changes_its_file_only_when_written_back() {
        let path = Path::new("(memory)");
        let file = File::from(memfd_create("pool", MemfdFlags::empty()).unwrap());
        file.write_all_at(&[7; 64 * BLOCK], 0).unwrap();
        let content = || {
            let mut bytes = vec![0; 64 * BLOCK];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        };
        let pool = Pool::open_private_with_file(file.try_clone().unwrap(), path).unwrap();
        assert_eq!(pool.load_u64(PoolOffset(8)).unwrap(), 0x0707_0707_0707_0707);
        assert_eq!(pool.changed_blocks().unwrap(), []);
        for block in [3, 9, 63] {
            pool.store_u64(BlockNumber(block).offset() + 16, block)
                .unwrap();
        }
        // Stored to, but what was there before.
        pool.write_bytes(BlockNumber(5).offset(), &[7; 100])
            .unwrap();
        let changed = [BlockNumber(3), BlockNumber(9), BlockNumber(63)];
        assert_eq!(pool.changed_blocks().unwrap(), changed);
        assert_eq!(pool.file_block(BlockNumber(9)).unwrap(), [7; BLOCK]);
        assert!(content().iter().all(|byte| *byte == 7));
        pool.write_back(&changed[..2]).unwrap();
        assert_eq!(pool.changed_blocks().unwrap(), changed[2..]);
        assert_eq!(content()[9 * BLOCK + 16], 9);
        assert_eq!(content()[63 * BLOCK + 16], 7);
    }
}
