//! Log pages and entries. A page is a header line and 63 lines of entries. An entry is 1 to 63 lines with its own
//! checksum. The checksum also covers inode, generation and position, so that a stale or misplaced line is detected.

use super::*;
use egeria_media::{BlockNumber, PoolIndex};

/// First word of a log page.
pub const LOG_PAGE_MAGIC: u32 = 0x4547_4c50;
/// Offset of the link to the next page in a page's header.
pub const NEXT_PAGE_AT: u64 = 32;
pub const PAGE_LINES: u8 = 64;
/// Maximum number of checksums in one `Write`: a quarter of a page, so that pages fill well.
pub const MAX_SUMS: u64 = ((15 * LINE - SUMS_AT) / 4) as u64;
/// Offset of the checksums in a `Write` that has some.
const SUMS_AT: usize = 48;
/// Longest extended attribute value, bytes: name and value share one entry within a page.
pub const MAX_XATTR_VALUE_BYTES: usize = 63 * LINE - 20 - MAX_NAME_BYTES;

/// Header line of a log page, without the link. `sequence` counts the pages of the chain from 0, so that a chain of
/// valid pages cannot form a cycle.
pub fn encode_page_header(
    ino: u64,
    generation: u32,
    page: LogPosition,
    sequence: u32,
) -> [u8; LINE] {
    let mut bytes = [0u8; LINE];
    put_u32(&mut bytes, 0, LOG_PAGE_MAGIC);
    put_u32(&mut bytes, 8, generation);
    put_u32(&mut bytes, 12, sequence);
    put_u64(&mut bytes, 16, ino);
    put_u64(&mut bytes, 24, page.at_line(0).0);
    let crc = super::checksum::crc32c(&bytes[8..32]);
    put_u32(&mut bytes, 4, crc);
    bytes
}

/// Whether a header line is that of this page of this inode.
pub fn is_page_header(
    bytes: &[u8; LINE],
    ino: u64,
    generation: u32,
    page: LogPosition,
    sequence: u32,
) -> bool {
    bytes[..32] == encode_page_header(ino, generation, page, sequence)[..32]
}

/// Attributes as an inode's log records them: always the complete state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttributeState {
    /// Type and permissions.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    /// Size; smaller than before means truncated.
    pub size_bytes: u64,
    pub atime_ns: i64,
    /// Modification time.
    pub mtime_ns: i64,
    /// Parent of a directory.
    pub parent: u64,
}

/// File blocks `file_block..+count` lie at `pool`, `block..+count`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteEntry<'a> {
    /// First file block.
    pub file_block: u64,
    /// How many blocks; 0 if only the size changes.
    pub count: u64,
    /// Pool they lie in.
    pub pool: PoolIndex,
    /// First block there.
    pub block: BlockNumber,
    /// Size of the file after the operation.
    pub size_bytes: u64,
    /// Reserved, reads as zeros.
    pub unwritten: bool,
    /// Data was written: the modification time is the entry's time.
    pub touches_mtime: bool,
    /// CRC-32C of each block, 4 bytes each, for files with checksums; else empty.
    pub sums: &'a [u8],
}

impl WriteEntry<'_> {
    /// The only line of an entry without checksums, as little-endian words.
    #[inline(always)]
    pub fn line(&self, time_ns: i64, seal: EntrySeal) -> [u64; LINE / 8] {
        let unwritten = if self.unwritten { FLAG_UNWRITTEN } else { 0 };
        let touches_mtime = if self.touches_mtime {
            FLAG_TOUCHES_MTIME
        } else {
            0
        };
        let head = u32::from_le_bytes([KIND_WRITE, 1, unwritten | touches_mtime, 0]);
        let [time, place] = [time_ns as u64, LogPosition::new(self.pool, self.block, 0).0];
        let [first, count, size] = [self.file_block, self.count, self.size_bytes];
        let [ino, position, generation] = seal.words(head);
        let covered = [
            ino, position, generation, time, first, count, place, size, 0, 0,
        ];
        let crc = super::checksum::crc32c_words(0, covered);
        let head = u64::from(head) | u64::from(crc) << 32;
        [head, time, first, count, place, size, 0, 0]
    }
}

/// A decoded log entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry<'a> {
    /// File blocks lie somewhere from now on.
    Write(WriteEntry<'a>),
    /// File blocks `file_block..+count` are a hole.
    Hole {
        /// First file block.
        file_block: u64,
        count: u64,
        /// Size of the file after the operation.
        size_bytes: u64,
    },
    /// Attributes from now on; change time is the entry's time.
    Attributes(AttributeState),
    /// A name was added.
    NameAdd {
        /// Inode it names.
        ino: u64,
        /// Kind of that inode ([`crate::FileKind`]).
        kind: u8,
        /// Its place in directory order.
        cookie: u64,
        name: &'a [u8],
    },
    /// The name added at this position is removed.
    NameRemove {
        /// Position of the `NameAdd`.
        added: LogPosition,
    },
    /// An extended attribute was set to this value.
    XattrSet { name: &'a [u8], value: &'a [u8] },
    /// An extended attribute was removed.
    XattrRemove { name: &'a [u8] },
    /// Padding: the rest of a page that the next entry did not fit in.
    Pad,
}

const KIND_WRITE: u8 = 1;
const KIND_HOLE: u8 = 2;
const KIND_ATTRIBUTES: u8 = 3;
const KIND_NAME_ADD: u8 = 4;
const KIND_NAME_REMOVE: u8 = 5;
const KIND_XATTR_SET: u8 = 6;
const KIND_XATTR_REMOVE: u8 = 7;
const KIND_PAD: u8 = 8;
const KIND_WRITE_WITH_SUMS: u8 = 9;
const FLAG_UNWRITTEN: u8 = 1;
const FLAG_TOUCHES_MTIME: u8 = 2;

/// Lines an entry of a name and a value takes.
fn lines_for(bytes: usize) -> u8 {
    bytes.div_ceil(LINE) as u8
}

impl Entry<'_> {
    /// This `Write` with these checksums; other entries unchanged.
    pub fn with_sums<'s>(&'s self, of_blocks: &'s [u8]) -> Entry<'s> {
        let mut entry: Entry<'s> = *self;
        if let Entry::Write(WriteEntry { sums, .. }) = &mut entry {
            *sums = of_blocks;
        }
        entry
    }

    /// Lines the entry takes in a log (a `Pad` as many as are left).
    pub fn lines(&self) -> u8 {
        match self {
            Entry::NameAdd { name, .. } => lines_for(34 + name.len()),
            Entry::XattrSet { name, value } => lines_for(20 + name.len() + value.len()),
            Entry::XattrRemove { name } => lines_for(20 + name.len()),
            Entry::Write(WriteEntry { sums, .. }) => lines_for(SUMS_AT + sums.len()),
            _ => 1,
        }
    }

    /// Encode into `bytes` (whole lines, zeroed by this call) for this inode and place.
    pub fn encode(&self, bytes: &mut [u8], lines: u8, time_ns: i64, seal: EntrySeal) {
        if let Entry::Write(write) = self
            && write.sums.is_empty()
            && bytes.len() == LINE
        {
            let words = write.line(time_ns, seal).map(u64::to_le_bytes);
            return bytes.copy_from_slice(words.as_flattened());
        }
        bytes.fill(0);
        bytes[1] = lines;
        put_u64(bytes, 8, time_ns as u64);
        match *self {
            Entry::Write(write) => {
                bytes[0] = KIND_WRITE;
                if !write.sums.is_empty() {
                    bytes[0] = KIND_WRITE_WITH_SUMS;
                    bytes[SUMS_AT..SUMS_AT + write.sums.len()].copy_from_slice(write.sums);
                }
                bytes[2] = if write.unwritten { FLAG_UNWRITTEN } else { 0 }
                    | if write.touches_mtime {
                        FLAG_TOUCHES_MTIME
                    } else {
                        0
                    };
                put_u64(bytes, 16, write.file_block);
                put_u64(bytes, 24, write.count);
                put_u64(bytes, 32, LogPosition::new(write.pool, write.block, 0).0);
                put_u64(bytes, 40, write.size_bytes);
            }
            Entry::Hole {
                file_block,
                count,
                size_bytes,
            } => {
                bytes[0] = KIND_HOLE;
                put_u64(bytes, 16, file_block);
                put_u64(bytes, 24, count);
                put_u64(bytes, 40, size_bytes);
            }
            Entry::Attributes(state) => encode_attributes(bytes, &state),
            Entry::NameAdd {
                ino,
                kind,
                cookie,
                name,
            } => {
                bytes[0] = KIND_NAME_ADD;
                put_u64(bytes, 16, ino);
                put_u64(bytes, 24, cookie);
                bytes[32] = kind;
                bytes[33] = name.len() as u8;
                bytes[34..34 + name.len()].copy_from_slice(name);
            }
            Entry::NameRemove { added } => {
                bytes[0] = KIND_NAME_REMOVE;
                put_u64(bytes, 16, added.0);
            }
            Entry::XattrSet { name, value } => encode_xattr(bytes, KIND_XATTR_SET, name, value),
            Entry::XattrRemove { name } => encode_xattr(bytes, KIND_XATTR_REMOVE, name, &[]),
            Entry::Pad => bytes[0] = KIND_PAD,
        }
        let crc = seal.checksum(bytes);
        put_u32(bytes, 4, crc);
    }
}

fn encode_attributes(bytes: &mut [u8], state: &AttributeState) {
    bytes[0] = KIND_ATTRIBUTES;
    put_u32(bytes, 16, state.mode);
    put_u32(bytes, 20, state.uid);
    put_u32(bytes, 24, state.gid);
    put_u32(bytes, 28, state.nlink);
    put_u64(bytes, 32, state.size_bytes);
    put_u64(bytes, 40, state.atime_ns as u64);
    put_u64(bytes, 48, state.mtime_ns as u64);
    put_u64(bytes, 56, state.parent);
}

fn encode_xattr(bytes: &mut [u8], kind: u8, name: &[u8], value: &[u8]) {
    bytes[0] = kind;
    bytes[16] = name.len() as u8;
    put_u16(bytes, 18, value.len() as u16);
    bytes[20..20 + name.len()].copy_from_slice(name);
    bytes[20 + name.len()..20 + name.len() + value.len()].copy_from_slice(value);
}

/// What an entry's checksum covers in addition to its bytes.
#[derive(Clone, Copy, Debug)]
pub struct EntrySeal {
    /// Inode the log belongs to.
    pub ino: u64,
    pub generation: u32,
    /// Place of the entry.
    pub position: LogPosition,
}

impl EntrySeal {
    /// Checksum of an entry's bytes (without the checksum field itself).
    #[inline]
    pub fn checksum(&self, bytes: &[u8]) -> u32 {
        let seed = super::checksum::crc32c_words(0, self.words(get_u32(bytes, 0)));
        super::checksum::crc32c_append(seed, &bytes[8..])
    }

    /// What it covers before an entry's time; `head`: the entry's first four bytes.
    #[inline(always)]
    fn words(&self, head: u32) -> [u64; 3] {
        let generation = u64::from(self.generation) | u64::from(head) << 32;
        [self.ino, self.position.0, generation]
    }
}

/// Number of lines of an entry, from its first line; `None` when it cannot be an entry.
pub fn claimed_lines(first_line: &[u8; LINE], position: LogPosition) -> Option<u8> {
    let lines = first_line[1];
    (lines > 0
        && position.line() >= 1
        && position.line() as u16 + lines as u16 <= PAGE_LINES as u16)
        .then_some(lines)
}

/// Decode an entry of `claimed_lines` lines with its time; `None` when damaged or of another log.
pub fn decode_entry(bytes: &[u8], seal: EntrySeal) -> Option<(Entry<'_>, i64)> {
    if bytes.len() < LINE || get_u32(bytes, 4) != seal.checksum(bytes) {
        return None;
    }
    let entry = match bytes[0] {
        kind @ (KIND_WRITE | KIND_WRITE_WITH_SUMS) => {
            let place = LogPosition(get_u64(bytes, 32));
            Entry::Write(WriteEntry {
                file_block: get_u64(bytes, 16),
                count: get_u64(bytes, 24),
                pool: place.pool(),
                block: place.block(),
                size_bytes: get_u64(bytes, 40),
                unwritten: bytes[2] & FLAG_UNWRITTEN != 0,
                touches_mtime: bytes[2] & FLAG_TOUCHES_MTIME != 0,
                sums: match kind {
                    KIND_WRITE => &[],
                    _ => decode_sums(bytes)?,
                },
            })
        }
        KIND_HOLE => Entry::Hole {
            file_block: get_u64(bytes, 16),
            count: get_u64(bytes, 24),
            size_bytes: get_u64(bytes, 40),
        },
        KIND_ATTRIBUTES => Entry::Attributes(AttributeState {
            mode: get_u32(bytes, 16),
            uid: get_u32(bytes, 20),
            gid: get_u32(bytes, 24),
            nlink: get_u32(bytes, 28),
            size_bytes: get_u64(bytes, 32),
            atime_ns: get_u64(bytes, 40) as i64,
            mtime_ns: get_u64(bytes, 48) as i64,
            parent: get_u64(bytes, 56),
        }),
        KIND_NAME_ADD => Entry::NameAdd {
            ino: get_u64(bytes, 16),
            kind: bytes[32],
            cookie: get_u64(bytes, 24),
            name: bytes
                .get(34..34 + bytes[33] as usize)
                .filter(|name| is_name(name))?,
        },
        KIND_NAME_REMOVE => Entry::NameRemove {
            added: LogPosition(get_u64(bytes, 16)),
        },
        KIND_XATTR_SET => {
            let (name, value) = decode_xattr(bytes)?;
            Entry::XattrSet { name, value }
        }
        KIND_XATTR_REMOVE => Entry::XattrRemove {
            name: decode_xattr(bytes)?.0,
        },
        KIND_PAD => Entry::Pad,
        _ => return None,
    };
    Some((entry, get_u64(bytes, 8) as i64))
}

/// The checksums of a `Write`: at least one, one per block.
fn decode_sums(bytes: &[u8]) -> Option<&[u8]> {
    let count = usize::try_from(get_u64(bytes, 24)).ok()?;
    let end = count.checked_mul(4)?.checked_add(SUMS_AT)?;
    bytes.get(SUMS_AT..end).filter(|sums| !sums.is_empty())
}

fn decode_xattr(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let name_end = 20 + bytes[16] as usize;
    let value_end = name_end + get_u16(bytes, 18) as usize;
    Some((bytes.get(20..name_end)?, bytes.get(name_end..value_end)?))
}

/// Whether bytes can be the name of a directory entry.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.contains(&b'/')
        && !name.contains(&0)
        && name != b"."
        && name != b".."
}
