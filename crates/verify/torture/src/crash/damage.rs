//! What a repair has to repair, and how it is done to a volume.

use super::actor::{Actor, ino};
use egeria_engine::format::*;
use egeria_engine::*;
use egeria_media::{BlockNumber, PoolOffset};
use serde::{Deserialize, Serialize};

/// What is damaged before a repair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// The first copy of each superblock.
    FirstSuperblocks,
    /// The second copy of each superblock.
    SecondSuperblocks,
    /// A name whose inode is gone.
    NameOfNothing,
    /// A file that counts more names than it has.
    TooManyLinks,
    /// A file without a name.
    NoName,
    /// All of these that go together.
    Several,
}

/// All kinds of damage.
pub(crate) const DAMAGES: [Damage; 6] = [
    Damage::FirstSuperblocks,
    Damage::SecondSuperblocks,
    Damage::NameOfNothing,
    Damage::TooManyLinks,
    Damage::NoName,
    Damage::Several,
];

/// Damage an attached volume; it must not be used any more.
pub(super) fn do_damage(volume: &Volume, damage: Damage) -> Outcome<()> {
    match damage {
        Damage::FirstSuperblocks => overwrite_superblocks(volume, 0),
        Damage::SecondSuperblocks => overwrite_superblocks(volume, 1),
        Damage::NameOfNothing => store_commit(volume, "d/x", 0),
        Damage::TooManyLinks => unseen(volume, "", "link big second"),
        Damage::NoName => unseen(volume, "e", "create e/lost"),
        Damage::Several => {
            unseen(volume, "", "link big second")?;
            store_commit(volume, "d/x", 0)?;
            unseen(volume, "e", "create e/lost")?;
            overwrite_superblocks(volume, 1)
        }
    }
}

fn overwrite_superblocks(volume: &Volume, copy: usize) -> Outcome<()> {
    for pool in volume.pools() {
        let at = BlockNumber(SUPERBLOCK_COPIES[copy]).offset() + 40;
        pool.write_bytes(at, &[0x5A; 300])
            .map_err(|_| Errno(libc::EIO))?;
    }
    Ok(())
}

fn commit_place(volume: &Volume, path: &str) -> Outcome<(usize, PoolOffset)> {
    let (pool, at) = record_at(volume, ino(volume, path)?)?;
    Ok((pool, at + COMMIT_WORD_AT))
}

fn store_commit(volume: &Volume, path: &str, word: u64) -> Outcome<()> {
    let (pool, at) = commit_place(volume, path)?;
    volume.pools()[pool]
        .store_u64(at, word)
        .map_err(|_| Errno(libc::EIO))
}

/// Run an operation, and have its directory know nothing of it.
fn unseen(volume: &Volume, directory: &str, text: &str) -> Outcome<()> {
    let (pool, at) = commit_place(volume, directory)?;
    let word = volume.pools()[pool]
        .load_u64(at)
        .map_err(|_| Errno(libc::EIO))?;
    let operation = text.parse().map_err(|_| Errno(libc::EINVAL))?;
    Actor::new(volume).run(&operation, 0)?;
    store_commit(volume, directory, word)
}

/// Pool and place of an inode's record.
pub(super) fn record_at(volume: &Volume, ino: InodeNumber) -> Outcome<(usize, PoolOffset)> {
    let damaged = Errno(libc::EIO);
    let (pool, index) = inode_place(ino.0).ok_or(damaged)?;
    let media = &volume.pools()[pool.0 as usize];
    let geometry = Geometry::new(pool.0, media.blocks());
    let chunk = index / INODES_PER_BLOCK;
    let word = media
        .load_u64(inode_pointer(&geometry, chunk))
        .map_err(|_| damaged)?;
    let block = decode_inode_pointer(chunk, word)
        .ok()
        .flatten()
        .ok_or(damaged)?;
    Ok((
        pool.0 as usize,
        block.offset() + index % INODES_PER_BLOCK * INODE_BYTES,
    ))
}
