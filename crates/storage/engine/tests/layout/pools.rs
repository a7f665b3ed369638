//! Superblocks of volumes that lost a pool.

use super::{hex, superblock};
use egeria_engine::format::*;
use egeria_media::{BlockNumber, PoolIndex, PoolOffset};

/// Pool 2 of three was removed; 700 pointers to its inode blocks begin in block 300 of pool 1.
fn with_removed() -> Superblock {
    let removed = Sibling {
        node: 2,
        blocks: 0,
        path: Vec::new(),
        removed: Some(Rehoused {
            pool: 1,
            table: BlockNumber(300),
            inode_blocks: 700,
        }),
    };
    let mut superblock = superblock();
    superblock.pools.push(removed);
    superblock
}

#[test]
fn a_removed_pool_names_where_its_inodes_are() {
    let superblock = with_removed();
    let bytes = superblock.encode();
    let at = 256 + 2 * 480;
    assert_eq!(
        hex(&bytes[at..at + 32]),
        "00000000000000000200000001010000\
         2c01000000000000bc02000000000000"
    );
    assert_eq!(Superblock::decode(&bytes), Ok(superblock.clone()));
    let geometry = superblock.geometry();
    assert_eq!(geometry[2].record_pool, PoolIndex(1));
    assert_eq!((geometry[2].inode_blocks, geometry[2].blocks), (700, 0));
    let at = inode_pointer(&geometry[2], 5);
    assert_eq!(at, PoolOffset(300 * 4096 + 40));
}

#[test]
fn removed_pools_without_a_home_are_damage() {
    type Change = fn(&mut Rehoused);
    let changes: [Change; 6] = [
        |home| home.pool = 2,
        |home| home.pool = 3,
        |home| home.table = BlockNumber(4),
        |home| home.table = BlockNumber(4095),
        |home| home.inode_blocks = 0,
        |home| home.inode_blocks = u64::MAX,
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut superblock = with_removed();
        let mut home = superblock.pools[2].removed.unwrap();
        change(&mut home);
        superblock.pools[2].removed = Some(home);
        let decoded = Superblock::decode(&superblock.encode());
        assert_eq!(decoded, Err(SuperblockFault::Damaged), "change {number}");
    }
    let mut first = with_removed();
    first.pools[0].removed = first.pools[2].removed;
    let decoded = Superblock::decode(&first.encode());
    assert_eq!(decoded, Err(SuperblockFault::Damaged));
}
