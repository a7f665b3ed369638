//! The on-media format, version [`FORMAT_VERSION`]; docs/reference/format.md describes the same bits.
//!
//! ```text
//! block 0,1   superblock, copy A          every pool
//! block 2,3   superblock, copy B          every pool
//! block 4     session line                pool 0 only; shows if attached, means nothing after a boot
//! block 5…    journal slots               pool 0 only
//! …           inode block pointers        one word per possible inode block
//! …           data: inode blocks, log pages, file blocks
//! ```

pub mod checksum;
pub mod entry;
pub mod geometry;
pub mod inode;
pub mod journal;
pub(crate) mod place;
pub mod superblock;
pub mod words;

pub use entry::*;
pub use geometry::*;
pub use inode::*;
pub use journal::*;
pub use superblock::*;
pub use words::*;

/// Version of the format of volumes that this code makes.
pub const FORMAT_VERSION: u32 = 6;
/// The oldest version that is still read and written: superblocks without a secret.
pub const OLDEST_FORMAT_VERSION: u32 = 2;
/// From this version on, superblocks have a secret.
pub const FIRST_VERSION_WITH_SECRET: u32 = 3;
/// From this version on, certificates have a layout.
pub const FIRST_VERSION_WITH_LAYOUTS: u32 = 4;
/// From this version on, records have the time of the last move.
pub const FIRST_VERSION_WITH_MOVES: u32 = 5;
/// From this version on, superblocks count the changes of the volume's list of pools.
pub const FIRST_VERSION_WITH_POOL_CHANGES: u32 = 6;
pub const BLOCK: usize = egeria_media::BLOCK_BYTES as usize;
/// Bytes of one log line, one cache line.
pub const LINE: usize = 64;
/// Most pools of a volume.
pub const MAX_POOLS: usize = 16;
/// Longest name of a directory entry, bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Longest target of a symbolic link, bytes.
pub const MAX_TARGET_BYTES: usize = 4095;
/// Most hard links of a file.
pub const MAX_LINKS: u32 = 65_000;
/// Smallest pool, bytes: a smaller one would hold hardly more than metadata.
pub const MIN_POOL_BYTES: u64 = 8 << 20;

/// Little-endian fields of a byte buffer.
pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}
pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}
pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
