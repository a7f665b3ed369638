//! `egeria machine` on captured trees of real shapes, on profiles, and on nonsense.

use crate::common;

use std::path::PathBuf;

use common::{Sandbox, run};
use serde_json::{Value, json};

fn tree(name: &str) -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../base/machine/tests/sysfs"
    ))
    .join(name)
}

fn shown(name: &str) -> Value {
    run([
        "machine",
        "--json",
        "--sysfs-root",
        tree(name).to_str().unwrap(),
    ])
    .ok()
    .json()
}

fn nodes(machine: &Value) -> &Vec<Value> {
    machine["nodes"].as_array().unwrap()
}

#[test]
fn captured_trees_give_their_nodes_as_json() {
    for (name, count) in [("one-node", 1), ("two-node-nvdimm", 2), ("eight-node", 8)] {
        let machine = shown(name);
        assert_eq!(nodes(&machine).len(), count, "{name}");
        assert_eq!(
            machine["distances"].as_array().unwrap().len(),
            count,
            "{name}"
        );
        assert!(machine["emulated"].is_null(), "{name}");
    }
}

#[test]
fn nvdimms_are_shown_on_their_nodes() {
    let machine = shown("two-node-nvdimm");
    for node in nodes(&machine) {
        let regions = node["persistent_regions"].as_array().unwrap();
        let nvdimm = regions
            .iter()
            .find(|region| region["kind"] == "nvdimm")
            .unwrap();
        assert!(nvdimm["bytes"].as_u64().unwrap() > 0, "{node}");
    }
}

#[test]
fn a_node_without_cpus_is_a_node() {
    let machine = shown("cxl-cpuless");
    let without = nodes(&machine)
        .iter()
        .filter(|node| node["cpus"].as_array().unwrap().is_empty());
    assert_eq!(without.count(), 1);
}

#[test]
fn groups_of_near_nodes_are_shown() {
    let machine = shown("cxl-cpuless");
    assert_eq!(machine["groups_from"], "distances");
    assert_eq!(
        machine["groups"],
        json!([{"nodes": [0, 2]}, {"nodes": [1]}])
    );
    let profile = run(["machine", "--json", "--machine", "epyc-2s-nps4"]);
    let machine = profile.ok().json();
    let socket = json!({"socket": 1, "nodes": [4, 5, 6, 7]});
    assert_eq!(
        (&machine["groups_from"], &machine["groups"][1]),
        (&json!("sockets"), &socket)
    );
    assert_eq!(machine["nodes"][7]["socket"], 1);
}

#[test]
fn people_get_a_picture_and_a_table() {
    let tree = tree("two-node-nvdimm");
    let text = run(["machine", "--sysfs-root", tree.to_str().unwrap()])
        .ok()
        .stdout;
    for part in ["┌─ node 0", "┌─ node 1", "persistent memory", "distances"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_profile_is_labelled_emulated() {
    let machine = run(["machine", "--json", "--machine", "optane-2s"])
        .ok()
        .json();
    assert_eq!(machine["name"], "optane-2s");
    assert_eq!(machine["emulated"]["nodes"].as_array().unwrap().len(), 2);
    assert!(
        run(["machine", "--machine", "optane-2s"])
            .ok()
            .stdout
            .contains("emulated")
    );
}

#[test]
fn a_machine_printed_as_toml_reads_back_as_itself() {
    let sandbox = Sandbox::new();
    let text = run(["machine", "--machine", "optane-2s", "--toml"])
        .ok()
        .stdout;
    let file = sandbox.file("copy.toml", &text);
    let copy = run(["machine", "--json", "--machine", file.to_str().unwrap()])
        .ok()
        .json();
    let original = run(["machine", "--json", "--machine", "optane-2s"])
        .ok()
        .json();
    for field in ["name", "nodes", "distances", "emulated"] {
        assert_eq!(copy[field], original[field], "{field}");
    }
}

#[test]
fn a_machine_file_with_nonsense_is_one_line() {
    let sandbox = Sandbox::new();
    let cases = [
        ("not toml at all [", "line 1"),
        ("name = \"x\"\nbogus = 1\n", "bogus"),
        ("name = \"x\"\nnodes = []\n", "nodes"),
        (
            "name = \"x\"\n[[nodes]]\nid = 0\ncpus = \"0-99999999\"\n",
            "cpus",
        ),
        ("\u{1b}[2J\u{0}", ""),
        ("", ""),
    ];
    for (index, (text, word)) in cases.into_iter().enumerate() {
        let file = sandbox.file(&format!("{index}.toml"), text);
        let name = file.to_str().unwrap();
        run(["machine", "--machine", name]).refused(1, &[name, word]);
    }
}

#[test]
fn an_unknown_profile_or_missing_file_is_one_line() {
    run(["machine", "--machine", "optane-9s"]).refused(1, &["optane-9s", "optane-2s"]);
    run(["machine", "--machine", "/no/such.toml"]).refused(1, &["/no/such.toml"]);
    run(["machine", "--machine", "/dev/zero"]).refused(1, &["/dev/zero"]);
    run(["machine", "--sysfs-root", "/no/such"]).refused(1, &["/no/such"]);
}

#[test]
fn a_real_machine_has_nothing_to_self_test() {
    run(["machine", "--self-test"]).refused(1, &["--machine optane-2s"]);
}
