//! What is wrong with pools gets one line that names cause and hint, and loses nothing.

use crate::common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use common::{Sandbox, as_nobody, finish, is_root, run, text};
use egeria_stats::rng::Rng;

/// Bytes of a superblock copy, and where the two copies begin (docs/reference/format.md).
const SUPERBLOCK_BYTES: usize = 8192;
const COPIES: [u64; 2] = [0, 8192];

/// Every command that opens a volume refuses it in one line.
#[track_caller]
fn all_refuse(sandbox: &Sandbox, pool: &Path, words: &[&str]) {
    let directory = sandbox.path("refused");
    let _ = fs::create_dir(&directory);
    run(["check", text(pool)]).refused(1, words);
    run(["df", text(pool)]).refused(1, words);
    run(["mount", text(pool), text(&directory)]).refused(1, words);
    run(["run", "--volume", text(pool), "--", "true"]).refused(1, words);
    assert!(
        common::mounts()
            .iter()
            .all(|mount| !mount.starts_with(&sandbox.root))
    );
}

#[test]
fn a_pool_that_is_missing() {
    let sandbox = Sandbox::new();
    let pool = sandbox.path("none");
    all_refuse(&sandbox, &pool, &[text(&pool)]);
}

#[test]
fn a_sibling_that_is_missing() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "32M");
    let sibling = sandbox.path("v.1");
    fs::rename(&sibling, sandbox.path("away")).unwrap();
    all_refuse(&sandbox, &pool, &[text(&sibling)]);
    fs::rename(sandbox.path("away"), &sibling).unwrap();
    run(["check", text(&pool)]).ok();
}

#[test]
fn something_that_is_not_a_pool() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("letter", &"Dear king, ".repeat(4096));
    all_refuse(&sandbox, &file, &[text(&file)]);
    let directory = sandbox.directory("directory");
    run(["check", text(&directory)]).refused(1, &[text(&directory)]);
    run(["check", "/dev/zero"]).refused(1, &["/dev/zero"]);
}

#[test]
fn a_pool_that_is_too_small() {
    let sandbox = Sandbox::new();
    for size in ["0", "4K", "64K"] {
        run(["mkfs", "--pool", &sandbox.pool(0, "small", size)]).refused(1, &["small"]);
        assert!(
            !sandbox.path("small").exists(),
            "mkfs left half a volume of {size}"
        );
    }
}

#[test]
fn a_pool_larger_than_its_file_system() {
    let sandbox = Sandbox::new();
    let ended = run(["mkfs", "--pool", &sandbox.pool(0, "large", "4000T")]);
    assert_eq!(
        (ended.status, ended.stderr.lines().count()),
        (1, 1),
        "{ended:?}"
    );
    assert!(
        ended.stderr.contains("large: ") && ended.stderr.contains("smaller"),
        "{ended:?}"
    );
    assert!(!sandbox.path("large").exists());
}

#[test]
fn a_directory_that_does_not_exist() {
    run(["mkfs", "--pool", "0:/no/such/pool:64M"]).refused(1, &["/no/such"]);
}

#[test]
fn the_same_pool_twice() {
    let sandbox = Sandbox::new();
    let pool = sandbox.pool(0, "p", "32M");
    run(["mkfs", "--pool", &pool, "--pool", &pool]).refused(1, &[text(&sandbox.path("p"))]);
}

/// A machine may have 64 nodes, a volume has at most 16 pools.
#[test]
fn more_pools_than_a_volume_has_are_refused() {
    let sandbox = Sandbox::new();
    let pools: Vec<String> = (0..17)
        .map(|node| sandbox.pool(node, &format!("p{node}"), "8M"))
        .collect();
    let mut words = vec!["mkfs"];
    words.extend(pools.iter().flat_map(|pool| ["--pool", pool]));
    run(words).refused(1, &["17 pools", "1 to 16", "nearest"]);
    assert!(!sandbox.path("p0").exists());
}

#[test]
fn mkfs_over_a_volume_needs_force() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "32M");
    let again = [
        "mkfs",
        "--pool",
        &sandbox.pool(0, "v.0", "32M"),
        "--pool",
        &sandbox.pool(1, "v.1", "32M"),
    ]
    .map(str::to_owned);
    run(&again).refused(1, &["--force"]);
    run(["check", text(&pool)]).ok();
    run(again.iter().map(String::as_str).chain(["--force"])).ok();
    run(["check", text(&pool)]).ok();
}

#[test]
fn a_pool_of_another_volume() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "32M");
    sandbox.volume("w", "32M");
    fs::copy(sandbox.path("w.1"), sandbox.path("v.1")).unwrap();
    all_refuse(
        &sandbox,
        &pool,
        &[text(&sandbox.path("v.1")), "another volume"],
    );
}

#[test]
fn a_pool_of_a_newer_format() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "32M");
    let file = File::options().read(true).write(true).open(&pool).unwrap();
    for at in COPIES {
        let mut copy = vec![0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut copy, at).unwrap();
        copy[8..12].copy_from_slice(&0x7fff_u32.to_le_bytes());
        let sum = crc32c::crc32c(&copy[..SUPERBLOCK_BYTES - 4]);
        copy[SUPERBLOCK_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&copy, at).unwrap();
    }
    all_refuse(&sandbox, &pool, &[text(&pool), "32767"]);
}

#[test]
fn a_pool_that_was_truncated() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "32M");
    for bytes in [20 << 20, 8192, 100, 0] {
        File::options()
            .write(true)
            .open(&pool)
            .unwrap()
            .set_len(bytes)
            .unwrap();
        all_refuse(&sandbox, &pool, &[text(&pool)]);
    }
}

#[test]
fn one_broken_superblock_copy_is_repaired_from_the_other() {
    let sandbox = Sandbox::new();
    for at in COPIES {
        let name = format!("v{at}");
        let pool = sandbox.volume(&name, "32M");
        File::options()
            .write(true)
            .open(&pool)
            .unwrap()
            .write_all_at(&[0xff; 64], at + 100)
            .unwrap();
        let found = run(["check", "--json", text(&pool)]);
        assert_eq!(found.status, 1, "{found:?}");
        let broken = fs::read(&pool).unwrap();
        let undo = sandbox.path(&format!("{name}.undo"));
        let repair = ["check", "--json", "--repair", "--undo-file", text(&undo)];
        let repaired = run(repair.into_iter().chain([text(&pool)])).ok().json();
        assert_eq!(repaired["clean"], true, "{repaired}");
        assert_eq!(repaired["undo_file"], text(&undo));
        run(["check", text(&pool)]).ok();
        let undone = run(["check", "--json", text(&pool), "--undo", text(&undo)]);
        assert!(undone.ok().json()["restored_blocks"].as_u64() > Some(0));
        assert!(fs::read(&pool).unwrap() == broken);
    }
}

#[test]
fn what_is_no_undo_file_of_the_volume_changes_nothing() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "32M");
    let before = fs::read(&pool).unwrap();
    let file = sandbox.file("undo", "no undo file");
    run(["check", text(&pool), "--undo", text(&file)]).refused(1, &["no undo file", text(&file)]);
    let none = sandbox.path("none");
    run(["check", text(&pool), "--undo", text(&none)]).refused(1, &[text(&none)]);
    run(["check", text(&pool), "--repair", "--undo", text(&file)]).refused(2, &["--undo"]);
    run(["check", text(&pool), "--undo-file", text(&file)]).refused(2, &["--repair"]);
    assert!(fs::read(&pool).unwrap() == before);
}

#[test]
fn a_pool_corrupted_at_random_is_never_more_than_an_error() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "32M");
    let pristine = [
        fs::read(&pool).unwrap(),
        fs::read(sandbox.path("v.1")).unwrap(),
    ];
    let mut rng = Rng::new(1);
    let mut random = |below: usize| rng.index(below);
    for round in 0..24 {
        // Most of a fresh pool is empty: hit the head of it, where everything is.
        for (index, bytes) in pristine.iter().enumerate() {
            let mut damaged = bytes.clone();
            for _ in 0..=random(64) {
                let region = [16 << 10, 256 << 10, bytes.len()][random(3)];
                let at = random(region);
                damaged[at] ^= 1 << random(8);
            }
            fs::write(sandbox.path(&format!("v.{index}")), damaged).unwrap();
        }
        let undo = sandbox.path("undo");
        let _ = fs::remove_file(&undo);
        let repair = vec!["check", "--repair", "--undo-file", text(&undo)];
        for arguments in [vec!["check"], vec!["df"], repair] {
            let ended = run(arguments.iter().copied().chain([text(&pool)]));
            assert!(
                ended.status == 0 || ended.status == 1,
                "round {round}, {arguments:?}: {ended:?}"
            );
            assert!(
                !ended.stderr.contains("panicked"),
                "round {round}, {arguments:?}: {ended:?}"
            );
        }
    }
}

#[test]
fn a_pool_that_may_not_be_opened() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    fs::set_permissions(&sandbox.root, fs::Permissions::from_mode(0o755)).unwrap();
    let pool = sandbox.volume("v", "32M");
    for arguments in [vec!["check"], vec!["df"]] {
        let ended = finish(as_nobody(arguments.iter().copied().chain([text(&pool)])));
        ended.refused(1, &[text(&pool), "ermission"]);
    }
}

#[test]
fn a_pool_that_may_only_be_read_is_shown_but_not_changed() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    fs::set_permissions(&sandbox.root, fs::Permissions::from_mode(0o755)).unwrap();
    let pool = sandbox.volume("v", "32M");
    for name in ["v.0", "v.1"] {
        fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(0o444)).unwrap();
    }
    finish(as_nobody(["check", "--repair", text(&pool)])).refused(1, &[text(&pool)]);
    let directory = sandbox.directory("mnt");
    finish(as_nobody(["mount", text(&pool), text(&directory)])).refused(1, &[text(&pool)]);
}
