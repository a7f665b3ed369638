//! Which nodes are near each other: from sockets, from distances, and on odd machines.

use std::fs;
use std::path::Path;

use egeria_machine::{GroupSource, Machine};
use tempfile::TempDir;

/// A machine file of nodes with one CPU each, but for those that are listed.
fn machine(distances: &[&[u32]], without_cpus: &[usize]) -> Machine {
    let mut text = format!("name = \"made\"\ndistances = {distances:?}\n");
    for node in 0..distances.len() {
        let cpus = if without_cpus.contains(&node) {
            String::new()
        } else {
            format!("cpus = \"{node}\"\n")
        };
        text += &format!("[[nodes]]\nid = {node}\n{cpus}memory_bytes = 1_000_000\n");
    }
    Machine::from_toml(&text, Path::new("made.toml")).unwrap()
}

/// The nodes of each group.
fn groups(machine: &Machine) -> Vec<Vec<u16>> {
    let groups = machine.list_groups().into_iter();
    let ids = groups.map(|group| group.nodes.iter().map(|node| node.0).collect());
    ids.collect()
}

#[test]
fn distances_tell_sockets_of_several_nodes() {
    let rome: [&[u32]; 4] = [
        &[10, 12, 32, 32],
        &[12, 10, 32, 32],
        &[32, 32, 10, 12],
        &[32, 32, 12, 10],
    ];
    let machine = machine(&rome, &[]);
    assert_eq!(groups(&machine), [[0, 1], [2, 3]]);
    let groups = machine.groups();
    assert_eq!(groups.source, GroupSource::Distances);
    assert!(groups.are_near(0, 1) && !groups.are_near(1, 2) && groups.are_near(2, 2));
    assert_eq!(groups.members(1).collect::<Vec<_>>(), [2, 3]);
}

/// The kernel's matrix of SNC4 has two steps within a socket.
#[test]
fn the_widest_step_between_distances_counts() {
    let mut rows = vec![vec![21; 8]; 8];
    for (from, row) in rows.iter_mut().enumerate() {
        for (to, distance) in row.iter_mut().enumerate() {
            match (from == to, from / 2 == to / 2, from / 4 == to / 4) {
                (true, ..) => *distance = 10,
                (_, true, _) => *distance = 11,
                (_, _, true) => *distance = 12,
                _ => {}
            }
        }
    }
    let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    assert_eq!(groups(&machine(&rows, &[])), [[0, 1, 2, 3], [4, 5, 6, 7]]);
}

#[test]
fn nodes_of_which_none_are_near_are_groups_of_one() {
    assert_eq!(groups(&machine(&[&[10, 20], &[20, 10]], &[])), [[0], [1]]);
    assert_eq!(groups(&machine(&[&[10]], &[])), [[0]]);
    // A ring: each is near two others, which are not near each other.
    let ring: [&[u32]; 4] = [
        &[10, 20, 30, 20],
        &[20, 10, 20, 30],
        &[30, 20, 10, 20],
        &[20, 30, 20, 10],
    ];
    assert_eq!(groups(&machine(&ring, &[])), [[0], [1], [2], [3]]);
    // One way is short, the other is not.
    let uneven: [&[u32]; 3] = [&[10, 12, 40], &[40, 10, 40], &[40, 40, 10]];
    assert_eq!(groups(&machine(&uneven, &[])), [[0], [1], [2]]);
}

#[test]
fn a_node_without_cpus_belongs_to_the_nearest_group() {
    let with_expanders: [&[u32]; 4] = [
        &[10, 32, 60, 50],
        &[32, 10, 50, 60],
        &[60, 50, 10, 60],
        &[50, 60, 60, 10],
    ];
    assert_eq!(groups(&machine(&with_expanders, &[2, 3])), [[0, 3], [1, 2]]);
    let cxl = Machine::profile("epyc-2s-cxl").unwrap();
    assert_eq!(groups(&cxl), [[0, 2], [1, 3]]);
}

#[test]
fn a_file_may_say_sockets() {
    let bulldozer = Machine::profile("bulldozer-8n").unwrap();
    assert_eq!(groups(&bulldozer), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert_eq!(bulldozer.groups().source, GroupSource::Sockets);
    assert_eq!(bulldozer.list_groups()[3].socket, Some(3));
    for name in ["epyc-2s-nps4", "xeon-2s-snc4"] {
        let mut machine = Machine::profile(name).unwrap();
        assert_eq!(groups(&machine), [[0, 1, 2, 3], [4, 5, 6, 7]], "{name}");
        let again = Machine::from_toml(&machine.to_toml(), Path::new("again")).unwrap();
        assert_eq!(again.groups(), machine.groups());
        // Distances say the same.
        machine.nodes.iter_mut().for_each(|node| node.socket = None);
        assert_eq!(groups(&machine), [[0, 1, 2, 3], [4, 5, 6, 7]], "{name}");
    }
}

#[test]
fn sockets_of_some_nodes_only_do_not_count() {
    let mut machine = Machine::profile("epyc-2s-nps4").unwrap();
    machine.nodes[7].socket = None;
    assert_eq!(machine.groups().source, GroupSource::Distances);
}

#[test]
fn the_picture_has_groups_of_several_nodes() {
    let picture = Machine::profile("epyc-2s-nps4").unwrap().picture();
    assert!(picture.contains("groups\n  socket 0: nodes 0-3\n  socket 1: nodes 4-7\n"));
    let plain = Machine::profile("xeon-2s-dram").unwrap().picture();
    assert!(!plain.contains("groups"), "{plain}");
}

/// Nodes of the kernel's files: number, CPUs, and the package of each CPU.
fn tree(nodes: &[(u16, &[(u16, &str)])]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let put = |path: String, text: String| {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let all: Vec<String> = nodes
        .iter()
        .flat_map(|(_, cpus)| cpus.iter().map(|(cpu, _)| cpu.to_string()))
        .collect();
    put("sys/devices/system/cpu/online".into(), all.join(",") + "\n");
    for (index, (node, cpus)) in nodes.iter().enumerate() {
        let below = format!("sys/devices/system/node/node{node}");
        let list: Vec<String> = cpus.iter().map(|(cpu, _)| cpu.to_string()).collect();
        put(format!("{below}/cpulist"), list.join(",") + "\n");
        let row = (0..nodes.len()).map(|to| if to == index { "10" } else { "20" });
        put(
            format!("{below}/distance"),
            row.collect::<Vec<_>>().join(" "),
        );
        put(
            format!("{below}/meminfo"),
            format!("Node {node} MemTotal: 4096 kB\n"),
        );
        for (cpu, package) in cpus.iter().filter(|(_, package)| !package.is_empty()) {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            put(path, format!("{package}\n"));
        }
    }
    directory
}

fn read(tree: &TempDir) -> Machine {
    Machine::from_sysfs(tree.path()).unwrap()
}

#[test]
fn the_kernel_says_which_socket_a_node_is_in() {
    let packages: [(u16, &[(u16, &str)]); 4] = [
        (0, &[(0, "1"), (1, "1")]),
        (1, &[(2, "1")]),
        (2, &[(3, "36")]),
        (3, &[(4, "36")]),
    ];
    let machine = read(&tree(&packages));
    assert_eq!(machine.warnings, [""; 0]);
    assert_eq!(groups(&machine), [[0, 1], [2, 3]]);
    assert_eq!(machine.list_groups()[1].socket, Some(36));
}

/// Numbers with gaps, a node without CPUs, and one whose CPUs are all offline, which the kernel shows alike.
#[test]
fn sparse_numbers_and_nodes_without_cpus_have_groups() {
    let machine = read(&tree(&[
        (0, &[(0, "0")]),
        (8, &[(64, "1")]),
        (252, &[]),
        (255, &[]),
    ]));
    assert_eq!(groups(&machine), [vec![0, 252, 255], vec![8]]);
}

#[test]
fn packages_that_make_no_sense_leave_distances() {
    // Unknown, of several sockets, no number, and none at all.
    for second in [
        &[(1u16, "-1")][..],
        &[(1, "0"), (2, "1")],
        &[(1, "x")],
        &[(1, "")],
    ] {
        let machine = read(&tree(&[(0, &[(0, "0")]), (1, second)]));
        assert_eq!(
            machine.groups().source,
            GroupSource::Distances,
            "{second:?}"
        );
        assert_eq!(groups(&machine), [[0], [1]]);
    }
}

#[test]
fn sixty_four_nodes_have_groups() {
    let name: Vec<String> = (0..64).map(|node: u16| (node / 4).to_string()).collect();
    let cpus: Vec<[(u16, &str); 1]> = (0..64)
        .map(|node| [(node, &*name[usize::from(node)])])
        .collect();
    let nodes: Vec<(u16, &[(u16, &str)])> =
        (0u16..).zip(cpus.iter().map(|cpus| &cpus[..])).collect();
    let machine = read(&tree(&nodes));
    assert_eq!(machine.groups().count(), 16);
    assert!(machine.picture().contains("  socket 15: nodes 60-63\n"));
}
