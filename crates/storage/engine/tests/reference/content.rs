//! A file's bytes in the model: what each 4 KiB block holds, exactly as `local` files map blocks.

use std::collections::BTreeMap;

pub const BLOCK: u64 = 4096;

/// What is at a mapped block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Block {
    Data(Box<[u8]>),
    Unwritten,
}

#[derive(Clone, Default)]
pub struct Content {
    pub size: u64,
    pub blocks: BTreeMap<u64, Block>,
}

impl Content {
    /// Bytes `at..at + length`, fewer at the end of file.
    pub fn read(&self, at: u64, length: usize) -> Vec<u8> {
        let length = (length as u64).min(self.size.saturating_sub(at)) as usize;
        let mut bytes = vec![0; length];
        let end = at + length as u64;
        for (block, held) in self.blocks.range(at / BLOCK..end.div_ceil(BLOCK)) {
            if let Block::Data(data) = held {
                let start = block * BLOCK;
                let (from, to) = (at.max(start), end.min(start + BLOCK));
                if from < to {
                    bytes[(from - at) as usize..(to - at) as usize]
                        .copy_from_slice(&data[(from - start) as usize..(to - start) as usize]);
                }
            }
        }
        bytes
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = at + bytes.len() as u64;
        for block in at / BLOCK..end.div_ceil(BLOCK) {
            let start = block * BLOCK;
            let (from, to) = (at.max(start), end.min(start + BLOCK));
            let data = self.data(block);
            data[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
        }
        self.size = self.size.max(end);
    }

    fn data(&mut self, block: u64) -> &mut [u8] {
        let held = self.blocks.entry(block).or_insert(Block::Unwritten);
        if *held == Block::Unwritten {
            *held = Block::Data(vec![0; BLOCK as usize].into());
        }
        match held {
            Block::Data(data) => data,
            Block::Unwritten => unreachable!(),
        }
    }

    pub fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.blocks.split_off(&size.div_ceil(BLOCK));
            self.zero(size, size.next_multiple_of(BLOCK));
        }
        self.size = size;
    }

    /// Zero data within one block; a hole and an unwritten block are zero already.
    fn zero(&mut self, from: u64, to: u64) {
        if from < to
            && let Some(Block::Data(data)) = self.blocks.get_mut(&(from / BLOCK))
        {
            let start = from / BLOCK * BLOCK;
            data[(from - start) as usize..(to - start) as usize].fill(0);
        }
    }

    /// Reserve: true when anything changed.
    pub fn reserve(&mut self, from: u64, end: u64, grow: bool) -> bool {
        let mut changed = false;
        for block in from / BLOCK..end.div_ceil(BLOCK) {
            self.blocks.entry(block).or_insert_with(|| {
                changed = true;
                Block::Unwritten
            });
        }
        if grow && end > self.size {
            self.size = end;
            changed = true;
        }
        changed
    }

    /// Make a range zeros: whole blocks become a hole. True when anything changed.
    pub fn clear(&mut self, from: u64, end: u64, grow: bool) -> bool {
        let (first, last) = (from.div_ceil(BLOCK), end / BLOCK);
        let has_data = |content: &Content, at| {
            matches!(content.blocks.get(&(at / BLOCK)), Some(Block::Data(_)))
        };
        let mut changed = first < last;
        if first > last {
            changed |= has_data(self, from);
            self.zero(from, end);
        } else {
            changed |= from < first * BLOCK && has_data(self, from);
            changed |= last * BLOCK < end && has_data(self, end);
            self.zero(from, first * BLOCK);
            self.zero(last * BLOCK, end);
            self.blocks
                .retain(|block, _| *block < first || *block >= last);
        }
        if grow && end > self.size {
            self.size = end;
            changed = true;
        }
        changed
    }

    pub fn seek_data(&self, at: u64) -> Result<u64, i32> {
        if at >= self.size {
            return Err(libc::ENXIO);
        }
        let end = self.size.div_ceil(BLOCK);
        let mut data = self.blocks.range(at / BLOCK..end);
        data.find(|(_, held)| **held != Block::Unwritten)
            .map(|(block, _)| (block * BLOCK).max(at))
            .ok_or(libc::ENXIO)
    }

    pub fn seek_hole(&self, at: u64) -> Result<u64, i32> {
        if at >= self.size {
            return Err(libc::ENXIO);
        }
        let mut block = at / BLOCK;
        while matches!(self.blocks.get(&block), Some(Block::Data(_))) {
            block += 1;
        }
        Ok((block * BLOCK).max(at).min(self.size))
    }
}
