//! The bytes shown in docs/reference/format.md are those the engine makes.

use super::{certificate, encoded, entries, position, superblock};
use egeria_engine::format::*;
use egeria_media::{PoolIndex, PoolOffset};

const DOCUMENT: &str = include_str!("../../../../../docs/reference/format.md");

/// Sixteen bytes to a line, each line with its offset; rows of zeros are left out.
fn dump(bytes: &[u8]) -> String {
    let rows = bytes.chunks(16).enumerate();
    rows.filter(|(_, row)| row.iter().any(|byte| *byte != 0))
        .map(|(at, row)| {
            let row: String = row.iter().map(|byte| format!(" {byte:02x}")).collect();
            format!("{:04x} {row}\n", at * 16)
        })
        .collect()
}

#[test]
fn the_examples_are_what_the_engine_makes() {
    let page = position(1, 300, 0);
    let commit = CommitWord {
        tail: page.at_line(13),
        head_index: 0,
        orphan: false,
    };
    let mut record = [0; INODE_BYTES as usize];
    record[..8].copy_from_slice(&commit.encode(18).to_le_bytes());
    record[8..16].copy_from_slice(&encode_link(18, page).to_le_bytes());
    record[64..].copy_from_slice(&certificate().encode());
    let pairs = encode_journal_pairs(&[
        JournalPair {
            pool: PoolIndex(0),
            at: PoolOffset(0x10_6000),
            value: 0x0123_4567_89ab_cdef,
        },
        JournalPair {
            pool: PoolIndex(1),
            at: PoolOffset(0x7080),
            value: commit.encode(18),
        },
    ]);
    let word = journal_commit_word(9, &pairs);
    let slot = [&word.to_le_bytes()[..], &[0; 8], &pairs].concat();
    let superblock = superblock().encode();
    let mut examples = vec![
        ("superblock", superblock),
        ("record", record.to_vec()),
        ("page", encode_page_header(18, 7, page, 0).to_vec()),
        ("journal slot", slot),
    ];
    examples.extend(entries().iter().map(|entry| ("entry", encoded(entry, 1))));
    for (what, bytes) in examples {
        let dump = dump(&bytes);
        assert!(
            DOCUMENT.contains(&dump),
            "docs/reference/format.md lacks {what}:\n{dump}"
        );
    }
}
