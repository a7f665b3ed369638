//! The inode record: four mutable words and an immutable certificate with a checksum.

use super::*;
use egeria_media::{BlockNumber, PoolIndex};

/// Bytes of a record: two cache lines, one for the words and one for the certificate.
pub const INODE_BYTES: u64 = 128;
/// Records in a block.
pub const INODES_PER_BLOCK: u64 = BLOCK as u64 / INODE_BYTES;
/// Offset of the commit word in a record.
pub const COMMIT_WORD_AT: u64 = 0;
/// Offset of head 0; head 1 follows.
pub const HEADS_AT: u64 = 8;
/// Offset of the time of the last move, from [`FIRST_VERSION_WITH_MOVES`] on.
pub const MOVED_AT: u64 = 24;
/// Offset of the certificate.
pub const CERTIFICATE_AT: u64 = 64;

/// State of an inode at its creation; later changes are in its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Certificate {
    /// The inode's own number.
    pub ino: u64,
    /// Reuse count of the number.
    pub generation: u32,
    /// Type and permissions.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    /// Names at creation (0 for an unnamed file).
    pub nlink: u32,
    /// Creation time, and first value of all times, ns since the epoch.
    pub birth_ns: i64,
    /// Directory it was created in (used only for directories).
    pub parent: u64,
    /// A file: its data has checksums, for its whole life. A directory: what is created in it has checksums, until its
    /// attribute says otherwise.
    pub checksums: bool,
    /// A file: where its data goes. A directory: where the data of files created in it goes, until its attribute says
    /// otherwise.
    pub layout: LayoutWord,
}

/// Where the data of a file goes, as stored on media: 0 for unspecified, [`u32::MAX`] for the node of the writing
/// thread, else the blocks of a stripe, at most [`LayoutWord::MAX_STRIPE_BLOCKS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayoutWord(pub u32);

impl LayoutWord {
    /// Nothing was said.
    pub const UNSET: LayoutWord = LayoutWord(0);
    /// On the node of the writing thread.
    pub const LOCAL: LayoutWord = LayoutWord(u32::MAX);
    /// Blocks of the longest stripe: 1 GiB.
    pub const MAX_STRIPE_BLOCKS: u32 = 1 << 18;

    /// Blocks of a stripe; `None`: the data is not striped.
    #[inline(always)]
    pub fn stripe_blocks(self) -> Option<u32> {
        (1..=LayoutWord::MAX_STRIPE_BLOCKS)
            .contains(&self.0)
            .then_some(self.0)
    }

    fn is_valid(self) -> bool {
        self == LayoutWord::UNSET || self == LayoutWord::LOCAL || self.stripe_blocks().is_some()
    }
}

/// [`Certificate::checksums`] among the flags of a certificate.
const FLAG_CHECKSUMS: u32 = 1;

impl Certificate {
    /// The certificate's cache line.
    pub fn encode(&self) -> [u8; LINE] {
        let mut bytes = [0u8; LINE];
        put_u64(&mut bytes, 0, self.ino);
        put_u32(&mut bytes, 8, self.generation);
        put_u32(&mut bytes, 12, self.mode);
        put_u32(&mut bytes, 16, self.uid);
        put_u32(&mut bytes, 20, self.gid);
        put_u32(&mut bytes, 24, self.rdev);
        put_u32(&mut bytes, 28, self.nlink);
        put_u64(&mut bytes, 32, self.birth_ns as u64);
        put_u64(&mut bytes, 40, self.parent);
        put_u32(
            &mut bytes,
            48,
            if self.checksums { FLAG_CHECKSUMS } else { 0 },
        );
        put_u32(&mut bytes, 52, self.layout.0);
        let crc = super::checksum::crc32c(&bytes[..60]);
        put_u32(&mut bytes, 60, crc);
        bytes
    }

    /// Decode; `None` when the checksum or the number is wrong.
    pub fn decode(bytes: &[u8; LINE], ino: u64) -> Option<Certificate> {
        if get_u32(bytes, 60) != super::checksum::crc32c(&bytes[..60]) || get_u64(bytes, 0) != ino {
            return None;
        }
        let certificate = Certificate {
            ino,
            generation: get_u32(bytes, 8),
            mode: get_u32(bytes, 12),
            uid: get_u32(bytes, 16),
            gid: get_u32(bytes, 20),
            rdev: get_u32(bytes, 24),
            nlink: get_u32(bytes, 28),
            birth_ns: get_u64(bytes, 32) as i64,
            parent: get_u64(bytes, 40),
            checksums: get_u32(bytes, 48) & FLAG_CHECKSUMS != 0,
            layout: LayoutWord(get_u32(bytes, 52)),
        };
        let known = get_u32(bytes, 48) & !FLAG_CHECKSUMS == 0 && certificate.layout.is_valid();
        crate::FileKind::from_mode(certificate.mode)
            .filter(|_| known)
            .map(|_| certificate)
    }
}

/// Number of the inode in slot `index` of a pool: pools alternate, numbers begin at 1.
pub fn inode_number(pool: PoolIndex, index: u64) -> u64 {
    index * MAX_POOLS as u64 + pool.0 as u64 + 1
}

/// Pool and slot index of an inode number; `None` for 0.
pub fn inode_place(ino: u64) -> Option<(PoolIndex, u64)> {
    let number = ino.checked_sub(1)?;
    Some((
        PoolIndex((number % MAX_POOLS as u64) as u8),
        number / MAX_POOLS as u64,
    ))
}

const POINTER_OWNER: u64 = u64::MAX;

/// Pointer word to an inode block, sealed for its place.
pub fn encode_inode_pointer(index: u64, block: BlockNumber) -> u64 {
    encode_link(
        POINTER_OWNER - index,
        LogPosition::new(PoolIndex(0), block, 0),
    )
}

/// Block of an inode pointer: `Ok(None)` when there is none yet, `Err(())` when damaged.
///
/// # Errors
/// `()` when the word is damaged.
#[allow(clippy::result_unit_err)]
pub fn decode_inode_pointer(index: u64, word: u64) -> Result<Option<BlockNumber>, ()> {
    let link = decode_link(POINTER_OWNER - index, word)?;
    Ok((!link.is_none()).then_some(link.block()))
}
