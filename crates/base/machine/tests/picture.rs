//! The picture of every machine fits a terminal and shows every node.

use crate::sysfs_trees::TREES;

use std::path::{Path, PathBuf};

use egeria_machine::{CpuId, Machine, NodeId};

fn tree(name: &str) -> Machine {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sysfs")
        .join(name);
    Machine::from_sysfs(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A profile standing on two CPUs, whatever the host has.
fn profile(name: &str) -> Machine {
    let text = match name {
        "optane-2s" => include_str!("../profiles/optane-2s.toml"),
        "optane-1s-dimc" => include_str!("../profiles/optane-1s-dimc.toml"),
        "epyc-2s-cxl" => include_str!("../profiles/epyc-2s-cxl.toml"),
        _ => include_str!("../profiles/dram-2s.toml"),
    };
    let machine = Machine::from_toml(text, name.as_ref()).expect("it ships with Egeria");
    machine.stand_on_cpus(&[CpuId(0), CpuId(1)])
}

/// As many nodes as there may be, with gaps in their numbers and long, scattered CPU lists.
fn large(count: u16) -> Machine {
    let node = |index: u16| {
        let cpus: Vec<String> = (0..40)
            .map(|step| (index + step * count * 2).to_string())
            .collect();
        format!(
            "[[nodes]]\nid = {}\ncpus = \"{}\"\n",
            65_472 + index,
            cpus.join(",")
        )
    };
    let nodes: String = (0..count).map(node).collect();
    let name = "ñ".repeat(64);
    let text = format!("name = \"{name}\"\n{nodes}");
    Machine::from_toml(&text, "large.toml".as_ref()).unwrap_or_else(|error| panic!("{error}"))
}

fn check(machine: &Machine) {
    let picture = machine.picture();
    for line in picture.lines() {
        assert!(line.chars().count() <= 100, "too wide: {line}");
        assert!(!line.chars().any(char::is_control));
    }
    for node in &machine.nodes {
        let title = format!("┌─ node {} ", node.id.0);
        assert_eq!(picture.matches(&title).count(), 1, "{title}\n{picture}");
    }
    assert!(picture.ends_with('\n'));
}

#[test]
fn every_picture_fits_and_shows_every_node_once() {
    for name in TREES {
        check(&tree(name));
    }
    check(&profile("optane-2s"));
    check(&profile("dram-2s"));
    for name in Machine::profile_names() {
        check(&Machine::profile(name).expect("it ships with Egeria"));
    }
    [1, 5, 16, 17, 64]
        .into_iter()
        .for_each(|count| check(&large(count)));
}

#[test]
fn pictures_look_like_this() {
    for (machine, expected) in [
        (
            tree("two-node-nvdimm"),
            include_str!("pictures/two-node-nvdimm.txt"),
        ),
        (tree("eight-node"), include_str!("pictures/eight-node.txt")),
        (
            tree("cxl-cpuless"),
            include_str!("pictures/cxl-cpuless.txt"),
        ),
        (profile("optane-2s"), include_str!("pictures/optane-2s.txt")),
        (
            profile("optane-1s-dimc"),
            include_str!("pictures/optane-1s-dimc.txt"),
        ),
        (
            profile("epyc-2s-cxl"),
            include_str!("pictures/epyc-2s-cxl.txt"),
        ),
    ] {
        assert_eq!(machine.picture(), expected, "\n{}", machine.picture());
    }
}

/// A row of the table says of each memory what it is; a node's own medium and firmware's word need none.
#[test]
fn the_table_has_a_line_for_each_memory() {
    let read = |name: &str| profile(name).table().rows[0][5].clone();
    assert_eq!(
        read("optane-1s-dimc"),
        "DRAM 60.0 GB/s 75 ns\nPM 6.80 GB/s 305 ns"
    );
    assert_eq!(read("optane-2s"), "6.80 GB/s 305 ns\nDRAM 20.0 GB/s 60 ns");
    assert_eq!(
        profile("epyc-2s-cxl").table().rows[2][6],
        "CXL 47.1 GB/s 245 ns"
    );
    assert_eq!(tree("eight-node").table().rows[0][5], "-");
}

#[test]
fn a_node_without_cpus_is_drawn_as_memory_only() {
    let picture = tree("cxl-cpuless").picture();
    assert_eq!(picture.matches("memory only").count(), 1);
    assert!(!tree("eight-node").picture().contains("memory only"));
}

#[test]
fn distances_beyond_a_matrix_are_told_in_words() {
    let picture = large(17).picture();
    assert!(
        picture.contains("  node 65472: 10 to 65472; 20 to 65473-65488\n"),
        "{picture}"
    );
}

#[test]
fn unequal_distances_are_marked_and_tabled() {
    let mut machine = profile("optane-2s");
    machine.distances = vec![vec![10, 30], vec![21, 10]];
    let picture = machine.picture();
    assert!(
        picture.contains("≠") && picture.contains("  0          10   30\n"),
        "{picture}"
    );
}

#[test]
fn a_machine_put_together_badly_is_still_drawn() {
    let mut machine = profile("optane-2s");
    machine.distances.clear();
    machine.nodes[1].id = NodeId(u16::MAX);
    if let Some(emulated) = &mut machine.emulated {
        emulated.nodes.clear();
    }
    check(&machine);
    assert_eq!(machine.table().rows.len(), 2);
    machine.nodes.clear();
    check(&machine);
}
