//! A tree that makes no sense gives one line that names the file and the hint; a device that
//! makes no sense costs a warning.

use std::fs;
use std::path::Path;

use egeria_machine::{Machine, MachineError, Source};
use proptest::prelude::*;
use tempfile::TempDir;

const NODE: &str = "sys/devices/system/node/node0";

fn put(root: &Path, path: &str, content: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("paths here have parents")).expect("mkdir");
    fs::write(path, content).expect("write");
}

/// A small good machine with one of everything.
fn good_tree() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = directory.path();
    for (path, content) in [
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("sys/devices/system/node/node0/distance", "10 20\n"),
        (
            "sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal: 4096 kB\n",
        ),
        (
            "sys/devices/system/node/node0/access0/initiators/read_bandwidth",
            "1000\n",
        ),
        (
            "sys/devices/system/node/node0/access0/initiators/write_bandwidth",
            "1000\n",
        ),
        (
            "sys/devices/system/node/node0/access0/initiators/read_latency",
            "100\n",
        ),
        (
            "sys/devices/system/node/node0/access0/initiators/write_latency",
            "100\n",
        ),
        ("sys/devices/system/node/node1/cpulist", "2-3\n"),
        ("sys/devices/system/node/node1/distance", "20 10\n"),
        (
            "sys/devices/system/node/node1/meminfo",
            "Node 1 MemTotal: 4096 kB\n",
        ),
        ("sys/bus/nd/devices/region0/size", "1048576\n"),
        ("sys/bus/nd/devices/region0/numa_node", "1\n"),
        (
            "sys/bus/nd/devices/region0/persistence_domain",
            "cpu_cache\n",
        ),
        ("sys/bus/dax/devices/dax0.0/size", "1048576\n"),
        ("sys/bus/dax/devices/dax0.0/target_node", "0\n"),
        ("sys/bus/dax/devices/dax0.0/align", "4096\n"),
        ("sys/bus/cxl/devices/mem0/pmem/size", "0x100000\n"),
        ("sys/bus/cxl/devices/mem0/numa_node", "-1\n"),
        ("proc/meminfo", "MemTotal: 8192 kB\nMemFree: 4096 kB\n"),
    ] {
        put(root, path, content.as_bytes());
    }
    directory
}

/// The one line the tree gets when a file holds this.
fn error_with(path: &str, content: &[u8]) -> String {
    let tree = good_tree();
    put(tree.path(), path, content);
    let error = Machine::from_sysfs(tree.path()).expect_err("nonsense must be refused");
    let line = error.to_string();
    assert!(!line.contains('\n'), "more than one line: {line:?}");
    assert!(
        line.contains(tree.path().to_str().expect("UTF-8")),
        "names no file: {line}"
    );
    assert!(
        line.contains("check the machine's firmware"),
        "names no hint: {line}"
    );
    line
}

/// The machine and its only warning when a file holds this.
fn warning_with(path: &str, content: &[u8]) -> (Machine, String) {
    let tree = good_tree();
    put(tree.path(), "sys/bus/cxl/devices/mem0/numa_node", b"0\n");
    put(tree.path(), path, content);
    let machine = Machine::from_sysfs(tree.path()).expect("an odd device is no error");
    assert_eq!(machine.warnings.len(), 1, "{:?}", machine.warnings);
    let warning = machine.warnings[0].clone();
    assert!(warning.contains(path), "names no file: {warning}");
    (machine, warning)
}

#[test]
fn cpu_lists_that_make_no_sense_are_refused() {
    for (content, complaint) in [
        ("3-1", "the range 3-1 runs backwards"),
        ("0-99999999999999999999", "beyond the largest number, 8191"),
        ("0-4294967295", "beyond the largest number"),
        ("zero", "\"zero\" is not a number"),
        ("0,,1", "\"\" is not a number"),
        ("-1", "\"\" is not a number"),
        ("0-1-2", "\"1-2\" is not a number"),
    ] {
        let line = error_with(&format!("{NODE}/cpulist"), content.as_bytes());
        assert!(line.contains(complaint), "{content}: {line}");
        assert!(line.contains("node0/cpulist"), "{line}");
    }
}

#[test]
fn a_cpu_in_two_nodes_is_refused() {
    let line = error_with(&format!("{NODE}/cpulist"), b"0-2\n");
    assert!(line.contains("CPU 2 is also in node 0"), "{line}");
}

#[test]
fn distances_that_make_no_sense_are_refused() {
    for (content, complaint) in [
        ("10", "1 distances for 2 nodes"),
        ("10 20 30", "3 distances for 2 nodes"),
        ("10 x", "\"x\" is not a distance"),
        ("20 10", "20 from a node to itself"),
        ("10 0", "0 is no distance"),
        ("10 -5", "\"-5\" is not a distance"),
    ] {
        let line = error_with(&format!("{NODE}/distance"), content.as_bytes());
        assert!(line.contains(complaint), "{content}: {line}");
    }
}

#[test]
fn memory_sizes_that_make_no_sense_are_refused() {
    for content in [
        "Node 0 MemTotal: -1 kB",
        "Node 0 MemTotal: 18446744073709551615 kB",
        "Node 0 MemTotal: 9007199254740992 kB",
        "Node 0 MemTotal:",
        "Node 0 MemTotal: 5 MB",
        "nothing of the kind",
    ] {
        let line = error_with(&format!("{NODE}/meminfo"), content.as_bytes());
        assert!(line.contains("MemTotal"), "{content}: {line}");
    }
}

#[test]
fn a_node_without_memory_is_not_one_of_unknown_size() {
    let tree = good_tree();
    let (root, node) = (tree.path(), "sys/devices/system/node/node1");
    put(root, &format!("{node}/meminfo"), b"Node 1 MemTotal: 0 kB\n");
    put(root, &format!("{node}/cpulist"), b"\n");
    let machine = Machine::from_sysfs(root).expect("a node may have nothing");
    assert_eq!(machine.nodes[1].memory(), Some(0));
    let (picture, table) = (machine.picture(), machine.table());
    assert!(
        picture.contains("no memory") && picture.contains("no CPUs"),
        "{picture}"
    );
    assert!(!picture.contains("unknown"), "{picture}");
    assert_eq!(table.rows[1][1..3], ["none", "none"]);
    let again = Machine::from_toml(&machine.to_toml(), "again".as_ref()).expect("as written");
    assert_eq!(again.nodes[1].memory(), Some(0));
    fs::remove_file(root.join(node).join("meminfo")).expect("it is there");
    let machine = Machine::from_sysfs(root).expect("the size may be unknown");
    assert_eq!(machine.nodes[1].memory(), None);
    assert!(machine.picture().contains("memory unknown"));
}

#[test]
fn files_that_are_not_text_or_too_large_are_refused() {
    let line = error_with(&format!("{NODE}/cpulist"), b"0-1\xff\xfe");
    assert!(line.contains("it is not UTF-8 text"), "{line}");
    let line = error_with(&format!("{NODE}/cpulist"), &[b'1'; 100_000]);
    assert!(line.contains("it is larger than 65536 bytes"), "{line}");
}

#[test]
fn a_missing_cpu_list_is_refused_and_a_missing_extra_is_not() {
    let tree = good_tree();
    fs::remove_file(tree.path().join(NODE).join("distance")).expect("rm");
    fs::remove_file(tree.path().join(NODE).join("meminfo")).expect("rm");
    let machine = Machine::from_sysfs(tree.path()).expect("both have a default");
    assert_eq!(machine.distances, [[10, 20], [20, 10]]);
    assert_eq!(
        (machine.nodes[0].memory_bytes, machine.nodes[0].free_bytes),
        (0, None)
    );
    let told = |what: &str| {
        machine
            .warnings
            .iter()
            .any(|warning| warning.contains(what))
    };
    assert!(told("node0/distance: not there") && told("node0/meminfo: not there"));

    fs::remove_file(tree.path().join(NODE).join("cpulist")).expect("rm");
    let error = Machine::from_sysfs(tree.path()).expect_err("no cpulist");
    assert!(matches!(&error, MachineError::Unreadable { path, .. } if path.ends_with("cpulist")));
}

#[test]
fn a_root_without_a_tree_says_which_directory_to_give() {
    let empty = tempfile::tempdir().expect("a temporary directory");
    let line = Machine::from_sysfs(empty.path())
        .expect_err("nothing there")
        .to_string();
    assert!(line.contains("sys/devices/system/cpu/online"), "{line}");
    assert!(
        line.ends_with("give --sysfs-root the directory that contains sys and proc"),
        "{line}"
    );
}

#[test]
fn too_many_nodes_are_refused() {
    let tree = good_tree();
    for node in 2..=64 {
        put(
            tree.path(),
            &format!("sys/devices/system/node/node{node}/cpulist"),
            b"\n",
        );
    }
    let line = Machine::from_sysfs(tree.path())
        .expect_err("65 nodes")
        .to_string();
    assert!(line.contains("65 nodes are more than 64"), "{line}");
}

#[test]
fn hmat_figures_that_make_no_sense_cost_only_themselves() {
    let path = "sys/devices/system/node/node0/access0/initiators/read_latency";
    let (machine, warning) = warning_with(path, b"fast");
    assert_eq!(machine.nodes[0].bandwidth, None);
    assert!(
        warning.contains("\"fast\" is not a number; it is ignored"),
        "{warning}"
    );
}

#[test]
fn unknown_hmat_figures_are_none_without_a_word() {
    let tree = good_tree();
    put(tree.path(), "sys/bus/cxl/devices/mem0/numa_node", b"0\n");
    put(
        tree.path(),
        &format!("{NODE}/access0/initiators/read_bandwidth"),
        b"0\n",
    );
    let machine = Machine::from_sysfs(tree.path()).expect("a good tree");
    assert_eq!(
        (&machine.nodes[0].bandwidth, machine.warnings.len()),
        (&None, 0)
    );
}

#[test]
fn a_region_of_nonsense_size_is_left_out() {
    for content in ["-4096", "many", "18446744073709551615"] {
        let (machine, _) = warning_with("sys/bus/nd/devices/region0/size", content.as_bytes());
        assert_eq!(machine.nodes[1].persistent_regions, []);
    }
}

#[test]
fn a_device_of_an_offline_node_is_left_out() {
    let tree = good_tree();
    put(tree.path(), "sys/bus/cxl/devices/mem0/numa_node", b"0\n");
    put(tree.path(), "sys/bus/nd/devices/region0/numa_node", b"7\n");
    let machine = Machine::from_sysfs(tree.path()).expect("a good tree");
    assert_eq!(machine.nodes[1].persistent_regions, []);
    assert!(machine.warnings[0].ends_with("region0: its node is not online; it is left out"));
}

#[test]
fn a_device_without_a_node_goes_to_the_first() {
    let machine = Machine::from_sysfs(good_tree().path()).expect("a good tree");
    let names: Vec<&str> = machine.nodes[0]
        .persistent_regions
        .iter()
        .map(|region| region.name.as_str())
        .collect();
    assert_eq!(names, ["dax0.0", "mem0"]);
    assert!(machine.warnings[0].ends_with("mem0: names no node; it is taken as node 0's"));
}

const FILES: [&str; 12] = [
    "sys/devices/system/cpu/online",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/distance",
    "sys/devices/system/node/node0/meminfo",
    "sys/devices/system/node/node0/access0/initiators/read_bandwidth",
    "sys/devices/system/node/node0/access0/initiators/write_latency",
    "sys/bus/nd/devices/region0/size",
    "sys/bus/nd/devices/region0/persistence_domain",
    "sys/bus/dax/devices/dax0.0/target_node",
    "sys/bus/dax/devices/dax0.0/align",
    "sys/bus/cxl/devices/mem0/pmem/size",
    "proc/meminfo",
];

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..64),
        "[0-9,\\- \n]{0,24}".prop_map(String::into_bytes),
        "(Node 0 )?Mem(Total|Free): +[0-9-]{0,22} (kB|MB)?\n?".prop_map(String::into_bytes),
        "(-|0x)?[0-9a-f]{0,20}\n?".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever a few files hold, the answer is a machine that can be drawn, tabled and written
    /// down again, or an error of one line.
    #[test]
    fn garbage_never_panics_and_never_makes_a_broken_machine(
        damage in proptest::collection::vec((0..FILES.len(), content()), 1..4),
        without_nodes in proptest::bool::weighted(0.2),
    ) {
        let tree = good_tree();
        for (file, content) in &damage {
            put(tree.path(), FILES[*file], content);
        }
        if without_nodes {
            fs::remove_dir_all(tree.path().join("sys/devices/system/node")).expect("rm -r");
        }
        match Machine::from_sysfs(tree.path()) {
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
            Ok(machine) => {
                prop_assert!(machine.picture().lines().all(|line| line.chars().count() <= 100));
                prop_assert_eq!(machine.table().rows.len(), machine.nodes.len());
                let mut again = Machine::from_toml(&machine.to_toml(), Path::new("again"))
                    .map_err(|error| TestCaseError::fail(error.to_string()))?;
                again.source = Source::Sysfs(tree.path().into());
                again.warnings.clone_from(&machine.warnings);
                prop_assert_eq!(again, machine);
            }
        }
    }
}
