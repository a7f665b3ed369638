//! Damaged volumes: whatever is on media, attaching, using, checking and repairing give answers or errors;
//! no panic, no hang, no access out of bounds (invariant 4).
//!
//! `EGERIA_TEST_CASES` sets how many damaged images each random test looks at.

mod damage;
mod exercise;
mod forge;
mod steps;

use crate::common::*;
use damage::{Random, damage};
use egeria_engine::format::*;
use egeria_engine::*;
use exercise::{Sample, answers, exercise};
use forge::forge;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn cases(default: u64) -> u64 {
    let wanted = std::env::var("EGERIA_TEST_CASES").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn with_damage(cases: u64, pools: usize, change: impl Fn(&mut Random, &mut [Vec<u8>])) {
    let sample = Sample::new(pools);
    for seed in 0..cases {
        let mut random = Random::of(seed);
        let mut images = sample.images.clone();
        change(&mut random, &mut images);
        exercise(&sample, &images, &format!("seed {seed}"));
    }
}

#[test]
fn random_damage_gives_errors_not_panics() {
    with_damage(cases(160), 1, |random, pools| {
        for _ in 0..=random.below(3) {
            damage(random, pools);
        }
    });
}

#[test]
fn random_damage_on_two_pools_gives_errors_not_panics() {
    with_damage(cases(80), 2, |random, pools| {
        for _ in 0..=random.below(8) {
            damage(random, pools);
        }
    });
}

#[test]
fn forged_structures_with_good_checksums_give_errors() {
    with_damage(cases(200), 2, |random, pools| {
        for _ in 0..=random.below(3) {
            forge(random, pools);
        }
    });
}

/// What attaching and checking say of these pools; both must fail with this errno and words.
fn refused(pool: &Path, errno: i32, words: &str) {
    let attached = Volume::attach(pool, AttachMode::CreateOrJoin, &AttachOptions::default());
    let checked = check_volume(pool, false, &mut |_, _| {});
    for error in [attached.err(), checked.err()] {
        let error = error.expect("must be refused");
        assert_eq!(error.errno, errno, "{error}");
        let text = error.to_string();
        assert!(text.contains(words), "{words:?} is not in: {text}");
        assert!(
            !text.contains('\n') && text.contains(&*pool.to_string_lossy()) || text.contains(';'),
            "{text}"
        );
    }
}

fn patch(path: &Path, at: u64, bytes: &[u8]) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

#[test]
fn a_truncated_pool_is_refused() {
    let scratch = Scratch::new(2, 8 << 20);
    let file = std::fs::File::options()
        .write(true)
        .open(&scratch.pools[1])
        .unwrap();
    file.set_len(5 << 20).unwrap();
    refused(&scratch.pools[0], libc::EIO, "truncated");
    refused(&scratch.pools[1], libc::EIO, "truncated");
    file.set_len(100).unwrap();
    refused(&scratch.pools[1], libc::EINVAL, "not an Egeria pool");
}

#[test]
fn a_pool_truncated_while_attached_gives_errors() {
    egeria_media::guard::install().expect("guard");
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    steps::small_tree(&volume);
    let file = std::fs::File::options()
        .write(true)
        .open(&scratch.pools[0])
        .unwrap();
    file.set_len(1 << 20).unwrap();
    answers(&volume);
}

#[test]
fn swapped_pools_are_refused() {
    let scratch = Scratch::new(2, 8 << 20);
    let aside = scratch.directory.path().join("aside");
    std::fs::rename(&scratch.pools[0], &aside).unwrap();
    std::fs::rename(&scratch.pools[1], &scratch.pools[0]).unwrap();
    std::fs::rename(&aside, &scratch.pools[1]).unwrap();
    refused(&scratch.pools[0], libc::EINVAL, "of another volume");
}

#[test]
fn a_pool_of_another_volume_is_refused() {
    let (scratch, other) = (Scratch::new(2, 8 << 20), Scratch::new(2, 8 << 20));
    std::fs::copy(&other.pools[1], &scratch.pools[1]).unwrap();
    refused(&scratch.pools[0], libc::EINVAL, "another volume");
}

#[test]
fn a_missing_pool_is_named() {
    let scratch = Scratch::new(2, 8 << 20);
    std::fs::remove_file(&scratch.pools[1]).unwrap();
    refused(&scratch.pools[0], libc::ENOENT, "pool1");
}

#[test]
fn one_zeroed_superblock_copy_is_survived_and_both_are_not() {
    for copy in SUPERBLOCK_COPIES {
        let scratch = Scratch::new(1, 8 << 20);
        patch(
            &scratch.pools[0],
            copy * BLOCK as u64,
            &[0; SUPERBLOCK_BYTES],
        );
        drop(scratch.attach());
        let report = check_volume(&scratch.pools[0], true, &mut |_, _| {}).unwrap();
        assert_eq!(report.repaired, 1, "{report:?}");
        scratch.assert_clean();
    }
    let scratch = Scratch::new(1, 8 << 20);
    for copy in SUPERBLOCK_COPIES {
        patch(
            &scratch.pools[0],
            copy * BLOCK as u64,
            &[0; SUPERBLOCK_BYTES],
        );
    }
    refused(&scratch.pools[0], libc::EINVAL, "not an Egeria pool");
}

#[test]
fn a_newer_version_is_distinguished_from_damage() {
    let scratch = Scratch::new(1, 8 << 20);
    let mut bytes = std::fs::read(&scratch.pools[0]).unwrap();
    bytes.truncate(SUPERBLOCK_BYTES);
    bytes[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..SUPERBLOCK_BYTES - 4]);
    bytes[SUPERBLOCK_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    for copy in SUPERBLOCK_COPIES {
        patch(&scratch.pools[0], copy * BLOCK as u64, &bytes);
    }
    refused(&scratch.pools[0], libc::EPROTO, "version");
}

#[test]
fn what_is_no_pool_is_refused() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    refused(directory.path(), libc::EISDIR, "directory");
    let empty = directory.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    refused(&empty, libc::EINVAL, "not an Egeria pool");
    let text = directory.path().join("text");
    std::fs::write(&text, vec![b'x'; 9 << 20]).unwrap();
    refused(&text, libc::EINVAL, "not an Egeria pool");
}
