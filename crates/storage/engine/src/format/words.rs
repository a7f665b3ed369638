//! The 8-byte words for commits, pointers and the index. Every multi-field value that must change atomically fits in
//! one of them.

use egeria_media::{BlockNumber, PoolIndex, PoolOffset};

const POOL_BITS: u32 = 4;
const BLOCK_BITS: u32 = 40;
const LINE_BITS: u32 = 7;
const POSITION_BITS: u32 = POOL_BITS + BLOCK_BITS + LINE_BITS;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;
const BLOCK_MASK: u64 = (1 << BLOCK_BITS) - 1;
/// Bits of a word that its check covers.
const CHECKED_BITS: u32 = 54;
const CHECKED_MASK: u64 = (1 << CHECKED_BITS) - 1;

/// Place of a log line: pool (4 bits), block (40), line within the block (7; 64 means "page full").
/// Zero is "no log": block 0 of pool 0 is the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LogPosition(pub u64);

impl LogPosition {
    pub const NONE: LogPosition = LogPosition(0);

    /// A position from its parts.
    pub fn new(pool: PoolIndex, block: BlockNumber, line: u8) -> LogPosition {
        LogPosition(
            ((pool.0 as u64) << (BLOCK_BITS + LINE_BITS))
                | ((block.0 & BLOCK_MASK) << LINE_BITS)
                | line as u64,
        )
    }
    /// Whether there is no log.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
    /// Pool of the page.
    pub fn pool(self) -> PoolIndex {
        PoolIndex((self.0 >> (BLOCK_BITS + LINE_BITS)) as u8 & 0xf)
    }
    /// Block of the page.
    pub fn block(self) -> BlockNumber {
        BlockNumber((self.0 >> LINE_BITS) & BLOCK_MASK)
    }
    /// Line within the page.
    pub fn line(self) -> u8 {
        (self.0 & 0x7f) as u8
    }
    /// A position on the same page, at another line.
    pub fn at_line(self, line: u8) -> LogPosition {
        LogPosition((self.0 & !0x7f) | line as u64)
    }
    /// Byte offset in the pool.
    pub fn offset(self) -> PoolOffset {
        self.block().offset() + self.line() as u64 * super::LINE as u64
    }
}

#[inline(always)]
fn check_bits(owner: u64, salt: u32, low: u64) -> u64 {
    (super::checksum::crc32c_words(salt, [owner, low]) & 0x3ff) as u64
}

#[inline(always)]
fn seal(owner: u64, salt: u32, low: u64) -> u64 {
    low | (check_bits(owner, salt, low) << CHECKED_BITS)
}

#[inline(always)]
fn unseal(owner: u64, salt: u32, word: u64) -> Option<u64> {
    let low = word & CHECKED_MASK;
    (check_bits(owner, salt, low) == word >> CHECKED_BITS).then_some(low)
}

const COMMIT_SALT: u32 = 0x434f_4d54;
const LINK_SALT: u32 = 0x4c49_4e4b;
const SECOND_HEAD: u64 = 1 << 51;
const ORPHAN: u64 = 1 << 52;
const IN_USE: u64 = 1 << 53;

/// The word that commits with its store: where an inode's log ends, which of two heads begins it, and whether the
/// inode has lost its last name. Zero: the inode is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitWord {
    /// First line after the last committed entry.
    pub tail: LogPosition,
    /// Index of the active head (0 or 1): compaction switches it.
    pub head_index: u8,
    /// No name is left; the inode is deleted after its last close.
    pub orphan: bool,
}

impl CommitWord {
    /// The word as stored, checked against the inode it belongs to.
    #[inline]
    pub fn encode(self, ino: u64) -> u64 {
        let low = self.tail.0
            | if self.head_index == 1 { SECOND_HEAD } else { 0 }
            | if self.orphan { ORPHAN } else { 0 }
            | IN_USE;
        seal(ino, COMMIT_SALT, low)
    }
    /// `Ok(None)`: free inode; `Err(())`: not a word of this inode.
    ///
    /// # Errors
    /// `()` when it is no commit word of this inode.
    #[allow(clippy::result_unit_err)]
    #[inline(always)]
    pub fn decode(word: u64, ino: u64) -> Result<Option<CommitWord>, ()> {
        if word == 0 {
            return Ok(None);
        }
        let low = unseal(ino, COMMIT_SALT, word).ok_or(())?;
        if low & IN_USE == 0 {
            return Err(());
        }
        Ok(Some(CommitWord {
            tail: LogPosition(low & POSITION_MASK),
            head_index: (low & SECOND_HEAD != 0) as u8,
            orphan: low & ORPHAN != 0,
        }))
    }
}

const MOVED_SALT: u32 = 0x4d4f_5645;

/// The time of a move (a rename of an inode that is no directory), as a word of the record. `None`: before the birth, or
/// more than 2^54 ns (208 days) after it.
#[inline]
pub fn encode_moved(ino: u64, birth_ns: i64, moved_ns: i64) -> Option<u64> {
    let age_ns = u64::try_from(moved_ns.checked_sub(birth_ns)?).ok()?;
    (age_ns <= CHECKED_MASK).then(|| seal(ino, MOVED_SALT, age_ns))
}

/// The time of a move; `None`: the word is 0, there was none.
///
/// # Errors
/// `()` when the word is damaged.
#[allow(clippy::result_unit_err)]
#[inline]
pub fn decode_moved(ino: u64, birth_ns: i64, word: u64) -> Result<Option<i64>, ()> {
    if word == 0 {
        return Ok(None);
    }
    let age_ns = unseal(ino, MOVED_SALT, word).ok_or(())?;
    Ok(Some(birth_ns.saturating_add(age_ns as i64)))
}

/// A link to a log page (head of a log, next page), sealed for its owner.
pub fn encode_link(ino: u64, page: LogPosition) -> u64 {
    seal(ino, LINK_SALT, page.at_line(0).0)
}

/// The page a link names; `Ok(NONE)` for an empty link, `Err(())` when damaged.
///
/// # Errors
/// `()` when the word is damaged.
#[allow(clippy::result_unit_err)]
pub fn decode_link(ino: u64, word: u64) -> Result<LogPosition, ()> {
    if word == 0 {
        return Ok(LogPosition::NONE);
    }
    let low = unseal(ino, LINK_SALT, word).ok_or(())?;
    if low & !POSITION_MASK != 0 || low & 0x7f != 0 {
        return Err(());
    }
    Ok(LogPosition(low))
}

const UNWRITTEN: u64 = 1 << 44;
const GENERATION_SHIFT: u32 = 45;

/// Word of a file's index: the place of one file block. Zero is a hole. The generation shows a reader that a block was
/// freed and reused in between (docs/explanation/waiting.md). Never on media.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockWord(pub u64);

impl BlockWord {
    pub const HOLE: BlockWord = BlockWord(0);

    /// A word from its parts; `generation` wraps at 19 bits.
    pub fn new(pool: PoolIndex, block: BlockNumber, unwritten: bool, generation: u64) -> BlockWord {
        BlockWord(
            (block.0 & BLOCK_MASK)
                | ((pool.0 as u64 & 0xf) << BLOCK_BITS)
                | if unwritten { UNWRITTEN } else { 0 }
                | (generation << GENERATION_SHIFT),
        )
    }
    /// Whether a block is allocated.
    #[inline]
    pub fn is_mapped(self) -> bool {
        self.0 != 0
    }
    /// Whether reading gives the block's bytes (mapped and written).
    #[inline]
    pub fn has_data(self) -> bool {
        self.0 != 0 && self.0 & UNWRITTEN == 0
    }
    /// Allocated but never written.
    #[inline]
    pub fn is_unwritten(self) -> bool {
        self.0 & UNWRITTEN != 0
    }
    /// Pool of the block.
    #[inline]
    pub fn pool(self) -> PoolIndex {
        PoolIndex((self.0 >> BLOCK_BITS) as u8 & 0xf)
    }
    /// The block.
    #[inline]
    pub fn block(self) -> BlockNumber {
        BlockNumber(self.0 & BLOCK_MASK)
    }
    /// Pool and block only, without generation and state.
    #[inline]
    pub fn place(self) -> BlockWord {
        BlockWord(self.0 & ((1 << (BLOCK_BITS + POOL_BITS)) - 1))
    }
    /// Whether both words name one place on media, whatever the generation and state.
    #[inline]
    pub fn same_place(self, other: BlockWord) -> bool {
        self.place() == other.place()
    }
}

const COUNT_BITS: u32 = 20;
/// Longest run one [`Extent`] word holds, blocks.
pub const MAX_EXTENT_BLOCKS: u64 = (1 << COUNT_BITS) - 1;

/// A run of blocks of one pool, in one word of the session: block (40 bits), count (20), pool (4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// Pool of the run.
    pub pool: PoolIndex,
    pub block: BlockNumber,
    /// Blocks in the run, at most [`MAX_EXTENT_BLOCKS`].
    pub count: u64,
}

impl Extent {
    /// The word, zero for an empty run.
    pub fn encode(self) -> u64 {
        if self.count == 0 {
            return 0;
        }
        (self.block.0 & BLOCK_MASK)
            | ((self.count & MAX_EXTENT_BLOCKS) << BLOCK_BITS)
            | ((self.pool.0 as u64) << (BLOCK_BITS + COUNT_BITS))
    }
    /// The run a word holds.
    pub fn decode(word: u64) -> Extent {
        Extent {
            pool: PoolIndex((word >> (BLOCK_BITS + COUNT_BITS)) as u8),
            block: BlockNumber(word & BLOCK_MASK),
            count: (word >> BLOCK_BITS) & MAX_EXTENT_BLOCKS,
        }
    }
    /// The run without its first `count` blocks.
    pub fn without_first(self, count: u64) -> Extent {
        Extent {
            block: BlockNumber(self.block.0 + count),
            count: self.count.saturating_sub(count),
            ..self
        }
    }
    /// First block after the run.
    pub fn end(self) -> u64 {
        self.block.0 + self.count
    }
}
