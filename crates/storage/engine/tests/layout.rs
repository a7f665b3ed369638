//! The bytes of a pool, as docs/reference/format.md has them: sizes and offsets at compile time, golden bytes,
//! what damage is refused, and a reader of its own (`layout/reader.rs`) that understands what the
//! engine wrote.

mod document;
mod pools;
mod reader;
mod volumes;

use egeria_engine::FileKind;
use egeria_engine::format::*;
use egeria_media::{BlockNumber, PoolIndex, PoolOffset};
use proptest::prelude::*;
use reader::crc32c;

// docs/reference/format.md, Constants. Whoever changes one of these changes the format version.
const _: () = {
    assert!(FORMAT_VERSION == 6 && OLDEST_FORMAT_VERSION == 2);
    assert!(FIRST_VERSION_WITH_SECRET == 3 && FIRST_VERSION_WITH_LAYOUTS == 4);
    assert!(FIRST_VERSION_WITH_MOVES == 5 && FIRST_VERSION_WITH_POOL_CHANGES == 6);
    assert!(LayoutWord::MAX_STRIPE_BLOCKS == 1 << 18);
    assert!(BLOCK == 4096 && LINE == 64 && PAGE_LINES == 64);
    assert!(MAX_POOLS == 16 && MIN_POOL_BYTES == 8 << 20);
    assert!(MAX_NAME_BYTES == 255 && MAX_TARGET_BYTES == 4095 && MAX_LINKS == 65_000);
    assert!(MAX_SUMS == 228);
    assert!(MAX_XATTR_VALUE_BYTES == 3757 && MAX_PATH_BYTES == 464);
    assert!(SUPERBLOCK_MAGIC == 0x5346_4149_5245_4745);
    assert!(SUPERBLOCK_BYTES == 8192 && SUPERBLOCK_COPIES[0] == 0 && SUPERBLOCK_COPIES[1] == 2);
    assert!(SESSION_LINE_BLOCK.0 == 4 && JOURNAL_BLOCK.0 == 5);
    assert!(JOURNAL_SLOTS == 4096 && JOURNAL_SLOT_BYTES == 256 && MAX_JOURNAL_PAIRS == 15);
    assert!(INODE_BYTES == 128 && INODES_PER_BLOCK == 32);
    assert!(COMMIT_WORD_AT == 0 && HEADS_AT == 8 && MOVED_AT == 24 && CERTIFICATE_AT == 64);
    assert!(LOG_PAGE_MAGIC == 0x4547_4c50 && NEXT_PAGE_AT == 32);
    assert!(FileKind::Regular as u8 == 1 && FileKind::Directory as u8 == 2);
    assert!(FileKind::Symlink as u8 == 3 && FileKind::Fifo as u8 == 4);
    assert!(FileKind::Socket as u8 == 5 && FileKind::CharacterDevice as u8 == 6);
    assert!(FileKind::BlockDevice as u8 == 7);
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn position(pool: u8, block: u64, line: u8) -> LogPosition {
    LogPosition::new(PoolIndex(pool), BlockNumber(block), line)
}

fn superblock() -> Superblock {
    let pool = |node: u16, blocks, path: &[u8]| Sibling {
        node,
        blocks,
        path: path.to_vec(),
        removed: None,
    };
    Superblock {
        version: FORMAT_VERSION,
        volume: *b"0123456789abcdef",
        pool_index: 1,
        created_ns: 0x0102_0304_0506_0708,
        secret: *b"known to us only",
        generation: 3,
        pools: vec![pool(0, 2048, b"/p/a"), pool(3, 4096, b"/p/bc")],
    }
}

fn certificate() -> Certificate {
    Certificate {
        ino: 18,
        generation: 7,
        mode: 0o100_644,
        uid: 1000,
        gid: 1001,
        rdev: 0,
        nlink: 1,
        birth_ns: 1_700_000_000_123_456_789,
        parent: 1,
        checksums: false,
        layout: LayoutWord::UNSET,
    }
}

/// Ours of the examples: inode 18, generation 7, line 5 of block 300 of pool 1.
fn seal() -> EntrySeal {
    EntrySeal {
        ino: 18,
        generation: 7,
        position: position(1, 300, 5),
    }
}

fn encoded(entry: &Entry<'_>, lines: u8) -> Vec<u8> {
    let mut bytes = vec![0xAA; lines as usize * LINE];
    entry.encode(&mut bytes, lines, 0x1122_3344_5566_7788, seal());
    bytes
}

fn entries() -> Vec<Entry<'static>> {
    let state = AttributeState {
        mode: 0o100_600,
        uid: 1,
        gid: 2,
        nlink: 3,
        size_bytes: 4,
        atime_ns: -5,
        mtime_ns: 6,
        parent: 0,
    };
    let write = WriteEntry {
        file_block: 2,
        count: 3,
        pool: PoolIndex(1),
        block: BlockNumber(400),
        size_bytes: 20_000,
        unwritten: false,
        touches_mtime: true,
        sums: &[],
    };
    vec![
        Entry::Write(write),
        Entry::Hole {
            file_block: 1,
            count: 9,
            size_bytes: 40_960,
        },
        Entry::Attributes(state),
        Entry::NameAdd {
            ino: 33,
            kind: 2,
            cookie: 5,
            name: b"hello",
        },
        Entry::NameRemove {
            added: position(1, 300, 4),
        },
        Entry::XattrSet {
            name: b"user.a",
            value: b"value",
        },
        Entry::XattrRemove { name: b"user.a" },
        Entry::Pad,
        Entry::Write(WriteEntry {
            sums: b"\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc",
            ..write
        }),
    ]
}

#[test]
fn superblock_bytes() {
    let bytes = superblock().encode();
    assert_eq!(bytes.len(), 8192);
    assert_eq!(
        hex(&bytes[..64]),
        "4547455249414653060000000100020030313233343536373839616263646566\
         08070605040302016b6e6f776e20746f207573206f6e6c790300000000000000"
    );
    assert_eq!(
        hex(&bytes[256..276]),
        "0008000000000000000004000000000\
         02f702f61"
    );
    assert_eq!(
        hex(&bytes[736..757]),
        "00100000000000000300050000000000\
                                       2f702f6263"
    );
    assert_eq!(bytes[8188..], crc32c(0, &bytes[..8188]).to_le_bytes());
    let named = [0..64, 256..276, 736..757, 8188..8192];
    let rest = (0..8192).filter(|at| !named.iter().any(|range| range.contains(at)));
    assert!(rest.map(|at| bytes[at]).all(|byte| byte == 0));
    assert_eq!(Superblock::decode(&bytes), Ok(superblock()));
}

#[test]
fn version_2_superblocks_have_no_secret() {
    let old = Superblock {
        version: 2,
        secret: [0; 16],
        generation: 0,
        ..superblock()
    };
    let bytes = old.encode();
    assert_eq!(bytes[8..12], 2u32.to_le_bytes());
    assert_eq!(bytes[40..56], [0; 16]);
    assert_eq!(Superblock::decode(&bytes), Ok(old));
}

#[test]
fn geometry_of_pools() {
    let first = Geometry::new(0, 8192);
    assert_eq!((first.journal_slots, first.pointer_block.0), (4096, 261));
    assert_eq!((first.inode_blocks, first.data_block.0), (256, 262));
    let other = Geometry::new(3, 1 << 20);
    assert_eq!((other.journal_slots, other.pointer_block.0), (0, 5));
    assert_eq!((other.inode_blocks, other.data_block.0), (32_768, 5 + 64));
    assert_eq!(inode_place(18), Some((PoolIndex(1), 1)));
    assert_eq!(inode_number(PoolIndex(1), 1), 18);
    assert_eq!(inode_place(0), None);
    assert_eq!(inode_pointer(&other, 2), PoolOffset(5 * 4096 + 16));
    assert_eq!(journal_slot(3), PoolOffset(5 * 4096 + 768));
}

#[test]
fn certificate_bytes() {
    let bytes = certificate().encode();
    assert_eq!(
        hex(&bytes),
        "120000000000000007000000a4810000e8030000e9030000000000000100000\
         015cd853dfe9c97170100000000000000000000000000000000000000CRC"
            .replace("CRC", &hex(&crc32c(0, &bytes[..60]).to_le_bytes()))
    );
    assert_eq!(Certificate::decode(&bytes, 18), Some(certificate()));
    assert_eq!(
        Certificate::decode(&bytes, 17),
        None,
        "of another inode's place"
    );
    let checked = Certificate {
        checksums: true,
        ..certificate()
    };
    let mut expected = bytes;
    expected[48] = 1;
    let crc = crc32c(0, &expected[..60]).to_le_bytes();
    expected[60..].copy_from_slice(&crc);
    assert_eq!(checked.encode(), expected);
    assert_eq!(Certificate::decode(&expected, 18), Some(checked));
    // A flag that nobody knows.
    expected[48] = 2;
    let crc = crc32c(0, &expected[..60]).to_le_bytes();
    expected[60..].copy_from_slice(&crc);
    assert_eq!(Certificate::decode(&expected, 18), None);
}

#[test]
fn certificates_name_layouts() {
    let bytes = certificate().encode();
    let named = |word: u32| {
        let mut bytes = bytes;
        bytes[52..56].copy_from_slice(&word.to_le_bytes());
        let crc = crc32c(0, &bytes[..60]).to_le_bytes();
        bytes[60..].copy_from_slice(&crc);
        bytes
    };
    for word in [0, 1, 8, 1 << 18, u32::MAX] {
        let striped = Certificate {
            layout: LayoutWord(word),
            ..certificate()
        };
        assert_eq!(striped.encode(), named(word));
        assert_eq!(Certificate::decode(&named(word), 18), Some(striped));
    }
    for nonsense in [(1 << 18) + 1, 1 << 31, u32::MAX - 1] {
        assert_eq!(Certificate::decode(&named(nonsense), 18), None);
    }
}

#[test]
fn word_bytes() {
    let commit = CommitWord {
        tail: position(1, 300, 5),
        head_index: 1,
        orphan: true,
    };
    let low = (1 << 47) | (300 << 7) | 5 | (1 << 51) | (1 << 52) | (1u64 << 53);
    assert_eq!(commit.encode(18), reader::seal(b"COMT", 18, low));
    let link = (1 << 47) | (300u64 << 7);
    let page = position(1, 300, 5);
    assert_eq!(encode_link(18, page), reader::seal(b"LINK", 18, link));
    assert_eq!(
        encode_inode_pointer(2, BlockNumber(300)),
        reader::seal(b"LINK", u64::MAX - 2, 300 << 7)
    );
    assert_eq!(CommitWord::decode(0, 18), Ok(None));
    assert_eq!(decode_link(18, 0), Ok(LogPosition::NONE));
    assert_eq!(decode_inode_pointer(2, 0), Ok(None));
    let moved = reader::seal(b"MOVE", 18, 7);
    assert_eq!(encode_moved(18, 1000, 1007), Some(moved));
    assert_eq!(encode_moved(18, 1000, 999), None);
    assert_eq!(encode_moved(18, 1000, 1000 + (1 << 54)), None);
    assert_eq!(decode_moved(18, 1000, moved), Ok(Some(1007)));
    assert_eq!(decode_moved(18, 1000, moved ^ 1), Err(()));
    assert_eq!(decode_moved(18, 1000, 0), Ok(None));
}

#[test]
fn page_header_bytes() {
    let page = position(1, 300, 0);
    let bytes = encode_page_header(18, 7, page, 2);
    let crc = hex(&crc32c(0, &bytes[8..32]).to_le_bytes());
    assert_eq!(
        hex(&bytes[..32]),
        format!("504c4745{crc}070000000200000012000000000000000096000000800000")
    );
    assert_eq!(bytes[32..], [0; 32]);
    assert!(is_page_header(&bytes, 18, 7, page, 2));
    for other in [
        (17, 7, page, 2),
        (18, 6, page, 2),
        (18, 7, page.at_line(64), 3),
        (18, 7, position(1, 301, 0), 2),
    ] {
        assert!(!is_page_header(&bytes, other.0, other.1, other.2, other.3));
    }
}

#[test]
fn entry_bytes() {
    let golden = [
        "0101020 0CRC0 8877665544332211 0200000000000000 0300000000000000 00c8000000800000 204e000000000000",
        "0201000 0CRC0 8877665544332211 0100000000000000 0900000000000000 0000000000000000 00a0000000000000",
        "0301000 0CRC0 8877665544332211 80810000 01000000 02000000 03000000 0400000000000000 \
         fbffffffffffffff 0600000000000000 0000000000000000",
        "0401000 0CRC0 8877665544332211 2100000000000000 0500000000000000 02 05 68656c6c6f",
        "0501000 0CRC0 8877665544332211 0496000000800000",
        "0601000 0CRC0 8877665544332211 06 00 0500 757365722e61 76616c7565",
        "0701000 0CRC0 8877665544332211 06 00 0000 757365722e61",
        "0801000 0CRC0 8877665544332211",
        "0901020 0CRC0 8877665544332211 0200000000000000 0300000000000000 00c8000000800000 204e000000000000 \
         112233445566778899aabbcc",
    ];
    for (entry, golden) in entries().iter().zip(golden) {
        let bytes = encoded(entry, entry.lines());
        let sealed = [
            &18u64.to_le_bytes()[..],
            &seal().position.0.to_le_bytes(),
            &7u32.to_le_bytes(),
            &bytes[..4],
            &bytes[8..],
        ]
        .concat();
        let crc = hex(&crc32c(0, &sealed).to_le_bytes());
        let mut golden = golden.replace("0CRC0", &format!("0{crc}")).replace(' ', "");
        golden.push_str(&"0".repeat(2 * LINE - golden.len()));
        assert_eq!(hex(&bytes), golden, "{entry:?}");
    }
    let pad = encoded(&Entry::Pad, 59);
    assert_eq!((pad.len(), pad[1]), (59 * 64, 59));
    let (name, value) = ([b'n'; MAX_NAME_BYTES], [1; MAX_XATTR_VALUE_BYTES]);
    let (name, value) = (&name[..], &value[..]);
    assert_eq!(Entry::XattrSet { name, value }.lines(), 63, "fills a page");
    let (ino, kind, cookie) = (1, 1, 3);
    let add = Entry::NameAdd {
        ino,
        kind,
        cookie,
        name,
    };
    assert_eq!(add.lines(), 5);
}

#[test]
fn an_entry_has_one_checksum_for_each_block() {
    let sums = [7; 4 * MAX_SUMS as usize];
    let with = |count: u64, sums: usize| {
        Entry::Write(WriteEntry {
            file_block: 0,
            count,
            pool: PoolIndex(0),
            block: BlockNumber(400),
            size_bytes: 20_000,
            unwritten: false,
            touches_mtime: true,
            sums: &[7; 4 * MAX_SUMS as usize][..4 * sums],
        })
    };
    for (blocks, lines) in [(1, 1), (4, 1), (5, 2), (20, 2), (21, 3), (228, 15)] {
        let entry = with(blocks as u64, blocks);
        assert_eq!(entry.lines(), lines, "{blocks} blocks");
        let bytes = encoded(&entry, lines);
        assert_eq!(bytes[48..48 + 4 * blocks], sums[..4 * blocks]);
        assert!(bytes[48 + 4 * blocks..].iter().all(|byte| *byte == 0));
        assert_eq!(decode_entry(&bytes, seal()).expect("decodes").0, entry);
    }
    // More blocks than there is room for sums, and none at all.
    for count in [21, 1 << 40, u64::MAX, 0] {
        let bytes = encoded(&with(count, 20), 2);
        assert_eq!(decode_entry(&bytes, seal()), None, "{count} blocks");
    }
}

#[test]
fn journal_bytes() {
    let pair = |pool, at, value| JournalPair {
        pool: PoolIndex(pool),
        at: PoolOffset(at),
        value,
    };
    let pairs = [
        pair(1, 0x12_3400, 0x1122_3344_5566_7788),
        pair(0, 0x80, u64::MAX),
    ];
    let bytes = encode_journal_pairs(&pairs);
    assert_eq!(
        hex(&bytes),
        "003412000000000188776655443322118000000000000000ffffffffffffffff"
    );
    let word = journal_commit_word(9, &bytes);
    assert_eq!(
        word,
        (0xE6E8 << 48) | (2 << 32) | u64::from(crc32c(9, &bytes))
    );
    assert_eq!(journal_pair_count(word), Some(2));
    assert_eq!(
        decode_journal_pairs(9, word, &bytes).as_deref(),
        Some(&pairs[..])
    );
    assert_eq!(
        decode_journal_pairs(8, word, &bytes),
        None,
        "of another slot"
    );
    for bit in 0..64 {
        let flipped = word ^ (1 << bit);
        let refused = journal_pair_count(flipped) != Some(2)
            || decode_journal_pairs(9, flipped, &bytes).is_none();
        assert!(refused, "bit {bit} of the word");
    }
    for_each_flip(&bytes, |bytes, bit| {
        assert_eq!(decode_journal_pairs(9, word, bytes), None, "bit {bit}");
    });
}

fn for_each_flip(bytes: &[u8], mut check: impl FnMut(&[u8], usize)) {
    let mut bytes = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        check(&bytes, bit);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn every_flipped_bit_of_a_superblock_is_refused() {
    for_each_flip(&superblock().encode(), |bytes, bit| {
        let fault = if bit < 64 {
            SuperblockFault::NotAPool
        } else {
            SuperblockFault::Damaged
        };
        assert_eq!(Superblock::decode(bytes), Err(fault), "bit {bit}");
    });
}

#[test]
fn versions_of_superblocks_are_named_or_damage() {
    let decode = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = superblock().encode();
        change(&mut bytes);
        let crc = crc32c(0, &bytes[..8188]);
        bytes[8188..].copy_from_slice(&crc.to_le_bytes());
        Superblock::decode(&bytes)
    };
    for version in [1, 7] {
        assert_eq!(
            decode(&|bytes| bytes[8] = version),
            Err(SuperblockFault::Version(version.into()))
        );
    }
    let damaged = [
        (12..13, 2),      // pool 2 of 2
        (14..15, 0),      // no pools
        (14..15, 17),     // too many
        (267..268, 2),    // a path of 516 bytes
        (256..264, 0),    // no blocks
        (256..264, 0x7f), // too many blocks
    ];
    for (range, value) in damaged {
        let decoded = decode(&|bytes| bytes[range.clone()].fill(value));
        assert_eq!(decoded, Err(SuperblockFault::Damaged));
    }
    assert_eq!(
        Superblock::decode(&superblock().encode()[..8191]),
        Err(SuperblockFault::NotAPool)
    );
}

#[test]
fn every_flipped_bit_of_a_certificate_is_refused() {
    for_each_flip(&certificate().encode(), |bytes, bit| {
        let line = bytes.try_into().unwrap();
        assert_eq!(Certificate::decode(line, 18), None, "bit {bit}");
    });
}

#[test]
fn every_flipped_bit_of_an_entry_is_refused() {
    for entry in entries() {
        // As a reader meets it: with the rest of the page behind it.
        let mut page = encoded(&entry, entry.lines());
        let bits = page.len() * 8;
        page.resize(59 * LINE, 0);
        for bit in 0..bits {
            page[bit / 8] ^= 1 << (bit % 8);
            let first = page[..LINE].try_into().unwrap();
            let decoded = claimed_lines(first, seal().position)
                .and_then(|lines| decode_entry(&page[..lines as usize * LINE], seal()));
            assert_eq!(decoded, None, "bit {bit} of {entry:?}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn an_entry_of_another_place_or_life_is_refused() {
    for entry in entries() {
        let bytes = encoded(&entry, entry.lines());
        assert!(decode_entry(&bytes, seal()).is_some());
        for other in [
            EntrySeal { ino: 19, ..seal() },
            EntrySeal {
                generation: 8,
                ..seal()
            },
            EntrySeal {
                position: position(1, 300, 6),
                ..seal()
            },
            EntrySeal {
                position: position(0, 300, 5),
                ..seal()
            },
        ] {
            assert_eq!(decode_entry(&bytes, other), None, "{entry:?}");
        }
    }
    let line = |lines| {
        let mut line = [0; LINE];
        line[1] = lines;
        line
    };
    assert_eq!(claimed_lines(&line(0), position(0, 300, 1)), None);
    assert_eq!(claimed_lines(&line(1), position(0, 300, 0)), None);
    assert_eq!(claimed_lines(&line(63), position(0, 300, 1)), Some(63));
    assert_eq!(claimed_lines(&line(63), position(0, 300, 2)), None);
    assert_eq!(claimed_lines(&line(255), position(0, 300, 127)), None);
}

/// The ten bits are linear in the others, so what one flip does to them is the same for every word.
#[test]
fn every_flipped_bit_of_a_sealed_word_is_refused() {
    for salt in [b"COMT", b"LINK"] {
        let check = |low| reader::seal(salt, 18, low) >> 54;
        for bit in 0..54 {
            assert_ne!(check(0) ^ check(1 << bit), 0, "bit {bit}");
        }
    }
    let tail = position(1, 300, 5);
    let (head_index, orphan) = (0, false);
    let commit = CommitWord {
        tail,
        head_index,
        orphan,
    };
    for bit in 0..64 {
        let word = commit.encode(18) ^ (1 << bit);
        assert_eq!(CommitWord::decode(word, 18), Err(()), "bit {bit}");
        let link = encode_link(18, tail) ^ (1 << bit);
        assert_eq!(decode_link(18, link), Err(()), "bit {bit}");
        let pointer = encode_inode_pointer(2, BlockNumber(300)) ^ (1 << bit);
        assert_eq!(decode_inode_pointer(2, pointer), Err(()), "bit {bit}");
    }
}

/// Damage beyond one bit passes a sealed word's check with probability 1 in 1024: for given 54 bits,
/// one of the 1024 values of the rest is right; a word of another inode as rarely.
#[test]
fn other_damage_of_a_sealed_word_is_refused_1023_times_in_1024() {
    let word = CommitWord {
        tail: position(1, 300, 5),
        head_index: 0,
        orphan: false,
    }
    .encode(18);
    let low = word & ((1 << 54) - 1);
    let passed = (0..1024u64).filter(|check| CommitWord::decode(low | (check << 54), 18).is_ok());
    assert_eq!(passed.collect::<Vec<_>>(), [word >> 54]);
    let owners = (0..1 << 20).filter(|ino| CommitWord::decode(word, *ino).is_ok());
    let owners = owners.count();
    assert!(
        (900..1150).contains(&owners),
        "{owners} of 2^20, 1024 expected"
    );
}

proptest! {
    #[test]
    fn words_survive(pool in 0u8..16, block in 1u64..1 << 40, line in 0u8..=64, head_index in 0u8..2,
                     orphan: bool, ino: u64) {
        let tail = position(pool, block, line);
        prop_assert_eq!((tail.pool().0, tail.block().0, tail.line()), (pool, block, line));
        let commit = CommitWord { tail, head_index, orphan };
        prop_assert_eq!(CommitWord::decode(commit.encode(ino), ino), Ok(Some(commit)));
        prop_assert_eq!(decode_link(ino, encode_link(ino, tail)), Ok(tail.at_line(0)));
        let block = BlockNumber(block);
        prop_assert_eq!(decode_inode_pointer(ino, encode_inode_pointer(ino, block)), Ok(Some(block)));
    }

    #[test]
    fn entries_survive(words: [u64; 4], pool in 0u8..16, block in 0u64..1 << 40, kind: u8, flags: [bool; 2],
                       time_ns: i64, name in "[^/\0]{4,60}", value in prop::collection::vec(any::<u8>(), 0..3758)) {
        let [a, b, c, d] = words;
        let (name, pool, block) = (name.as_bytes(), PoolIndex(pool), BlockNumber(block));
        let [unwritten, touches_mtime] = flags;
        let state = AttributeState {
            mode: a as u32, uid: b as u32, gid: c as u32, nlink: d as u32,
            size_bytes: a, atime_ns: b as i64, mtime_ns: c as i64, parent: d,
        };
        for entry in [
            Entry::Write(WriteEntry { file_block: a, count: b, pool, block, size_bytes: c, unwritten, touches_mtime, sums: &[] }),
            Entry::Write(WriteEntry {
                file_block: a, count: value.len() as u64 / 4 + 1, pool, block, size_bytes: c, unwritten, touches_mtime,
                sums: &[&value[..value.len() / 4 * 4], &name[..4]].concat(),
            }),
            Entry::Hole { file_block: a, count: b, size_bytes: c },
            Entry::Attributes(state),
            Entry::NameAdd { ino: a, kind, cookie: b, name },
            Entry::NameRemove { added: LogPosition::new(pool, block, (d % 64) as u8) },
            Entry::XattrSet { name, value: &value },
            Entry::XattrRemove { name },
        ] {
            let seal = EntrySeal { ino: d, generation: c as u32, position: LogPosition::new(pool, block, 1) };
            let mut bytes = vec![0; entry.lines() as usize * LINE];
            entry.encode(&mut bytes, entry.lines(), time_ns, seal);
            let first = bytes[..LINE].try_into().unwrap();
            prop_assert_eq!(claimed_lines(first, seal.position), Some(entry.lines()));
            prop_assert_eq!(decode_entry(&bytes, seal), Some((entry, time_ns)));
        }
    }

    #[test]
    fn arbitrary_bytes_decode_to_nothing_and_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 64..=4032)) {
        bytes.truncate(bytes.len() / 64 * 64);
        prop_assert_eq!(decode_entry(&bytes, seal()), None);
        // Also with a good checksum: whatever the fields say.
        let crc = seal().checksum(&bytes);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        let _ = decode_entry(&bytes, seal());
        let _ = Superblock::decode(&bytes);
        let _ = Certificate::decode(bytes[..64].try_into().unwrap(), 18);
    }
}
