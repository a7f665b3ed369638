//! Where the structures of a sample lie, so that changes hit them and not the emptiness between them.

use egeria_engine::format::*;
use egeria_media::recorder::PoolSet;
use egeria_media::{BlockNumber, Pool, PoolIndex, PoolOffset};

/// A log page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) pool: usize,
    pub(super) block: u64,
    pub(super) ino: u64,
    pub(super) generation: u32,
    pub(super) sequence: u32,
}

impl Page {
    pub(super) fn position(&self, line: u8) -> LogPosition {
        LogPosition::new(PoolIndex(self.pool as u8), BlockNumber(self.block), line)
    }

    pub(super) fn seal(&self, line: u8) -> EntrySeal {
        EntrySeal {
            ino: self.ino,
            generation: self.generation,
            position: self.position(line),
        }
    }
}

/// An inode record that is or was in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) pool: usize,
    pub(super) at: PoolOffset,
    pub(super) ino: u64,
    pub(super) generation: u32,
}

/// Structures of a volume.
pub(super) struct Layout {
    pub(super) geometry: Vec<Geometry>,
    pub(super) pages: Vec<Page>,
    pub(super) records: Vec<Record>,
    pub(super) names: Vec<Vec<u8>>,
}

impl Layout {
    pub(super) fn of(pools: &PoolSet) -> Layout {
        let mut layout = Layout {
            geometry: Vec::new(),
            pages: Vec::new(),
            records: Vec::new(),
            names: Vec::new(),
        };
        for (index, pool) in pools.iter().enumerate() {
            let geometry = Geometry::new(index as u8, pool.blocks());
            layout.geometry.push(geometry);
            for chunk in 0..geometry.inode_blocks {
                layout.add_records(index, pool, chunk);
            }
            for block in geometry.data_block.0..geometry.blocks {
                layout.add_page(index, pool, block);
            }
        }
        layout
    }

    fn add_records(&mut self, index: usize, pool: &Pool, chunk: u64) {
        let word = pool.load_u64(inode_pointer(&self.geometry[index], chunk));
        let Ok(Ok(Some(block))) = word.map(|word| decode_inode_pointer(chunk, word)) else {
            return;
        };
        for slot in 0..INODES_PER_BLOCK {
            let ino = inode_number(PoolIndex(index as u8), chunk * INODES_PER_BLOCK + slot);
            let at = block.offset() + slot * INODE_BYTES;
            let mut bytes = [0; LINE];
            let read = pool.read_bytes(at + CERTIFICATE_AT, &mut bytes);
            if read.is_ok()
                && let Some(certificate) = Certificate::decode(&bytes, ino)
            {
                self.records.push(Record {
                    pool: index,
                    at,
                    ino,
                    generation: certificate.generation,
                });
            }
        }
    }

    fn add_page(&mut self, index: usize, pool: &Pool, block: u64) {
        let mut bytes = [0; BLOCK];
        if pool
            .read_bytes(BlockNumber(block).offset(), &mut bytes)
            .is_err()
        {
            return;
        }
        let (ino, generation) = (word(&bytes, 16), word(&bytes, 8) as u32);
        let sequence = (word(&bytes, 8) >> 32) as u32;
        let page = Page {
            pool: index,
            block,
            ino,
            generation,
            sequence,
        };
        let header = encode_page_header(ino, generation, page.position(0), sequence);
        if bytes[..32] != header[..32] {
            return;
        }
        self.pages.push(page);
        for line in entry_lines(&bytes) {
            let rest = &bytes[usize::from(line) * LINE..];
            let length = usize::from(rest[1]) * LINE;
            let decoded = rest
                .get(..length)
                .and_then(|bytes| decode_entry(bytes, page.seal(line)));
            if let Some((Entry::NameAdd { name, .. }, _)) = decoded {
                self.names.push(name.to_vec());
            }
        }
    }

    /// The record of an inode.
    pub(super) fn record(&self, ino: u64) -> Option<&Record> {
        self.records.iter().find(|record| record.ino == ino)
    }
}

/// Lines where entries of a page seem to begin.
pub(super) fn entry_lines(page: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut line = 1;
    while line < PAGE_LINES {
        let count = page[usize::from(line) * LINE + 1];
        if count == 0 {
            break;
        }
        lines.push(line);
        line = line.saturating_add(count);
    }
    lines
}

/// A word of a buffer.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
