//! `egeria warm` on one node; more are tried by `make guest`.

use crate::common;
use egeria_harness::testing::skip;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use common::{Sandbox, as_nobody, can_mount, egeria, finish, is_root, run};
use serde_json::Value;

#[track_caller]
fn json(command: &[&str]) -> Value {
    let json = ["--json", "where", "--observe", "1"];
    let json = if command[0] == "where" {
        &json[..]
    } else {
        &json[..1]
    };
    let rest = if command[0] == "where" {
        &command[1..]
    } else {
        command
    };
    run(json.iter().chain(rest)).ok().json()
}

/// A file on a disk of which nothing is cached; `None`, loudly, where temporary files stay in memory.
fn cold(path: &Path, bytes: usize) -> Option<&str> {
    let mut file = File::create(path).unwrap();
    file.write_all(&vec![7; bytes]).unwrap();
    file.sync_all().unwrap();
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    let path = path.to_str().unwrap();
    let is_cold = json(&["where", path])["held_bytes"] == 0;
    if !is_cold {
        skip(format_args!("pages of {path} do not leave the cache"));
    }
    is_cold.then_some(path)
}

#[test]
fn cold_files_are_read_and_verified() {
    let sandbox = Sandbox::below(Path::new("/var/tmp"));
    let directory = sandbox.directory("below");
    for (name, bytes) in [("a", 5_000_000), ("b", 1)] {
        if cold(&directory.join(name), bytes).is_none() {
            return;
        }
    }
    fs::write(directory.join("empty"), "").unwrap();
    let all = 5_001_216 + 4096;
    let warm = ["--json", "warm", "--node", "0", directory.to_str().unwrap()];
    let warmed = finish(egeria(warm)).json();
    assert_eq!(warmed["files"], 3);
    let node = &warmed["nodes"][0];
    // The kernel may drop pages at any time; then they were read again, or are named missing.
    assert_eq!(node["bytes"], all, "{warmed}");
    assert!(node["read_bytes"].as_u64() >= Some(all), "{warmed}");
    let missing = node["missing_bytes"].as_u64().unwrap();
    assert_eq!(
        node["there_bytes"].as_u64().unwrap() + missing,
        all,
        "{warmed}"
    );
    assert_eq!(warmed["complete"], missing == 0, "{warmed}");
    assert!(missing < all, "{warmed}");
    let again = finish(egeria(warm)).json();
    let read = again["nodes"][0]["read_bytes"].as_u64().unwrap();
    assert!(read < all, "nothing was cached: {again}");
}

#[test]
fn holes_stay_holes() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("sparse");
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let warmed = json(&["warm", "--node", "0", path.to_str().unwrap()]);
    assert_eq!(
        (&warmed["bytes"], &warmed["complete"]),
        (&0.into(), &true.into())
    );
}

#[test]
fn what_is_wrong_is_one_line_with_a_hint() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("file", "x");
    let file = file.to_str().unwrap();
    let absent = sandbox.path("absent");
    for (status, command, words) in [
        (2, vec![file], ["--node", "--spread"]),
        (
            2,
            vec![file, "--node", "0", "--spread"],
            ["--node", "--spread"],
        ),
        (
            2,
            vec![file, "--node", "999"],
            ["no memory at node 999", "egeria machine"],
        ),
        (2, vec!["--spread"], ["FILE", "--help"]),
        (
            1,
            vec!["/dev/null", "--spread"],
            ["/dev/null", "not a regular file"],
        ),
        (
            1,
            vec![absent.to_str().unwrap(), "--spread"],
            ["absent", "check the path"],
        ),
    ] {
        finish(egeria(["warm"].iter().chain(&command))).refused(status, &words);
    }
    if is_root() {
        let refused = finish(as_nobody(["warm", "--spread", "/etc/passwd"]));
        refused.refused(1, &["/etc/passwd", "run as root"]);
    }
}

#[test]
fn files_of_volumes_are_refused() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let volume = sandbox.volume("pool", "32MiB");
    let mount = sandbox.directory("mount");
    run(["mount".as_ref(), volume.as_os_str(), mount.as_os_str()]).ok();
    fs::write(mount.join("file"), "x").unwrap();
    for path in [mount.clone(), mount.join("file")] {
        let refused = finish(egeria(["warm", "--spread", path.to_str().unwrap()]));
        refused.refused(1, &["on a volume of Egeria", "egeria where"]);
    }
    run(["umount".as_ref(), mount.as_os_str()]).ok();
}
