//! A reader of pools written from docs/reference/format.md alone: nothing in here comes from the engine.

use std::collections::BTreeMap;

const BLOCK: usize = 4096;

/// docs/reference/format.md, Checksums.
pub fn crc32c(before: u32, bytes: &[u8]) -> u32 {
    let mut register = !before;
    for byte in bytes {
        register ^= u32::from(*byte);
        for _ in 0..8 {
            let carry = register & 1;
            register >>= 1;
            if carry == 1 {
                register ^= 0x82F6_3B78;
            }
        }
    }
    !register
}

/// docs/reference/format.md, Sealed words: the ten bits above a word's 54.
pub fn seal(salt: &[u8; 4], owner: u64, low: u64) -> u64 {
    let bytes = [owner.to_le_bytes(), low.to_le_bytes()].concat();
    let check = crc32c(u32::from_be_bytes(*salt), &bytes) & 0x3ff;
    low | (u64::from(check) << 54)
}

fn unseal(salt: &[u8; 4], owner: u64, word: u64) -> u64 {
    let low = word & ((1 << 54) - 1);
    assert_eq!(seal(salt, owner, low), word, "seal of owner {owner}");
    low
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()).into()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Pool, block and line of a position.
fn parts(position: u64) -> (usize, usize, usize) {
    let block = (position >> 7) & ((1 << 40) - 1);
    (
        (position >> 47) as usize & 15,
        block as usize,
        position as usize & 127,
    )
}

fn place(position: u64) -> (usize, usize) {
    let (pool, block, line) = parts(position);
    (pool, block * BLOCK + line * 64)
}

/// An inode as its record and log have it.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Inode {
    pub generation: u32,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub rdev: u32,
    pub size_bytes: u64,
    pub times_ns: [i64; 3],
    pub parent: u64,
    /// File block: pool, block, unwritten.
    pub blocks: BTreeMap<u64, (usize, u64, bool)>,
    /// CRC of each written block, of files with checksums.
    pub sums: BTreeMap<u64, u32>,
    /// Its data has checksums, or what is made in it.
    pub checksums: bool,
    /// Place of the entry: name, inode, kind.
    pub names: BTreeMap<u64, (Vec<u8>, u64, u8)>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub log_pages: u32,
}

impl Inode {
    pub fn is_directory(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }
}

/// The bytes of all pools.
pub struct Reader {
    pub pools: Vec<Vec<u8>>,
}

impl Reader {
    /// Check the superblocks of all pools, and finish what journals hold.
    pub fn new(pools: Vec<Vec<u8>>) -> Reader {
        for (index, pool) in pools.iter().enumerate() {
            assert_eq!(pool[..8192], pool[8192..16384], "two copies");
            assert_eq!(&pool[..8], b"EGERIAFS");
            assert_eq!(u32_at(pool, 8), 6, "format version");
            assert_eq!(u16_at(pool, 12), index);
            assert_eq!(u16_at(pool, 14), pools.len());
            assert_eq!(pool[16..32], pools[0][16..32], "volume");
            assert_eq!(pool[40..56], pools[0][40..56], "secret");
            assert!(pool[40..56] != [0; 16], "secret");
            assert_eq!(u32_at(pool, 8188), crc32c(0, &pool[..8188]));
        }
        let mut reader = Reader { pools };
        for slot in 0..4096 {
            reader.replay(slot);
        }
        reader
    }

    fn replay(&mut self, slot: usize) {
        let at = 5 * BLOCK + slot * 256;
        let word = u64_at(&self.pools[0], at);
        let count = (word >> 32) as usize & 0xffff;
        if word >> 48 != 0xE6E8 || count == 0 || count > 15 {
            return;
        }
        let pairs = self.pools[0][at + 16..at + 16 + 16 * count].to_vec();
        if crc32c(slot as u32, &pairs) == word as u32 {
            for pair in pairs.chunks(16) {
                let (pool, to) = (
                    pair[7] as usize,
                    (u64_at(pair, 0) & ((1 << 56) - 1)) as usize,
                );
                self.pools[pool][to..to + 8].copy_from_slice(&pair[8..]);
            }
        }
    }

    /// Blocks of a pool, and first blocks of its pointers and its data.
    pub fn geometry(&self, pool: usize) -> (u64, usize, usize) {
        let blocks = u64_at(&self.pools[pool], 256 + 480 * pool);
        let pointers = if pool == 0 { 5 + 256 } else { 5 };
        let inode_blocks = (blocks / 32).max(1) as usize;
        (
            blocks,
            pointers,
            pointers + (inode_blocks * 8).div_ceil(BLOCK),
        )
    }

    /// Pool and offset of a record.
    pub fn record(&self, ino: u64) -> Option<(usize, usize)> {
        let (pool, index) = ((ino - 1) as usize % 16, (ino - 1) as usize / 16);
        let chunk = index / 32;
        let at = self.geometry(pool).1 * BLOCK + chunk * 8;
        let word = u64_at(&self.pools[pool], at);
        if word == 0 {
            return None;
        }
        let low = unseal(b"LINK", u64::MAX - chunk as u64, word);
        Some((pool, parts(low).1 * BLOCK + (index % 32) * 128))
    }

    /// An inode, or `None` when its number is free.
    pub fn inode(&self, ino: u64) -> Option<Inode> {
        let (pool, at) = self.record(ino)?;
        let record = &self.pools[pool][at..at + 128];
        if u64_at(record, 0) == 0 {
            return None;
        }
        let commit = unseal(b"COMT", ino, u64_at(record, 0));
        assert_eq!(commit >> 53, 1, "in use");
        let certificate = &record[64..];
        assert_eq!(u32_at(certificate, 60), crc32c(0, &certificate[..60]));
        assert_eq!(u64_at(certificate, 0), ino);
        let birth_ns = u64_at(certificate, 32) as i64;
        let mut inode = Inode {
            generation: u32_at(certificate, 8),
            mode: u32_at(certificate, 12),
            uid: u32_at(certificate, 16),
            gid: u32_at(certificate, 20),
            rdev: u32_at(certificate, 24),
            nlink: u32_at(certificate, 28),
            times_ns: [birth_ns; 3],
            parent: u64_at(certificate, 40),
            checksums: u32_at(certificate, 48) & 1 == 1,
            ..Inode::default()
        };
        if inode.checksums && inode.is_directory() {
            let attribute = (b"user.egeria.checksum".to_vec(), b"crc32c".to_vec());
            inode.xattrs.extend([attribute]);
        }
        let layout = match u32_at(certificate, 52) {
            0 => None,
            u32::MAX => Some("local".to_owned()),
            blocks => Some(format!("striped:{}", blocks * 4096)),
        };
        let attribute = layout.map(|value| (b"user.egeria.layout".to_vec(), value.into_bytes()));
        inode.xattrs.extend(attribute);
        let head = u64_at(record, 8 + 8 * ((commit >> 51) & 1) as usize);
        self.walk(ino, &mut inode, head, commit & ((1 << 51) - 1));
        if commit >> 52 & 1 == 1 {
            inode.nlink = 0;
        }
        if u64_at(record, 24) != 0 {
            let age_ns = unseal(b"MOVE", ino, u64_at(record, 24));
            let moved_ns = birth_ns + age_ns as i64;
            inode.times_ns[2] = inode.times_ns[2].max(moved_ns);
        }
        Some(inode)
    }

    fn walk(&self, ino: u64, inode: &mut Inode, head: u64, tail: u64) {
        if tail == 0 {
            return;
        }
        let mut position = self.enter(ino, inode, head);
        while position != tail {
            let (pool, at) = place(position);
            let line = position & 127;
            if line == 64 {
                let page = at - 64 * 64;
                position = self.enter(ino, inode, u64_at(&self.pools[pool], page + 32));
                continue;
            }
            let lines = u64::from(self.pools[pool][at + 1]);
            assert!(lines > 0 && line + lines <= 64);
            let entry = &self.pools[pool][at..at + lines as usize * 64];
            let sealed = [
                &ino.to_le_bytes()[..],
                &position.to_le_bytes(),
                &inode.generation.to_le_bytes(),
                &entry[..4],
                &entry[8..],
            ]
            .concat();
            assert_eq!(u32_at(entry, 4), crc32c(0, &sealed), "entry of {ino}");
            apply(inode, position, entry);
            position += lines;
        }
    }

    /// Check the page a link names; position of its first entry.
    fn enter(&self, ino: u64, inode: &mut Inode, link: u64) -> u64 {
        let page = unseal(b"LINK", ino, link);
        let (pool, at) = place(page);
        let header = &self.pools[pool][at..at + 64];
        assert_eq!(u32_at(header, 0), 0x4547_4c50);
        assert_eq!(u32_at(header, 4), crc32c(0, &header[8..32]));
        assert_eq!(u32_at(header, 8), inode.generation);
        assert_eq!(u32_at(header, 12), inode.log_pages);
        assert_eq!(u64_at(header, 16), ino);
        assert_eq!(u64_at(header, 24), page);
        inode.log_pages += 1;
        page + 1
    }

    /// Content of a file or target of a link.
    pub fn content(&self, inode: &Inode) -> Vec<u8> {
        let mut content = vec![0; inode.size_bytes as usize];
        for (file_block, (pool, block, unwritten)) in &inode.blocks {
            let from = *file_block as usize * BLOCK;
            if !unwritten && from < content.len() {
                let bytes = BLOCK.min(content.len() - from);
                let at = *block as usize * BLOCK;
                self.check(inode, *file_block, &self.pools[*pool][at..at + BLOCK]);
                content[from..from + bytes].copy_from_slice(&self.pools[*pool][at..at + bytes]);
            }
        }
        content
    }
}

impl Reader {
    /// docs/reference/format.md, Checksums of data.
    fn check(&self, inode: &Inode, file_block: u64, bytes: &[u8]) {
        let sum = inode.sums.get(&file_block);
        assert_eq!(sum.is_some(), inode.checksums, "block {file_block}");
        assert!(sum.is_none_or(|sum| *sum == crc32c(0, bytes)));
        let end = (file_block + 1) * BLOCK as u64;
        let behind = end.saturating_sub(inode.size_bytes).min(BLOCK as u64) as usize;
        let is_zero = bytes[BLOCK - behind..].iter().all(|byte| *byte == 0);
        assert!(is_zero || !inode.checksums, "behind the end");
    }
}

/// docs/reference/format.md, Entries: what each does.
fn apply(inode: &mut Inode, position: u64, entry: &[u8]) {
    let time_ns = u64_at(entry, 8) as i64;
    let first = u64_at(entry, 16);
    let mut modified = false;
    match entry[0] {
        kind @ (1 | 9) => {
            let (pool, block, _) = parts(u64_at(entry, 32));
            for at in 0..u64_at(entry, 24) {
                let place = (pool, block as u64 + at, entry[2] & 1 == 1);
                inode.blocks.insert(first + at, place);
                inode.sums.remove(&(first + at));
                if kind == 9 {
                    let sum = u32_at(entry, 48 + 4 * at as usize);
                    inode.sums.insert(first + at, sum);
                }
            }
            inode.size_bytes = u64_at(entry, 40);
            modified = entry[2] & 2 == 2;
        }
        2 => {
            let end = first + u64_at(entry, 24);
            inode
                .blocks
                .retain(|block, _| *block < first || *block >= end);
            inode.size_bytes = u64_at(entry, 40);
            modified = true;
        }
        3 => {
            inode.mode = u32_at(entry, 16);
            inode.uid = u32_at(entry, 20);
            inode.gid = u32_at(entry, 24);
            inode.nlink = u32_at(entry, 28);
            let size_bytes = u64_at(entry, 32);
            if size_bytes < inode.size_bytes {
                let end = size_bytes.div_ceil(BLOCK as u64);
                inode.blocks.retain(|block, _| *block < end);
            }
            inode.size_bytes = size_bytes;
            inode.times_ns[0] = u64_at(entry, 40) as i64;
            inode.times_ns[1] = u64_at(entry, 48) as i64;
            if inode.is_directory() {
                inode.parent = u64_at(entry, 56);
            }
        }
        4 => {
            let name = entry[34..34 + entry[33] as usize].to_vec();
            inode.names.insert(position, (name, first, entry[32]));
            modified = true;
        }
        5 => {
            inode.names.remove(&first).expect("the name that was added");
            modified = true;
        }
        kind @ (6 | 7) => {
            let end = 20 + entry[16] as usize;
            let name = entry[20..end].to_vec();
            match kind {
                6 => {
                    let value = &entry[end..end + u16_at(entry, 18)];
                    inode.xattrs.insert(name, value.to_vec())
                }
                _ => inode.xattrs.remove(&name),
            };
        }
        8 => return,
        kind => panic!("entry of kind {kind}"),
    }
    if modified {
        inode.times_ns[1] = time_ns;
    }
    inode.times_ns[2] = time_ns;
}
