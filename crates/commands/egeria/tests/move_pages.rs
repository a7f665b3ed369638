//! `egeria move` on one node, where nothing has to go anywhere; more are tried by `make guest`.

use crate::common;
use egeria_harness::testing::has_numa_maps;

use std::process::Command;

use common::{Background, Sandbox, as_nobody, egeria, finish, is_root, run};

#[test]
fn every_page_of_a_process_is_verified() {
    if !has_numa_maps() {
        return;
    }
    let held = Background::start(Command::new("sleep").arg("600"));
    let process = held.id().to_string();
    let moved = run(["--json", "move", "--pid", &process, "--spread"]).ok();
    let moved = moved.json();
    assert_eq!(
        (&moved["kind"], &moved["complete"]),
        (&"processes".into(), &true.into())
    );
    let there = moved["there_bytes"].as_u64().unwrap();
    let nodes = moved["nodes"].as_array().unwrap();
    let by_node = nodes.iter().map(|node| node["bytes"].as_u64().unwrap());
    // Libraries are shared with other programs, and stay where they are.
    let shared = moved["shared_bytes"].as_u64().unwrap();
    assert!(there > 0, "{moved}");
    assert_eq!(by_node.sum::<u64>(), there + shared, "{moved}");
    assert_eq!(moved["processes"][0]["process_id"], held.id());
}

#[test]
fn what_is_cached_of_files_is_verified_and_nothing_is_read() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("file");
    std::fs::write(&file, vec![1; 5_000_000]).unwrap();
    let file = file.to_str().unwrap();
    let moved = run(["--json", "move", file, "--node", "0"]).ok().json();
    assert_eq!(
        (&moved["kind"], &moved["files"]),
        (&"files".into(), &1.into())
    );
    assert_eq!(moved["there_bytes"], 5_001_216, "{moved}");
}

#[test]
fn what_is_wrong_is_one_line_with_a_hint() {
    let file = "/etc/passwd";
    let own = std::process::id().to_string();
    for (status, command, words) in [
        (2, vec![file], ["--node", "--spread"]),
        (2, vec!["--node", "0"], ["FILE", "--pid"]),
        (
            2,
            vec![file, "--pid", &own, "--node", "0"],
            ["FILE", "--pid"],
        ),
        (2, vec!["--pid", "x", "--node", "0"], ["--pid", "--help"]),
        (
            2,
            vec!["--pid", &own, "--node", "999"],
            ["no memory at node 999", "egeria machine"],
        ),
        (
            2,
            vec!["--pid", &own, "--spread", "--max", "much"],
            ["\"much\" is no size", "64M"],
        ),
        (
            1,
            vec!["--pid", "4294967295", "--spread"],
            ["there is no process 4294967295", "ps"],
        ),
        (
            1,
            vec!["/dev/null", "--spread"],
            ["/dev/null", "not a regular file"],
        ),
    ] {
        finish(egeria(["move"].iter().chain(&command))).refused(status, &words);
    }
    if is_root() && has_numa_maps() {
        let refused = finish(as_nobody(["move", "--pid", &own, "--spread"]));
        refused.refused(1, &[&own, "run as root"]);
    }
}
