//! `egeria pool` and `egeria upgrade`: as the page says it, with input that is refused, and killed at any moment.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{Sandbox, can_mount, commands_of, egeria, finish, run, shell, text};
use egeria_harness::testing::without_surroundings;

const PAGE: &str = include_str!("../../../../docs/how-to/grow-and-shrink.md");

#[test]
fn the_page_on_growing_and_shrinking_works_as_it_stands() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    for directory in ["pmem0", "pmem1", "pmem2", "pmem3", "data"] {
        sandbox.directory(directory);
    }
    let pools = [0, 1].map(|node| sandbox.pool(node, &format!("pmem{node}/pool"), "64M"));
    run(["mkfs", "--pool", &pools[0], "--pool", &pools[1]]).ok();
    let (first, data) = (sandbox.path("pmem0/pool"), sandbox.path("data"));
    run(["mount", text(&first), text(&data)]).ok();
    let content: Vec<u8> = (0..1_000_000).map(|at| (at / 77) as u8).collect();
    fs::write(data.join("file"), &content).unwrap();
    let commands = commands_of(PAGE);
    assert!(commands.len() >= 14, "{commands:?}");
    for line in commands {
        let here = line
            .replace("/mnt/", &format!("{}/", sandbox.root.display()))
            .replace("/srv/data", text(&data))
            .replace("64GiB", "64M");
        let ended = finish(shell(&here));
        assert_eq!(ended.status, 0, "{line}: {ended:?}");
        if line.contains(" mount ") {
            assert!(fs::read(data.join("file")).unwrap() == content, "{line}");
        }
    }
    run(["umount", text(&data)]).ok();
    run(["check", text(&first)]).ok();
}

#[test]
fn bad_input_is_one_line_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "32M");
    let other = sandbox.volume("w", "32M");
    let add = |new: &str| run(["pool", "add", text(&pool), "--pool", new]);
    run(["pool", "add", text(&pool)]).refused(2, &["--pool"]);
    add("x:y").refused(2, &["NODE:PATH"]);
    add(&sandbox.pool(1, "v.1", "32M")).refused(1, &["is a pool of this volume already"]);
    add(&sandbox.pool(1, "w.0", "32M")).refused(1, &["is pool 0 of volume", "--force"]);
    add(&sandbox.pool(1, "new", "4M")).refused(1, &["make it larger"]);
    add(&sandbox.pool(1, "none/new", "32M")).refused(1, &["none"]);
    add(&sandbox.pool(1, "new", "4000T")).refused(1, &["new"]);
    assert!(!sandbox.path("new").exists());
    let file = sandbox.file("letter", "Dear king");
    add(&sandbox.pool(1, "letter", "32M")).refused(1, &["letter"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "Dear king");
    for command in ["drain", "remove"] {
        run(["pool", command, text(&file)]).refused(1, &["is not an Egeria pool"]);
        run(["pool", command, text(&sandbox.path("none"))]).refused(1, &["none"]);
        run(["pool", command, text(&pool)]).refused(1, &["is pool 0, which has the journal"]);
    }
    run(["upgrade", text(&file)]).refused(1, &["is not an Egeria pool"]);
    for pool in [&pool, &other] {
        run(["check", text(pool)]).ok();
    }
}

#[test]
fn what_commands_print_as_json() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "32M");
    let new = sandbox.pool(1, "new", "32M");
    let added = run(["pool", "add", text(&pool), "--pool", &new, "--json"]);
    let added = added.ok().json();
    assert_eq!((&added["pool"], &added["node"]), (&2.into(), &1.into()));
    assert_eq!(added["bytes"], 32 << 20);
    let df = run(["df", text(&pool), "--json"]).ok().json();
    assert_eq!(df["volumes"][0]["pools"].as_array().unwrap().len(), 3);
    let new = sandbox.path("new");
    let drained = run(["pool", "drain", text(&new), "--json"]).ok().json();
    assert_eq!(
        (&drained["drained"], &drained["pool"]),
        (&true.into(), &2.into())
    );
    let ended = run(["pool", "drain", text(&new), "--end", "--json"]);
    assert_eq!(ended.ok().json()["drained"], false);
    let removed = run(["pool", "remove", text(&new), "--json"]).ok().json();
    assert_eq!(
        (&removed["pool"], &removed["volume"]),
        (&2.into(), &added["volume"])
    );
    let df = run(["df", text(&pool), "--json"]).ok().json();
    assert_eq!(df["volumes"][0]["pools"].as_array().unwrap().len(), 2);
    let upgraded = run(["upgrade", text(&pool), "--json"]).ok().json();
    assert_eq!(upgraded["from"], upgraded["to"]);
    run(["pool", "remove", text(&new)]).refused(1, &["is not an Egeria pool"]);
}

#[test]
fn a_pool_with_bad_sectors_is_replaced_and_losses_are_named() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "32M");
    let data = sandbox.directory("data");
    run(["mount", "--alloc", "node=1", text(&pool), text(&data)]).ok();
    let content = vec![7; 1 << 20];
    fs::write(data.join("file"), &content).unwrap();
    run(["umount", text(&data)]).ok();
    let (old, new) = (sandbox.path("v.1"), sandbox.pool(1, "new", "32M"));
    let replace = |bad: &Path, more: &[&str]| {
        let with = ["pool", "replace", text(&old), "--by", &new, "--bad"];
        run(with
            .iter()
            .copied()
            .chain([text(bad)])
            .chain(more.iter().copied()))
    };
    let no_list = sandbox.file("letter", "Dear king");
    replace(&no_list, &[]).refused(1, &["line 1 is no range of sectors", "badblocks"]);
    let all_data = sandbox.file("bad", "8 1000000\n");
    let kept = replace(&all_data, &["--json"]);
    assert_eq!(kept.status, 1, "{kept:?}");
    let document = kept.json();
    assert_eq!(document["replaced"], false);
    assert_eq!(document["lost"], serde_json::json!([]));
    assert!(!document["left"].as_array().unwrap().is_empty());
    // The new pool is there already, as after an interruption.
    let replaced = replace(&all_data, &["--give-up", "--json"]);
    assert_eq!(replaced.status, 0, "{replaced:?}");
    assert!(
        replaced.stderr.contains("of /file; restore them"),
        "{replaced:?}"
    );
    let document = replaced.json();
    assert_eq!(document["replaced"], true);
    let lost = document["lost"].as_array().unwrap();
    let bytes: u64 = lost
        .iter()
        .map(|range| range["length_bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(bytes, 1 << 20, "{lost:?}");
    assert!(lost.iter().all(|range| range["path"] == "/file"));
    run(["mount", text(&pool), text(&data)]).ok();
    assert!(fs::read(data.join("file")).unwrap() == vec![0; content.len()]);
    run(["umount", text(&data)]).ok();
    run(["check", text(&pool)]).ok();
    run(["pool", "replace", text(&pool), "--by", &new])
        .refused(1, &["is pool 0, which has the journal"]);
}

/// Starts a command, kills it after so long if it still runs, and waits for its end.
fn killed_after(arguments: &[&str], time: Duration) {
    let mut child = egeria(arguments);
    let mut child = child
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(time);
    let _ = child.kill();
    child.wait().unwrap();
}

/// What a reader of the files sees, by name.
fn contents(sandbox: &Sandbox, pool: &Path) -> String {
    let list = "cd $EGERIA_MOUNT && find . -type f | sort | xargs cksum && ls -i | sort";
    let directory = sandbox.path("seen");
    let _ = fs::create_dir(&directory);
    run(["mount", text(pool), text(&directory)]).ok();
    let mut shell = Command::new("sh");
    without_surroundings(&mut shell);
    shell.args(["-c", list]).env("EGERIA_MOUNT", &directory);
    let seen = finish(shell);
    run(["umount", text(&directory)]).ok();
    seen.ok().stdout
}

#[test]
fn killed_changes_of_pools_lose_nothing() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "64M");
    let directory = sandbox.directory("data");
    run(["mount", text(&pool), text(&directory), "--alloc", "striped"]).ok();
    for number in 0..60 {
        let bytes = vec![number as u8; 1 + number * 7919];
        fs::write(directory.join(format!("f{number}")), bytes).unwrap();
    }
    run(["umount", text(&directory)]).ok();
    let before = contents(&sandbox, &pool);
    assert!(before.lines().count() >= 120, "{before}");
    let new = sandbox.pool(2, "new", "64M");
    let (path, last) = (sandbox.path("new"), sandbox.path("v.1"));
    for round in 0..6 {
        let time = Duration::from_millis(2 + round * 3);
        killed_after(&["pool", "add", text(&pool), "--pool", &new], time);
        run(["check", text(&pool)]).ok();
        killed_after(&["pool", "drain", text(&last)], time);
        killed_after(&["pool", "remove", text(&path)], time);
        assert!(contents(&sandbox, &pool) == before, "round {round}");
        run(["check", text(&pool)]).ok();
    }
    // To the end.
    let _ = run(["pool", "add", text(&pool), "--pool", &new]);
    run(["pool", "remove", text(&last)]).ok();
    assert!(contents(&sandbox, &pool) == before);
    run(["check", text(&pool)]).ok();
}
