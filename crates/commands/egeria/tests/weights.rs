//! `egeria weights` on made trees of the kernel's files.

use crate::common;

use std::fs;
use std::process::Command;

use common::{Sandbox, egeria, finish};
use egeria_harness::testing::Ended;
use serde_json::{Value, json};

const WEIGHTS: &str = "root/sys/kernel/mm/mempolicy/weighted_interleave";

/// Two nodes, the second with a third of the bandwidth as firmware says; the kernel's weights are 1.
struct Tree(Sandbox);

impl Tree {
    fn new() -> Tree {
        let tree = Tree(Sandbox::new());
        for (node, bandwidth) in [(0, 60_000), (1, 20_000)] {
            let below = format!("root/sys/devices/system/node/node{node}");
            tree.file(&format!("{below}/cpulist"), &format!("{node}\n"));
            let row = if node == 0 { "10 21\n" } else { "21 10\n" };
            tree.file(&format!("{below}/distance"), row);
            tree.file(
                &format!("{below}/meminfo"),
                &format!("Node {node} MemTotal: 4096 kB\n"),
            );
            let access = format!("{below}/access0/initiators");
            for (name, value) in [
                ("read_bandwidth", bandwidth),
                ("write_bandwidth", bandwidth),
                ("read_latency", 100),
                ("write_latency", 100),
            ] {
                tree.file(&format!("{access}/{name}"), &format!("{value}\n"));
            }
            tree.file(&format!("{WEIGHTS}/node{node}"), "1\n");
        }
        tree.file("root/sys/devices/system/cpu/online", "0-1\n");
        tree.file("root/proc/sys/kernel/random/boot_id", "first\n");
        tree
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn weight(&self, name: &str) -> String {
        let path = self.0.path(&format!("{WEIGHTS}/{name}"));
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    fn both(&self) -> [String; 2] {
        [self.weight("node0"), self.weight("node1")]
    }

    fn command(&self, words: &[&str]) -> Command {
        let root = self.0.path("root");
        let mut command =
            egeria([&["weights", "--sysfs-root", root.to_str().unwrap()], words].concat());
        command.env("EGERIA_STATE_DIR", self.0.path("state"));
        command
    }

    fn run(&self, words: &[&str]) -> Ended {
        finish(self.command(words))
    }

    fn shown(&self) -> Value {
        self.run(&["--json"]).ok().json()
    }
}

#[test]
fn weights_are_shown_set_and_restored() {
    let tree = Tree::new();
    let before = json!({
        "auto": null,
        "can_restore": false,
        "nodes": [
            {"node": 0, "kernel": 1, "proposed": 3},
            {"node": 1, "kernel": 1, "proposed": 1},
        ],
    });
    assert_eq!(tree.shown(), before);
    let text = tree.run(&["set"]).ok().stdout;
    assert!(text.contains("egeria weights restore"), "{text}");
    assert_eq!(tree.both(), ["3", "1"]);
    tree.run(&["restore"]).ok();
    assert_eq!(
        (tree.both(), tree.shown()),
        (["1".to_owned(), "1".to_owned()], before)
    );
    tree.run(&["restore"]).refused(1, &["nothing to restore"]);
}

/// What was there is what was there before the first `set`.
#[test]
fn weights_set_twice_are_restored_to_the_first() {
    let tree = Tree::new();
    tree.file(&format!("{WEIGHTS}/node1"), "7\n");
    tree.run(&["set"]).ok();
    let from = tree.0.path("root").join("even.toml");
    let memory = "[[nodes.memories]]\nkind = \"dram\"\nread_bytes_s = 1e9\nwrite_bytes_s = 1e9\n\
                  read_stream_bytes_s = 1e9\nwrite_stream_bytes_s = 1e9\nread_latency_ns = 90.0\nwrite_latency_ns = 90.0\n";
    let text = format!(
        "name = \"even\"\n[[nodes]]\nid = 0\ncpus = \"0\"\n{memory}[[nodes]]\nid = 1\ncpus = \"1\"\n{memory}"
    );
    fs::write(&from, text).unwrap();
    tree.run(&["set", "--from", from.to_str().unwrap()]).ok();
    assert_eq!(tree.both(), ["1", "1"]);
    tree.run(&["restore"]).ok();
    assert_eq!(tree.both(), ["1", "7"]);
}

#[test]
fn firmware_chooses_again_where_it_chose_before() {
    let tree = Tree::new();
    tree.file(&format!("{WEIGHTS}/auto"), "true\n");
    assert_eq!(tree.shown()["auto"], true);
    tree.run(&["set"]).ok();
    // As the kernel does when a weight is written.
    tree.file(&format!("{WEIGHTS}/auto"), "false\n");
    tree.run(&["restore"]).ok();
    assert_eq!(tree.weight("auto"), "true");
}

/// The kernel forgets weights with each start: what was kept before is not what was there.
#[test]
fn weights_kept_before_a_boot_are_not_restored() {
    let tree = Tree::new();
    tree.run(&["set"]).ok();
    tree.file("root/proc/sys/kernel/random/boot_id", "second\n");
    tree.run(&["restore"]).refused(1, &["nothing to restore"]);
    tree.file(&format!("{WEIGHTS}/node0"), "5\n");
    tree.run(&["set"]).ok();
    tree.run(&["restore"]).ok();
    assert_eq!(tree.weight("node0"), "5");
}

#[test]
fn what_prevents_weights_is_one_line() {
    let tree = Tree::new();
    fs::remove_file(tree.0.path(&format!("{WEIGHTS}/node1"))).unwrap();
    tree.run(&["set"]).refused(1, &["no weight of node 1"]);
    assert_eq!(tree.weight("node0"), "1");
    fs::remove_dir_all(tree.0.path(WEIGHTS)).unwrap();
    tree.run(&["set"]).refused(1, &["Linux 6.9", "--spread"]);
    tree.run(&["restore"]).refused(1, &["Linux 6.9"]);
    let tree = Tree::new();
    fs::remove_dir_all(tree.0.path("root/sys/devices/system/node/node1/access0")).unwrap();
    tree.run(&["set"])
        .refused(1, &["not known", "machine calibrate"]);
    tree.file("state/weights.json", "{}\n");
    tree.run(&["restore"])
        .refused(1, &["weights.json", "remove the file"]);
}
