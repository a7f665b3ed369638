//! `egeria where`: files, directories and processes, as text and JSON, and what is wrong in a line.

use crate::common;
use egeria_harness::testing::has_numa_maps;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Background, Sandbox, as_nobody, can_mount, egeria, finish, is_root, run};
use serde_json::Value;

#[track_caller]
fn json(of: &Path) -> Value {
    let command = ["where", "--json", "--observe", "1"].map(Path::new);
    let text = run(command.into_iter().chain([of])).ok().stdout;
    serde_json::from_str(&text).unwrap()
}

/// What all nodes have together.
fn sum(document: &Value, field: &str) -> u64 {
    let nodes = document["nodes"].as_array().unwrap().iter();
    nodes.map(|node| node[field].as_u64().unwrap()).sum()
}

#[test]
fn a_file_shows_what_is_cached_and_who_uses_it() {
    let sandbox = Sandbox::new();
    let path = sandbox.file("data", &"x".repeat(100_000));
    let mut user = Command::new("sleep");
    let user = user.arg("600").stdin(File::open(&path).unwrap());
    let user = Background(user.stdout(Stdio::null()).spawn().unwrap());
    let document = json(&path);
    assert_eq!(document["kind"], "file");
    assert_eq!(document["store"], "tmpfs");
    assert_eq!(document["file_system"], "tmpfs");
    assert_eq!(document["size_bytes"], 100_000);
    assert_eq!(document["held_bytes"], 102_400);
    assert_eq!(sum(&document, "bytes"), 102_400);
    let users = document["users"].as_array().unwrap();
    let found = users.iter().find(|found| found["process_id"] == user.id());
    let found = found.unwrap_or_else(|| panic!("{document}"));
    assert_eq!(
        (&found["open"], &found["name"]),
        (&1.into(), &"sleep".into())
    );
    let text = run(["where".as_ref(), path.as_os_str()]).ok().stdout;
    assert!(
        text.contains("in memory (tmpfs)") && text.contains("sleep"),
        "{text}"
    );
}

#[test]
fn a_directory_sums_its_files() {
    let sandbox = Sandbox::new();
    sandbox.directory("below");
    for (name, length) in [("small", 1), ("below/large", 1 << 20), ("empty", 0)] {
        sandbox.file(name, &"x".repeat(length));
    }
    let document = json(&sandbox.root);
    assert_eq!(
        (&document["kind"], &document["files"]),
        (&"directory".into(), &3.into())
    );
    assert_eq!(document["held_bytes"], (1 << 20) + 4096);
    assert_eq!(sum(&document, "bytes"), (1 << 20) + 4096);
    let largest = document["largest"].as_array().unwrap();
    assert_eq!(largest.len(), 2);
    assert!(
        largest[0]["path"]
            .as_str()
            .unwrap()
            .ends_with("below/large")
    );
}

#[test]
fn a_hundred_thousand_entries_are_looked_at() {
    let sandbox = Sandbox::new();
    for number in 0..100_000 {
        File::create(sandbox.path(&number.to_string())).unwrap();
    }
    sandbox.file("one", "x");
    let document = json(&sandbox.root);
    assert_eq!(
        (&document["files"], &document["held_bytes"]),
        (&100_001.into(), &4096.into())
    );
}

#[test]
fn a_sparse_file_of_a_tebibyte_is_looked_at_and_stays_sparse() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("sparse");
    let file = File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_at(b"x", 1 << 39).unwrap();
    let document = json(&path);
    assert_eq!(
        (&document["size_bytes"], &document["held_bytes"]),
        (&(1_u64 << 40).into(), &4096.into())
    );
    assert_eq!(json(&path)["allocated_bytes"], 4096);
}

#[test]
fn a_process_shows_memory_files_and_threads() {
    if !has_numa_maps() {
        return;
    }
    let sandbox = Sandbox::new();
    let path = sandbox.file("data", &"x".repeat(5000));
    let mut user = Command::new("sleep");
    let user = user.arg("600").stdin(File::open(&path).unwrap());
    // What this test writes to may be a file.
    let user = user.stdout(Stdio::null()).stderr(Stdio::null());
    let user = Background(user.spawn().unwrap());
    let document = json(Path::new(&user.id().to_string()));
    assert_eq!(
        (&document["kind"], &document["threads"]),
        (&"process".into(), &1.into())
    );
    assert!(sum(&document, "anonymous_bytes") > 0 && sum(&document, "mapped_bytes") > 0);
    assert_eq!(sum(&document, "open_bytes"), 8192, "{document}");
    let open = document["open"].as_array().unwrap();
    assert_eq!(open[0]["path"].as_str().unwrap(), path.to_str().unwrap());
}

#[test]
fn a_file_of_a_volume_shows_the_nodes_of_its_pools() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let volume = sandbox.volume("pool", "64MiB");
    let mount = sandbox.directory("mount");
    let mounted = [
        "mount".as_ref(),
        "--alloc".as_ref(),
        "node=1".as_ref(),
        volume.as_os_str(),
        mount.as_os_str(),
    ];
    run(mounted).ok();
    fs::write(mount.join("data"), vec![1; 1 << 20]).unwrap();
    let document = json(&mount.join("data"));
    let directory = json(&mount);
    run(["umount".as_ref(), mount.as_os_str()]).ok();
    assert_eq!(
        (&document["store"], &document["file_system"]),
        (&"pools".into(), &"egeria".into())
    );
    for document in [document, directory] {
        let node = &document["nodes"][1];
        assert_eq!(
            (&node["node"], &node["bytes"]),
            (&1.into(), &(1 << 20).into()),
            "{document}"
        );
        assert_eq!(document["held_bytes"], 1 << 20);
    }
}

#[test]
fn what_is_wrong_is_one_line_with_a_hint() {
    let sandbox = Sandbox::new();
    for (of, cause, hint) in [
        (
            "4294967295",
            "there is no process 4294967295",
            "./4294967295",
        ),
        ("0", "there is no process 0", "./0"),
        ("99999999999999999999", "there is no process", "./9"),
        ("/dev/null", "neither a file nor a directory", "name a file"),
        (
            sandbox.path("absent").to_str().unwrap(),
            "cannot look at",
            "check the path",
        ),
    ] {
        finish(egeria(["where", of])).refused(1, &[cause, hint]);
    }
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let ended = ended.id().to_string();
    finish(egeria(["where", &ended])).refused(1, &["there is no process"]);
}

#[test]
fn what_belongs_to_others_is_said_to() {
    if !is_root() {
        return;
    }
    let own = std::process::id().to_string();
    finish(as_nobody(["where", &own])).refused(1, &["may not be looked at; run as root"]);
    // The kernel tells who may only read a file that all of it is cached.
    let document = finish(as_nobody([
        "where",
        "--json",
        "--observe",
        "1",
        "/etc/passwd",
    ]))
    .ok();
    let document: Value = serde_json::from_str(&document.stdout).unwrap();
    assert_eq!(document["held_bytes"], 0);
    let remarks = document["remarks"].to_string();
    assert!(
        remarks.contains("only who owns a file or may write it"),
        "{remarks}"
    );
}

#[test]
fn what_users_are_not_told_is_no_zero() {
    if !is_root() {
        return;
    }
    // Everybody may read it, and only root write it.
    let text = finish(as_nobody(["where", "/etc/passwd"])).ok().stdout;
    assert!(text.contains("an unknown part of them"), "{text}");
    let text = run(["where", "/etc/passwd"]).ok().stdout;
    assert!(!text.contains("unknown"), "{text}");
}
