//! `egeria pool` and `egeria upgrade`: as the page says it, with input that is refused, and killed at any moment.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Sandbox, can_mount, commands_of, egeria, finish, run, shell, text};
use egeria_harness::testing::{wait_within, without_surroundings};

/// How long programs may wait for space that was added.
const LIMIT: Duration = Duration::from_secs(120);
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
    assert!(commands.len() >= 12, "{commands:?}");
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

/// Writes files of 1 MiB until it has made enough, waits while there is no space, then reads all of them, and forks for half of them.
const WRITER: &str = r#"
import os, sys, time
top, count = sys.argv[1], int(sys.argv[2])
os.makedirs(top)
def content(number): return bytes([number % 251]) * (1 << 20)
def write(number):
    name, waited = f"{top}/{number}", 0
    while True:
        try:
            with open(name, "wb", 0) as file:
                data = content(number)
                while data: data = data[file.write(data):]
            return
        except OSError as error:
            assert error.errno == 28, error
            open(sys.argv[3], "w").close()
            time.sleep(0.01)
            waited += 1
            assert waited < 3000, "no space"
for number in range(count // 2): write(number)
child = os.fork()
if child == 0:
    for number in range(count // 2, count): write(number)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
for number in range(count):
    assert open(f"{top}/{number}", "rb").read() == content(number), number
"#;

/// Uses the volume, waits until it may read, and reads files that others have made since.
const READER: &str = r#"
import os, sys, time
open(sys.argv[1] + "/before").read()
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
for top in ("mount", "library"):
    for number in range(70):
        assert open(f"{sys.argv[1]}/{top}/{number}", "rb").read() == bytes([number]) * (1 << 20), (top, number)
"#;

#[test]
fn pools_are_added_while_programs_write() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "32M");
    let data = sandbox.directory("data");
    run(["mount", text(&pool), text(&data)]).ok();
    fs::write(data.join("before"), b"before").unwrap();
    let may_read = sandbox.path("may-read");
    let mut reader = Command::new("python3");
    without_surroundings(&mut reader);
    reader.args(["-c", READER, text(&data), text(&may_read)]);
    reader.env("LD_PRELOAD", common::preload_library());
    let mut reader = reader.spawn().unwrap();
    // One through the mount, one under the library. Each alone needs more than there is.
    let writer = |name: &str| {
        let mut command = Command::new("python3");
        without_surroundings(&mut command);
        command.args(["-c", WRITER, text(&data.join(name)), "70"]);
        command.arg(sandbox.path(&format!("{name}.full")));
        command
    };
    let mut through_mount = writer("mount").spawn().unwrap();
    let mut library = writer("library");
    library.env("LD_PRELOAD", common::preload_library());
    let mut library = library.spawn().unwrap();
    let is_full = || {
        let full = ["mount.full", "library.full"].map(|name| sandbox.path(name).exists());
        full.iter().all(|full| *full)
    };
    let begun = Instant::now();
    while !is_full() {
        assert!(begun.elapsed() < LIMIT, "the volume is not full");
        for program in [&mut through_mount, &mut library] {
            let ended = program.try_wait().unwrap();
            assert!(ended.is_none(), "a writer ended: {ended:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let pools_in_df = || {
        let df = run(["df", text(&data), "--json"]).ok().json();
        df["volumes"][0]["pools"].as_array().unwrap().len()
    };
    let add = |name: &str, size: &str| {
        let new = sandbox.pool(1, name, size);
        run(["pool", "add", text(&pool), "--pool", &new])
    };
    add("large", "2G").refused(1, &["at most 1.00 GiB", "name a smaller size"]);
    assert!(!sandbox.path("large").exists());
    assert_eq!(pools_in_df(), 2);
    add("first", "24M").ok();
    assert_eq!(pools_in_df(), 3);
    add("first", "24M").refused(1, &["is a pool of this volume already"]);
    add("second", "96M").ok();
    assert_eq!(pools_in_df(), 4);
    add("third", "64M").refused(1, &["two pools were added", "end all programs"]);
    for (mut program, name) in [(through_mount, "mount"), (library, "library")] {
        assert_eq!(wait_within(&mut program, LIMIT), 0, "{name}");
    }
    fs::write(&may_read, b"").unwrap();
    assert_eq!(wait_within(&mut reader, LIMIT), 0, "a reader");
    run(["pool", "drain", text(&sandbox.path("first"))]).ok();
    run(["umount", text(&data)]).ok();
    run(["check", text(&pool)]).ok();
    run(["mount", text(&pool), text(&data)]).ok();
    for name in ["mount", "library"] {
        for number in 0..70u8 {
            let found = fs::read(data.join(format!("{name}/{number}"))).unwrap();
            assert!(found == vec![number; 1 << 20], "{name}/{number}");
        }
    }
    run(["umount", text(&data)]).ok();
    add("third", "2G").ok();
    run(["check", text(&pool)]).ok();
}

#[test]
fn killed_additions_to_a_volume_in_use_lose_nothing() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let data = sandbox.directory("data");
    for round in 0..8 {
        let name = format!("v{round}");
        let pool = sandbox.volume(&name, "32M");
        run(["mount", text(&pool), text(&data)]).ok();
        let new = sandbox.pool(1, &format!("new{round}"), "32M");
        let with = ["pool", "add", text(&pool), "--pool", &new];
        killed_after(&with, Duration::from_millis(1 + round * 2));
        let content = vec![round as u8; 10 << 20];
        fs::write(data.join("before"), &content).unwrap();
        // To the end, unless it came there.
        let again = run(with);
        assert!(
            again.status == 0 || again.stderr.contains("already"),
            "{again:?}"
        );
        for number in 0..7 {
            fs::write(data.join(format!("f{number}")), &content).unwrap();
        }
        run(["umount", text(&data)]).ok();
        run(["check", text(&pool)]).ok();
        let df = run(["df", text(&pool), "--json"]).ok().json();
        assert_eq!(df["volumes"][0]["pools"].as_array().unwrap().len(), 3);
    }
}
