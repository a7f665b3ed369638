//! Structures with absurd fields and right checksums: what damage by chance hardly ever makes, and what
//! only checks of every field catch.

use super::damage::Random;
use egeria_engine::format::*;
use egeria_media::{BlockNumber, PoolIndex, PoolOffset};

/// A log page: its pool, its place, and what its entries are sealed with.
struct Page {
    pool: usize,
    at: usize,
    ino: u64,
    generation: u32,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a word"))
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn pages(pools: &[Vec<u8>]) -> Vec<Page> {
    let mut pages = Vec::new();
    for (pool, bytes) in pools.iter().enumerate() {
        for at in (0..bytes.len()).step_by(BLOCK) {
            if word(bytes, at) as u32 == LOG_PAGE_MAGIC {
                let (ino, generation) = (word(bytes, at + 16), (word(bytes, at + 8)) as u32);
                pages.push(Page {
                    pool,
                    at,
                    ino,
                    generation,
                });
            }
        }
    }
    pages
}

fn position(random: &mut Random, page: &Page) -> LogPosition {
    match random.below(4) {
        0 => LogPosition(random.nasty() & ((1 << 51) - 1)),
        1 => LogPosition::new(
            PoolIndex(random.below(3) as u8),
            BlockNumber(random.nasty()),
            random.below(128) as u8,
        ),
        _ => LogPosition::new(
            PoolIndex(page.pool as u8),
            BlockNumber((page.at / BLOCK) as u64),
            random.below(128) as u8,
        ),
    }
}

/// One forgery somewhere.
pub fn forge(random: &mut Random, pools: &mut [Vec<u8>]) {
    let all = pages(pools);
    if all.is_empty() {
        return;
    }
    let page = &all[random.below(all.len())];
    match random.below(9) {
        0..=3 => forge_entry(random, &mut pools[page.pool], page),
        4 => forge_commit(random, pools, page),
        5 => {
            let link = encode_link(page.ino, position(random, page));
            put(&mut pools[page.pool], page.at + NEXT_PAGE_AT as usize, link);
        }
        6 => forge_certificate(random, pools, page.ino),
        7 => forge_journal(random, &mut pools[0]),
        _ => forge_pointer(random, pools),
    }
}

fn forge_entry(random: &mut Random, pool: &mut [u8], page: &Page) {
    // The lines where entries begin.
    let mut lines = vec![1u8];
    while let Some(line) = lines.last().copied().filter(|line| *line < PAGE_LINES) {
        match pool[page.at + line as usize * LINE + 1] {
            0 => break,
            count => lines.push(line.saturating_add(count)),
        }
    }
    let line = lines[random.below(lines.len())].min(PAGE_LINES - 1);
    let here = LogPosition::new(
        PoolIndex(page.pool as u8),
        BlockNumber((page.at / BLOCK) as u64),
        line,
    );
    let at = page.at + line as usize * LINE;
    let room = (PAGE_LINES - line) as usize * LINE;
    let seal = EntrySeal {
        ino: page.ino,
        generation: page.generation,
        position: here,
    };
    let lines = (pool[at + 1].max(1) as usize).min(PAGE_LINES as usize - line as usize) as u8;
    let old = pool[at..at + room].to_vec();
    let old = decode_entry(&old[..lines as usize * LINE], seal).map(|(entry, _)| entry);
    let entry = absurd_entry(random, page, old);
    let lines = match entry {
        Entry::Pad => lines,
        entry => entry.lines(),
    };
    if lines as usize * LINE <= room {
        entry.encode(
            &mut pool[at..at + lines as usize * LINE],
            lines,
            random.nasty() as i64,
            seal,
        );
    }
}

/// Mostly an entry of the same kind with one field changed.
fn absurd_entry<'a>(random: &mut Random, page: &Page, old: Option<Entry<'a>>) -> Entry<'a> {
    let place = position(random, page);
    match old {
        Some(Entry::Write(write)) => {
            let which = random.below(7);
            let change = |number, value, random: &mut Random| {
                if which == number {
                    random.nasty()
                } else {
                    value
                }
            };
            Entry::Write(WriteEntry {
                file_block: change(0, write.file_block, random),
                count: change(1, write.count, random),
                pool: if which == 2 { place.pool() } else { write.pool },
                block: BlockNumber(change(3, write.block.0, random)),
                size_bytes: change(4, write.size_bytes, random),
                sums: match which {
                    5 => &[],
                    6 => &[9; 4],
                    _ => write.sums,
                },
                ..write
            })
        }
        Some(Entry::Attributes(state)) => Entry::Attributes(absurd_attributes(random, state)),
        Some(Entry::NameAdd {
            ino,
            kind,
            cookie,
            name,
        }) => match random.below(3) {
            0 => Entry::NameAdd {
                ino: random.nasty(),
                kind,
                cookie,
                name,
            },
            1 => Entry::NameAdd {
                ino: random.below(200) as u64,
                kind: random.below(9) as u8,
                cookie,
                name,
            },
            _ => Entry::NameAdd {
                ino,
                kind,
                cookie: random.nasty(),
                name,
            },
        },
        Some(Entry::NameRemove { .. }) => Entry::NameRemove { added: place },
        _ => match random.below(4) {
            0 => Entry::Hole {
                file_block: random.nasty(),
                count: random.nasty(),
                size_bytes: random.nasty(),
            },
            1 => Entry::NameRemove { added: place },
            2 => Entry::XattrRemove { name: b"" },
            _ => Entry::Pad,
        },
    }
}

fn absurd_attributes(random: &mut Random, state: AttributeState) -> AttributeState {
    let nasty = random.nasty();
    match random.below(6) {
        0 => AttributeState {
            mode: nasty as u32,
            ..state
        },
        1 => AttributeState {
            nlink: nasty as u32,
            ..state
        },
        2 => AttributeState {
            size_bytes: nasty,
            ..state
        },
        3 => AttributeState {
            atime_ns: nasty as i64,
            mtime_ns: !nasty as i64,
            ..state
        },
        _ => AttributeState {
            parent: if random.below(2) == 0 {
                nasty
            } else {
                random.below(200) as u64
            },
            ..state
        },
    }
}

/// Where an inode's record is, by the pointers of the image.
fn record(pools: &[Vec<u8>], ino: u64) -> Option<(usize, usize)> {
    let (pool, index) = inode_place(ino)?;
    let bytes = pools.get(pool.0 as usize)?;
    let geometry = Geometry::new(pool.0, (bytes.len() / BLOCK) as u64);
    let chunk = index / INODES_PER_BLOCK;
    let at = inode_pointer(&geometry, chunk).0 as usize;
    let block = decode_inode_pointer(chunk, word(bytes.get(at..at + 8)?, 0)).ok()??;
    let at =
        (block.0 as usize).checked_mul(BLOCK)? + (index % INODES_PER_BLOCK * INODE_BYTES) as usize;
    (at + 128 <= bytes.len()).then_some((pool.0 as usize, at))
}

fn forge_commit(random: &mut Random, pools: &mut [Vec<u8>], page: &Page) {
    let Some((pool, at)) = record(pools, page.ino) else {
        return;
    };
    let commit = CommitWord {
        tail: if random.below(8) == 0 {
            LogPosition::NONE
        } else {
            position(random, page)
        },
        head_index: random.below(2) as u8,
        orphan: random.below(4) == 0,
    };
    put(&mut pools[pool], at, commit.encode(page.ino));
}

fn forge_certificate(random: &mut Random, pools: &mut [Vec<u8>], ino: u64) {
    let Some((pool, at)) = record(pools, ino) else {
        return;
    };
    let at = at + CERTIFICATE_AT as usize;
    let bytes: [u8; LINE] = pools[pool][at..at + LINE].try_into().expect("a line");
    let Some(old) = Certificate::decode(&bytes, ino) else {
        return;
    };
    let nasty = random.nasty();
    let kinds = [libc::S_IFREG, libc::S_IFDIR, libc::S_IFLNK, libc::S_IFIFO];
    let forged = match random.below(6) {
        5 => Certificate {
            layout: LayoutWord(nasty as u32),
            ..old
        },
        3 => Certificate {
            checksums: !old.checksums,
            ..old
        },
        0 => Certificate {
            mode: kinds[random.below(4)] | nasty as u32 & 0o7777,
            ..old
        },
        1 => Certificate {
            nlink: nasty as u32,
            ..old
        },
        2 => Certificate {
            parent: nasty,
            ..old
        },
        _ => Certificate {
            generation: nasty as u32,
            birth_ns: nasty as i64,
            ..old
        },
    };
    pools[pool][at..at + LINE].copy_from_slice(&forged.encode());
}

fn forge_journal(random: &mut Random, pool: &mut [u8]) {
    let slot = random.below(JOURNAL_SLOTS as usize) as u64;
    let pairs: Vec<JournalPair> = (0..=random.below(MAX_JOURNAL_PAIRS))
        .map(|_| JournalPair {
            pool: PoolIndex(random.below(3) as u8),
            at: PoolOffset(random.nasty() & ((1 << 56) - 1)),
            value: random.nasty(),
        })
        .collect();
    let bytes = encode_journal_pairs(&pairs);
    let at = journal_slot(slot).0 as usize;
    put(pool, at, journal_commit_word(slot, &bytes));
    pool[at + 16..at + 16 + bytes.len().min(240)].copy_from_slice(&bytes[..bytes.len().min(240)]);
}

fn forge_pointer(random: &mut Random, pools: &mut [Vec<u8>]) {
    let pool = random.below(pools.len());
    let geometry = Geometry::new(pool as u8, (pools[pool].len() / BLOCK) as u64);
    let chunk = random.below(6) as u64;
    let at = inode_pointer(&geometry, chunk).0 as usize;
    let block = if random.below(2) == 0 {
        random.nasty()
    } else {
        geometry.data_block.0 + random.below(40) as u64
    };
    put(
        &mut pools[pool],
        at,
        encode_inode_pointer(chunk, BlockNumber(block & ((1 << 40) - 1))),
    );
}
