//! Every captured tree reads as exactly the machine it was captured from.

use std::path::{Path, PathBuf};

use egeria_machine::{
    AccessClass, CpuId, Hardware, Machine, Node, NodeId, PersistentRegion, RegionKind, Source,
};

const KIB: u64 = 1024;
/// The captured trees.
pub(crate) const TREES: [&str; 5] = [
    "one-node",
    "two-node-nvdimm",
    "eight-node",
    "cxl-cpuless",
    "no-numa",
];

fn tree(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sysfs")
        .join(name)
}

fn read(name: &str) -> Machine {
    Machine::from_sysfs(&tree(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn cpus(ranges: &[std::ops::RangeInclusive<u16>]) -> Vec<CpuId> {
    ranges.iter().cloned().flatten().map(CpuId).collect()
}

fn plain_node(id: u16, cpus: Vec<CpuId>, total_kib: u64, free_kib: u64) -> Node {
    Node {
        id: NodeId(id),
        socket: None,
        cpus,
        memory_bytes: total_kib * KIB,
        free_bytes: Some(free_kib * KIB),
        persistent_regions: Vec::new(),
        bandwidth: None,
        pool_bandwidth: None,
        hardware: Hardware::default(),
    }
}

fn access(mega: (u32, u32), latency_ns: (u32, u32), initiator: u16) -> Option<AccessClass> {
    Some(AccessClass {
        read_bytes_s: f64::from(mega.0) * 1e6,
        write_bytes_s: f64::from(mega.1) * 1e6,
        read_latency_ns: f64::from(latency_ns.0),
        write_latency_ns: f64::from(latency_ns.1),
        initiators: vec![NodeId(initiator)],
    })
}

fn region(name: &str, kind: RegionKind, bytes: u64) -> PersistentRegion {
    PersistentRegion {
        name: name.to_owned(),
        kind,
        bytes,
        persistence_domain: None,
        align_bytes: None,
    }
}

fn machine(name: &str, nodes: Vec<Node>, distances: Vec<Vec<u32>>) -> Machine {
    Machine {
        interconnect: Default::default(),
        name: name.to_owned(),
        source: Source::Sysfs(tree(name).into()),
        nodes,
        distances,
        emulated: None,
        warnings: Vec::new(),
    }
}

#[test]
fn one_node_reads_exactly() {
    let node = plain_node(0, cpus(&[0..=1]), 5_204_180, 5_013_764);
    assert_eq!(
        read("one-node"),
        machine("one-node", vec![node], vec![vec![10]])
    );
}

#[test]
fn two_nodes_with_an_nvdimm_each_read_exactly() {
    let nvdimm = |name| PersistentRegion {
        persistence_domain: Some("memory_controller".to_owned()),
        ..region(name, RegionKind::Nvdimm, 135_291_469_824)
    };
    let dax = PersistentRegion {
        align_bytes: Some(2 << 20),
        ..region("dax1.0", RegionKind::Dax, 133_175_443_456)
    };
    let first = Node {
        persistent_regions: vec![nvdimm("region0")],
        bandwidth: access((131_072, 65_536), (76, 80), 0),
        ..plain_node(0, cpus(&[0..=3, 8..=11]), 65_659_284, 60_123_456)
    };
    // The DAX device's own node 3 is offline, so it is found at the nearest one, node 1.
    let second = Node {
        persistent_regions: vec![nvdimm("region1"), dax],
        bandwidth: access((131_072, 65_536), (76, 80), 1),
        ..plain_node(1, cpus(&[4..=7, 12..=15]), 66_057_124, 64_000_000)
    };
    let distances = vec![vec![10, 21], vec![21, 10]];
    assert_eq!(
        read("two-node-nvdimm"),
        machine("two-node-nvdimm", vec![first, second], distances)
    );
}

#[test]
fn eight_nodes_with_unequal_links_read_exactly() {
    let distances = vec![
        vec![10, 16, 16, 22, 16, 22, 16, 22],
        vec![16, 10, 22, 16, 16, 22, 22, 16],
        vec![16, 22, 10, 16, 16, 16, 16, 16],
        vec![22, 16, 16, 10, 16, 16, 22, 22],
        vec![16, 16, 16, 16, 10, 16, 16, 22],
        vec![22, 22, 16, 16, 16, 10, 22, 16],
        vec![16, 22, 16, 22, 16, 22, 10, 16],
        vec![22, 16, 16, 22, 22, 16, 16, 10],
    ];
    let node = |id: u16| {
        let number = u64::from(id);
        let first = id * 8;
        let total_kib = 66_049_456 + number * 1024;
        plain_node(
            id,
            cpus(&[first..=first + 7]),
            total_kib,
            60_000_000 + number,
        )
    };
    let nodes = (0..8).map(node).collect();
    assert_eq!(read("eight-node"), machine("eight-node", nodes, distances));
}

#[test]
fn a_cxl_node_without_cpus_reads_exactly() {
    let dax = PersistentRegion {
        align_bytes: Some(2 << 20),
        ..region("dax1.0", RegionKind::Dax, 64 << 30)
    };
    let first = Node {
        persistent_regions: vec![dax, region("mem0", RegionKind::Cxl, 64 << 30)],
        bandwidth: access((307_200, 307_200), (110, 110), 0),
        ..plain_node(0, cpus(&[0..=31, 64..=95]), 263_857_124, 200_000_000)
    };
    let second = Node {
        bandwidth: access((307_200, 307_200), (110, 110), 1),
        ..plain_node(1, cpus(&[32..=63, 96..=127]), 264_228_432, 210_000_000)
    };
    // Class 1 (CPUs) goes before class 0; dax0.0 is this node's ordinary memory already.
    let third = Node {
        bandwidth: access((28_000, 26_000), (235, 245), 0),
        ..plain_node(2, Vec::new(), 134_217_728, 134_000_000)
    };
    let distances = vec![vec![10, 21, 14], vec![21, 10, 24], vec![14, 24, 10]];
    let expected = machine("cxl-cpuless", vec![first, second, third], distances);
    assert_eq!(read("cxl-cpuless"), expected);
}

#[test]
fn a_kernel_without_nodes_is_one_node_and_says_so() {
    let found = read("no-numa");
    let node = plain_node(0, cpus(&[0..=2]), 2_048_000, 1_024_000);
    assert_eq!(found.nodes, [node]);
    assert_eq!(found.distances, [[10]]);
    assert_eq!(found.warnings.len(), 1);
    assert!(found.warnings[0].ends_with("no nodes; the machine is taken as one node"));
}

#[test]
fn the_running_machine_can_be_read() {
    let found = Machine::detect().unwrap_or_else(|error| panic!("{error}"));
    let cpu = found
        .nodes
        .iter()
        .find_map(|node| node.cpus.first())
        .copied();
    let cpu = cpu.expect("a running machine has a CPU");
    assert!(found.node_of_cpu(cpu).is_some());
    assert!(!found.is_emulated());
}

#[test]
fn lookups_agree_with_the_tree() {
    let found = read("cxl-cpuless");
    assert_eq!(found.node_of_cpu(CpuId(70)), Some(NodeId(0)));
    assert_eq!(found.node_of_cpu(CpuId(127)), Some(NodeId(1)));
    assert_eq!(found.node_of_cpu(CpuId(128)), None);
    assert_eq!(found.distance(NodeId(2), NodeId(1)), Some(24));
    assert_eq!(found.distance(NodeId(2), NodeId(3)), None);
    assert_eq!(found.index_of(NodeId(2)), Some(2));
    assert_eq!(found.node(NodeId(2)).map(|node| node.cpus.len()), Some(0));
    assert_eq!(found.emulated_node(NodeId(0)), None);
}

#[test]
fn every_tree_survives_toml_and_json() {
    for name in TREES {
        let found = read(name);
        let origin = Path::new("round-trip.toml");
        let mut again = Machine::from_toml(&found.to_toml(), origin)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(again.source, Source::File(origin.into()));
        again.source = found.source.clone();
        again.warnings = found.warnings.clone();
        assert_eq!(again, found, "{name} through TOML");

        let json = serde_json::to_string(&found).expect("machines are JSON");
        let again: Machine = serde_json::from_str(&json).expect("and JSON is a machine");
        assert_eq!(again, found, "{name} through JSON");
    }
}

#[test]
fn the_table_has_a_row_per_node_as_wide_as_its_headers() {
    let table = read("cxl-cpuless").table();
    assert_eq!(table.rows.len(), 3);
    assert!(
        table
            .rows
            .iter()
            .all(|row| row.len() == table.headers.len())
    );
    assert_eq!(table.rows[2][1], "none");
    assert_eq!(table.rows[2][5], "28.0 GB/s 235 ns");
}
