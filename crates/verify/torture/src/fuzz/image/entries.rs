//! Forging log entries: fields, bytes behind a good checksum, whole new histories.

use super::super::values::HostileValues;
use super::forge::Forge;
use super::layout::{Page, entry_lines};
use egeria_engine::format::*;
use egeria_media::{BlockNumber, PoolIndex, PoolOffset};

/// Most entries appended to a log at once; a flood has more.
const MAX_APPENDED: u64 = 6;

impl Forge<'_> {
    /// Exchange an entry for one that differs in a field, or wholly.
    pub(super) fn change_entry(&mut self) {
        let Some((page, line, bytes)) = self.any_entry() else {
            return;
        };
        let old = decode_entry(&bytes, page.seal(line));
        let time_ns = if self.rng.one_in(4) {
            self.rng.boundary_value() as i64
        } else {
            old.map_or(0, |(_, time_ns)| time_ns)
        };
        let room = PAGE_LINES - line;
        let fresh = Fresh::draw(self);
        let entry = match old {
            Some((old, _)) if !self.rng.one_in(3) => self.vary(old, &fresh),
            _ => self.invent(&fresh),
        };
        let lines = match self.rng.one_in(16) {
            true => 1 + self.rng.below(u64::from(room)) as u8,
            false if matches!(entry, Entry::Pad) => bytes[1].clamp(1, room),
            false => entry.lines(),
        };
        if lines <= room && lines >= entry.lines() {
            self.line(|| {
                format!(
                    "line {line} of block {} of pool {} (inode {}): {entry:?}",
                    page.block, page.pool, page.ino
                )
            });
            self.put_entry(&page, line, &entry, lines, time_ns);
        }
    }

    /// Change bytes of an entry, and seal it again.
    pub(super) fn change_sealed_bytes(&mut self) {
        let Some((page, line, mut bytes)) = self.any_entry() else {
            return;
        };
        for _ in 0..=self.rng.below(3) {
            let at = if self.rng.one_in(2) {
                // The fixed fields.
                self.rng.index(64)
            } else {
                self.rng.index(bytes.len())
            };
            bytes[at] = match self.rng.below(3) {
                0 => bytes[at] ^ (1 << self.rng.below(8)),
                1 => self.rng.boundary_value() as u8,
                _ => [0, 1, 0x7f, 0x80, 0xff, b'/'][self.rng.index(6)],
            };
        }
        // Its claim of lines decides how much the checksum covers.
        let lines = bytes[1].clamp(1, PAGE_LINES - line);
        let at = page.position(line).offset();
        let mut whole: [u8; BLOCK] = self.read(page.pool, page.position(0).offset());
        let start = usize::from(line) * LINE;
        whole[start..start + bytes.len()].copy_from_slice(&bytes);
        let sealed = &mut whole[start..start + usize::from(lines) * LINE];
        let sum = page.seal(line).checksum(sealed);
        sealed[4..8].copy_from_slice(&sum.to_le_bytes());
        self.line(|| {
            format!(
                "bytes of line {line} of block {} of pool {} (inode {}), sealed",
                page.block, page.pool, page.ino
            )
        });
        self.write(page.pool, at, sealed);
    }

    /// Add entries behind a log's tail.
    pub(super) fn append_entries(&mut self) {
        let Some(record) = self.any_record() else {
            return;
        };
        for _ in 0..=self.rng.below(MAX_APPENDED) {
            let fresh = Fresh::draw(self);
            let entry = self.invent(&fresh);
            let time_ns = self.rng.boundary_value() as i64;
            if !self.append(record.ino, &entry, time_ns) {
                return;
            }
        }
    }

    /// Fill the page of a log's tail with entries of one kind that take much work each.
    pub(super) fn flood(&mut self) {
        let Some(record) = self.any_record() else {
            return;
        };
        let mut fresh = Fresh::draw(self);
        let kind = self.rng.below(4);
        let geometry = self.sample.layout.geometry[record.pool];
        for round in 0..u64::from(PAGE_LINES) {
            let size_bytes = fresh.numbers[1];
            fresh.numbers[0] = fresh.numbers[0].wrapping_add(round);
            let entry = match kind {
                // The whole pool, far apart.
                0 => Entry::Write(WriteEntry {
                    file_block: ((fresh.numbers[0] % 64) << 40) + round * geometry.blocks,
                    count: geometry.blocks - geometry.data_block.0,
                    pool: PoolIndex(record.pool as u8),
                    block: geometry.data_block,
                    size_bytes: size_bytes >> 1,
                    unwritten: false,
                    touches_mtime: false,
                    sums: &[],
                }),
                // One name, again and again.
                1 => Entry::NameAdd {
                    ino: fresh.ino,
                    kind: 1,
                    cookie: 3 + round,
                    name: b"same",
                },
                2 => Entry::Hole {
                    file_block: 0,
                    count: 1 << 51,
                    size_bytes: size_bytes >> 1,
                },
                _ => Entry::NameRemove {
                    added: fresh.position.at_line(round as u8),
                },
            };
            if !self.append(record.ino, &entry, round as i64) {
                return;
            }
        }
    }

    /// Add an entry behind the tail, if the page of the tail has room for it.
    fn append(&mut self, ino: u64, entry: &Entry<'_>, time_ns: i64) -> bool {
        let Some(record) = self.sample.layout.record(ino).copied() else {
            return false;
        };
        let at = record.at + COMMIT_WORD_AT;
        let word = self.load(record.pool, at);
        let Ok(Some(commit)) = CommitWord::decode(word, ino) else {
            return false;
        };
        let (tail, lines) = (commit.tail, entry.lines());
        if tail.is_none() || tail.line() + lines > PAGE_LINES {
            return false;
        }
        let page = Page {
            pool: tail.pool().0 as usize,
            block: tail.block().0,
            ino,
            generation: record.generation,
            sequence: 0,
        };
        self.line(|| format!("appended to inode {ino}: {entry:?}"));
        self.put_entry(&page, tail.line(), entry, lines, time_ns);
        let tail = tail.at_line(tail.line() + lines);
        let commit = CommitWord { tail, ..commit };
        self.store(record.pool, at, commit.encode(ino));
        true
    }

    fn put_entry(&self, page: &Page, line: u8, entry: &Entry<'_>, lines: u8, time_ns: i64) {
        let mut bytes = vec![0; usize::from(lines) * LINE];
        entry.encode(&mut bytes, lines, time_ns, page.seal(line));
        self.write(page.pool, page.position(line).offset(), &bytes);
    }

    /// A page, a line where an entry begins, and the entry's bytes.
    fn any_entry(&mut self) -> Option<(Page, u8, Vec<u8>)> {
        let page = self.any_page()?;
        let at: PoolOffset = page.position(0).offset();
        let bytes: [u8; BLOCK] = self.read(page.pool, at);
        let lines = entry_lines(&bytes);
        let line = self.rng.choose(&lines).copied()?;
        let count = bytes[usize::from(line) * LINE + 1].clamp(1, PAGE_LINES - line);
        let start = usize::from(line) * LINE;
        let end = start + usize::from(count) * LINE;
        Some((page, line, bytes[start..end].to_vec()))
    }

    /// The same with one field different.
    fn vary<'e>(&mut self, old: Entry<'e>, fresh: &'e Fresh) -> Entry<'e> {
        let which = self.rng.below(7);
        let mut near = |number: u64, value: u64| {
            if which == number {
                self.rng.near_value(value)
            } else {
                value
            }
        };
        match old {
            Entry::Write(write) => Entry::Write(WriteEntry {
                file_block: near(0, write.file_block),
                count: near(1, write.count),
                pool: if which == 2 {
                    fresh.position.pool()
                } else {
                    write.pool
                },
                block: if which == 3 {
                    BlockNumber(fresh.block)
                } else {
                    write.block
                },
                size_bytes: near(4, write.size_bytes),
                unwritten: write.unwritten ^ (which == 5),
                sums: if which == 6 {
                    &fresh.value[..fresh.sums_bytes(write.count)]
                } else {
                    write.sums
                },
                ..write
            }),
            Entry::Hole {
                file_block,
                count,
                size_bytes,
            } => Entry::Hole {
                file_block: near(0, file_block),
                count: near(1, count),
                size_bytes: near(2, size_bytes),
            },
            Entry::Attributes(state) => Entry::Attributes(self.vary_attributes(state, fresh)),
            Entry::NameAdd {
                ino,
                kind,
                cookie,
                name,
            } => Entry::NameAdd {
                ino: if which < 2 { fresh.ino } else { ino },
                kind: near(2, u64::from(kind)) as u8 % 10,
                cookie: near(3, cookie),
                name: if which > 3 { &fresh.name } else { name },
            },
            Entry::NameRemove { .. } => Entry::NameRemove {
                added: fresh.position,
            },
            other => match which {
                0 => other,
                _ => self.invent(fresh),
            },
        }
    }

    fn vary_attributes(&mut self, state: AttributeState, fresh: &Fresh) -> AttributeState {
        let mut state = state;
        let rng = &mut self.rng;
        match rng.below(8) {
            0 => state.mode = rng.near_value(u64::from(state.mode)) as u32,
            1 => state.nlink = rng.near_value(u64::from(state.nlink)) as u32,
            2 => state.size_bytes = rng.near_value(state.size_bytes),
            3 => state.atime_ns = rng.boundary_value() as i64,
            4 => state.mtime_ns = rng.boundary_value() as i64,
            5 => state.uid = rng.boundary_value() as u32,
            _ => state.parent = fresh.ino,
        }
        state
    }

    /// An entry of any kind whose fields may even make sense.
    fn invent<'e>(&mut self, fresh: &'e Fresh) -> Entry<'e> {
        let [first, second, third, fourth] = fresh.numbers;
        match self.rng.below(9) {
            0 | 1 => Entry::Write(WriteEntry {
                file_block: first,
                count: second,
                pool: fresh.position.pool(),
                block: BlockNumber(fresh.block),
                size_bytes: third,
                unwritten: fourth & 1 == 1,
                touches_mtime: fourth & 2 == 2,
                sums: &fresh.value[..fresh.sums_bytes(second)],
            }),
            2 => Entry::Hole {
                file_block: first,
                count: second,
                size_bytes: third,
            },
            3 | 4 => Entry::NameAdd {
                ino: fresh.ino,
                kind: 1 + (fourth % 8) as u8,
                cookie: third,
                name: &fresh.name,
            },
            5 => Entry::NameRemove {
                added: fresh.position,
            },
            6 => Entry::XattrSet {
                name: &fresh.name,
                value: &fresh.value,
            },
            7 => Entry::XattrRemove { name: &fresh.name },
            _ => Entry::Attributes(AttributeState {
                mode: fresh.mode,
                uid: first as u32,
                gid: second as u32,
                nlink: fourth as u32 % 4,
                size_bytes: third,
                atime_ns: first as i64,
                mtime_ns: second as i64,
                parent: fresh.ino,
            }),
        }
    }
}

/// What new entries are made of.
struct Fresh {
    ino: u64,
    block: u64,
    position: LogPosition,
    /// Two small or a boundary value, one length, one of anything.
    numbers: [u64; 4],
    mode: u32,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Fresh {
    /// Length of checksums for so many blocks: right, none, or another.
    fn sums_bytes(&self, count: u64) -> usize {
        let most = self.value.len() / 4;
        let count = match self.numbers[3] % 4 {
            0 => 0,
            1 => self.numbers[3] >> 8,
            _ => count,
        };
        4 * (count.min(MAX_SUMS) as usize).min(most)
    }

    fn draw(forge: &mut Forge<'_>) -> Fresh {
        const KINDS: [u32; 5] = [
            libc::S_IFREG,
            libc::S_IFDIR,
            libc::S_IFLNK,
            libc::S_IFIFO,
            0,
        ];
        let few = |forge: &mut Forge<'_>| {
            if forge.rng.one_in(3) {
                forge.rng.boundary_value()
            } else {
                forge.rng.below(12)
            }
        };
        let value_bytes = if forge.rng.one_in(4) {
            forge.rng.index(MAX_XATTR_VALUE_BYTES + 1)
        } else {
            forge.rng.index(80)
        };
        let (name, value) = if forge.rng.one_in(4) {
            own_attribute(forge)
        } else {
            (forge.any_name(), vec![b'v'; value_bytes])
        };
        Fresh {
            ino: forge.any_ino(),
            block: forge.any_block(),
            position: forge.any_position(),
            numbers: [
                few(forge),
                few(forge),
                forge.any_length(),
                forge.rng.next_u64(),
            ],
            mode: KINDS[forge.rng.index(5)] | forge.rng.below(0o10000) as u32,
            name,
            value,
        }
    }
}

/// An attribute that means something to the engine, with a value that it may or may not have.
fn own_attribute(forge: &mut Forge<'_>) -> (Vec<u8>, Vec<u8>) {
    const CHECKSUMS: [&[u8]; 3] = [b"crc32c", b"off", b"crc33"];
    const LAYOUTS: [&[u8]; 12] = [
        b"local",
        b"striped",
        b"striped:4096",
        b"striped:8192",
        b"striped:1073741824",
        b"striped:1073745920",
        b"striped:0",
        b"striped:1",
        b"striped:18446744073709551616",
        b"striped:\xff\0",
        b"node=9",
        b"",
    ];
    let (name, values): (&[u8], &[&[u8]]) = if forge.rng.one_in(4) {
        (b"user.egeria.checksum", &CHECKSUMS)
    } else {
        (b"user.egeria.layout", &LAYOUTS)
    };
    (
        name.to_vec(),
        values[forge.rng.index(values.len())].to_vec(),
    )
}
