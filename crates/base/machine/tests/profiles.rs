//! The profiles say what the papers say, and the arithmetic says what it is documented to say.

use egeria_machine::{AccessKind, CpuId, EmulatedNode, Machine, Memory, MemoryKind, NodeId};
use proptest::prelude::*;

const KINDS: [AccessKind; 2] = [AccessKind::Read, AccessKind::Write];
/// Assumed file-system code of one operation (the profile's header says so), ns.
const SOFTWARE_NS: f64 = 300.0;

fn optane() -> EmulatedNode {
    let machine = Machine::profile("optane-2s").expect("it ships with Egeria");
    machine
        .emulated_node(NodeId(0))
        .expect("it declares nodes")
        .clone()
}

/// 4, 8 ... 256 KiB, each read and written.
fn operations() -> impl Iterator<Item = (u64, AccessKind)> {
    (0..7).flat_map(|power| KINDS.map(|kind| (4096_u64 << power, kind)))
}

fn near(found: f64, expected: f64, share: f64) -> bool {
    (found - expected).abs() <= expected.abs() * share
}

/// What one thread gets is either measured with one thread or assumed, and each profile says which.
#[test]
fn figures_of_one_thread_have_a_source_of_one_thread() {
    for name in Machine::profile_names() {
        let path = format!("{}/profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let mut explained: Vec<&str> = Vec::new();
        let (mut comment, mut last) = (String::new(), "");
        for line in text.lines() {
            if line.starts_with('#') {
                if !last.starts_with('#') {
                    comment.clear();
                }
                comment.push_str(line);
            } else if line.contains("_stream_bytes_s") && !explained.contains(&line) {
                explained.push(line);
                assert!(is_of_one_thread(&comment), "{name}: {line}: {comment:?}");
            } else if line.is_empty() || !line.contains("_stream_bytes_s") {
                comment.clear();
            }
            last = line;
        }
        assert!(!explained.is_empty(), "{name}");
    }
}

/// Whether a comment speaks of one thread, and of several only to assume something of one.
fn is_of_one_thread(comment: &str) -> bool {
    let words: Vec<&str> = comment.split_whitespace().collect();
    let is_many = |pair: &[&str]| {
        let count: u32 = pair[0].parse().unwrap_or(0);
        count > 1
            && ["cores", "threads", "CPUs"]
                .iter()
                .any(|word| pair[1].starts_with(word))
    };
    let is_assumed = comment.to_lowercase().contains("assumed");
    let is_one = ["ne thread", "ne core"]
        .iter()
        .any(|one| comment.contains(one));
    is_assumed || (is_one && !words.windows(2).any(is_many))
}

#[test]
fn every_profile_loads_and_its_nodes_have_cpus() {
    for name in Machine::profile_names() {
        let machine = Machine::profile(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(machine.name, *name);
        let emulated = ["optane-2s", "optane-4s-emulated", "dram-2s"];
        assert_eq!(machine.is_emulated(), emulated.contains(name), "{name}");
        let is_expander = |memory: &Memory| memory.kind == MemoryKind::Expander;
        for node in &machine.nodes {
            let only_memory = node.hardware.memories.iter().any(is_expander);
            assert_eq!(node.cpus.is_empty(), only_memory, "{name}");
        }
        let declared = machine.emulated.as_ref().map(|all| all.nodes.len());
        assert_eq!(
            declared,
            machine.is_emulated().then_some(machine.nodes.len())
        );
        assert_eq!(machine.warnings, [""; 0]);
    }
}

#[test]
fn optane_2s_is_two_equal_nodes_and_dram_2s_has_no_timing() {
    let optane = Machine::profile("optane-2s")
        .expect("a profile")
        .emulated
        .expect("emulated");
    assert!(optane.timing && optane.dilation > 1.0);
    assert_eq!(optane.nodes[0], optane.nodes[1]);
    assert_eq!((optane.nodes[0].cores, optane.nodes[0].dimms), (4, 1));
    let dram = Machine::profile("dram-2s")
        .expect("a profile")
        .emulated
        .expect("emulated");
    assert!(!dram.timing);
    assert_eq!((dram.dilation, dram.nodes.len()), (1.0, 2));
}

#[test]
fn emulated_nodes_share_out_the_online_cpus() {
    let on = |online: std::ops::Range<u16>| {
        let text = include_str!("../profiles/dram-2s.toml");
        let machine = Machine::from_toml(text, "dram-2s.toml".as_ref()).expect("a good file");
        let online: Vec<CpuId> = online.map(CpuId).collect();
        machine
            .stand_on_cpus(&online)
            .nodes
            .into_iter()
            .map(|node| node.cpus)
            .collect::<Vec<_>>()
    };
    assert_eq!(on(0..1), [[CpuId(0)], [CpuId(0)]]);
    assert_eq!(on(0..2), [[CpuId(0)], [CpuId(1)]]);
    assert_eq!(on(4..7), [vec![CpuId(4), CpuId(6)], vec![CpuId(5)]]);
    assert_eq!(on(0..0), [[], []]);
}

#[test]
fn resolve_places_a_profile_on_the_cpus_below_the_root() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sysfs/no-numa");
    let machine = Machine::resolve(Some("optane-2s"), Some(&root)).expect("a profile");
    assert_eq!(machine.nodes[0].cpus, [CpuId(0), CpuId(2)]);
    assert_eq!(machine.nodes[1].cpus, [CpuId(1)]);
}

#[test]
fn named_cpus_that_are_not_online_are_told() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("named.toml");
    let text = include_str!("../profiles/dram-2s.toml")
        .replace("id = 0", "id = 0\ncpus = \"0\"")
        .replace("id = 1", "id = 1\ncpus = \"2,8191\"");
    std::fs::write(&path, text).expect("write");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sysfs/no-numa");
    let machine = Machine::resolve(path.to_str(), Some(&root)).expect("a good file");
    assert_eq!(machine.nodes[1].cpus, [CpuId(2), CpuId(8191)]);
    assert_eq!(machine.warnings.len(), 1);
    assert!(machine.warnings[0].starts_with("node 1 names CPUs that are not online: 8191;"));
}

#[test]
fn shared_cpus_are_not_written_down() {
    let text = include_str!("../profiles/dram-2s.toml");
    let machine = Machine::from_toml(text, "dram-2s.toml".as_ref()).expect("a good file");
    let placed = machine.clone().stand_on_cpus(&[CpuId(0)]);
    let again = Machine::from_toml(&placed.to_toml(), "dram-2s.toml".as_ref()).expect("readable");
    assert_eq!(again, machine);
}

/// NThread footnote 1 and the slides' table (claims N14, N15, S03, S04).
#[test]
fn optane_2s_has_the_papers_bandwidths_and_latencies() {
    let node = optane();
    assert_eq!(node.capacity_bytes_s(AccessKind::Read, false, 4), 6.8e9);
    assert_eq!(node.capacity_bytes_s(AccessKind::Write, false, 4), 1.85e9);
    assert_eq!(node.undisturbed_ns(0, AccessKind::Read, false, 1), 305.0);
    assert_eq!(node.undisturbed_ns(0, AccessKind::Write, false, 1), 81.0);
}

/// NThread §I (claim N01): the mean latency over 4-256 KB is 65.5 % higher from the other node.
#[test]
fn remote_operations_take_65_percent_longer() {
    let node = optane();
    let total_ns = |remote| -> f64 {
        let operation_ns = |(bytes, kind)| node.expected_operation_ns(bytes, kind, remote, 1);
        operations()
            .map(|operation| SOFTWARE_NS + operation_ns(operation))
            .sum()
    };
    let ratio = total_ns(true) / total_ns(false);
    assert!(near(ratio, 1.655, 0.002), "{ratio}");
}

/// NThread §I (claim N02): the mean bandwidth is 34.6 % lower, here with the 4 threads that
/// exhaust a DIMM (§V-C).
#[test]
fn remote_bandwidth_is_35_percent_lower() {
    let node = optane();
    let total_bytes_s = |remote| -> f64 {
        operations()
            .map(|(bytes, kind)| node.expected_bytes_s(bytes, kind, remote, 4))
            .sum()
    };
    let ratio = total_bytes_s(true) / total_bytes_s(false);
    assert!(near(ratio, 0.654, 0.002), "{ratio}");
}

/// NThread §V-C: 4 threads of 4 KB operations exhaust a DIMM, with 1 us of code around each.
#[test]
fn four_threads_exhaust_a_dimm() {
    let node = optane();
    for (kind, most) in [(AccessKind::Read, 6.8e9), (AccessKind::Write, 1.85e9)] {
        let alone_ns = node.undisturbed_ns(4096, kind, false, 4) + 1000.0;
        let offered_bytes_s = 4.0 * 4096.0 / alone_ns * 1e9;
        assert!(offered_bytes_s > 0.95 * most, "{kind:?}: {offered_bytes_s}");
    }
}

/// NThread Fig. 5 (claim N50): writers on both nodes gain from being 8 rather than 4, so 2 on a
/// node must not exhaust it.
#[test]
fn two_writers_leave_a_node_room_for_more() {
    let node = optane();
    let alone_ns = node.undisturbed_ns(4096, AccessKind::Write, false, 2) + SOFTWARE_NS;
    let offered_bytes_s = 2.0 * 4096.0 / alone_ns * 1e9;
    assert!(offered_bytes_s < 0.95 * 1.85e9, "{offered_bytes_s}");
}

/// NThread §III-D (claim N07), as the profile reads it: two threads read the same pieces, so that
/// every other read hits, against two that have a file and a node each. In the mean over 4-256 KB.
#[test]
fn sharing_the_llc_improves_reads_by_31_percent() {
    let node = optane();
    let (mut apart_ns, mut together_ns) = (0.0, 0.0);
    for power in 0..7 {
        let bytes = 4096_u64 << power;
        let miss_ns = SOFTWARE_NS + node.expected_operation_ns(bytes, AccessKind::Read, false, 1);
        let hit_ns = SOFTWARE_NS + node.cached_ns(bytes);
        apart_ns += miss_ns;
        together_ns += (miss_ns + hit_ns) / 2.0;
    }
    let gain = apart_ns / together_ns;
    assert!(near(gain, 1.315, 0.001), "{gain}");
}

/// The profile's rule: 13.75 MB shrunk as windows and files are, 1:200, to whole grains.
#[test]
fn the_llc_is_scaled_like_the_workloads() {
    let grain = egeria_machine::emulated::LLC_GRAIN_BYTES;
    let scaled_bytes = 13_750_000 / 200;
    assert_eq!(optane().llc_bytes, scaled_bytes / grain * grain);
}

/// A hand-made node whose arithmetic can be done in the head.
fn simple() -> EmulatedNode {
    EmulatedNode {
        kind: MemoryKind::Persistent,
        cores: 4,
        dimms: 1,
        read_bytes_s: 4e9,
        write_bytes_s: 1e9,
        read_stream_bytes_s: 1e9,
        write_stream_bytes_s: 9e9,
        read_latency_ns: 100.0,
        write_latency_ns: 50.0,
        remote_latency_factor: 2.0,
        remote_read_bandwidth_factor: 0.5,
        remote_write_bandwidth_factor: 0.25,
        read_curve: vec![(1, 1.0), (4, 1.0), (8, 0.5)],
        write_curve: vec![(2, 0.5)],
        llc_bytes: 32 << 10,
        llc_latency_ns: 10.0,
        llc_read_bytes_s: 2e9,
    }
}

#[test]
fn the_formula_is_the_documented_one() {
    let node = simple();
    let (read, write) = (AccessKind::Read, AccessKind::Write);
    // 1000 bytes: 250 ns of the medium at 4 GB/s, 1000 ns for one thread at 1 GB/s.
    assert_eq!(node.service_ns(1000, read, false, 1), 250.0);
    assert_eq!(
        node.latency_ns(1000, read, false, 1),
        100.0 + 1000.0 - 250.0
    );
    assert_eq!(node.expected_operation_ns(1000, read, false, 1), 1100.0);
    // 8 threads halve the capacity: 8 services of 500 ns outlast one undisturbed access.
    assert_eq!(node.expected_operation_ns(1000, read, false, 8), 4000.0);
    assert_eq!(node.expected_bytes_s(1000, read, false, 8), 2e9);
    // From the other node: twice the time, half the capacity.
    assert_eq!(node.expected_operation_ns(1000, read, true, 1), 2200.0);
    assert_eq!(node.service_ns(1000, read, true, 1), 500.0);
    // A write stream is bounded by the medium: 0.5 GB/s, at any number of threads.
    assert_eq!(node.expected_operation_ns(1000, write, false, 1), 2050.0);
    // No access ends before its service: 2 x 2050 ns are less than 8000.
    assert_eq!(node.undisturbed_ns(1000, write, true, 1), 8000.0);
    assert_eq!(node.latency_ns(1000, write, true, 1), 0.0);
    // Nobody counts as one.
    assert_eq!(node.expected_operation_ns(1000, read, false, 0), 1100.0);
}

#[test]
fn cached_bytes_take_the_caches_time() {
    assert_eq!(simple().cached_ns(1000), 10.0 + 500.0);
    let without = EmulatedNode {
        llc_bytes: 0,
        ..simple()
    };
    assert!(!without.has_llc());
    assert_eq!(without.cached_ns(1000), 0.0);
}

#[test]
fn a_curve_is_flat_outside_and_straight_between_its_points() {
    let node = simple();
    let share =
        |threads| node.capacity_bytes_s(AccessKind::Read, false, threads) / node.read_bytes_s;
    assert_eq!(
        [1, 2, 4, 5, 6, 8, 100].map(share),
        [1.0, 1.0, 1.0, 0.875, 0.75, 0.5, 0.5]
    );
    assert_eq!(node.capacity_bytes_s(AccessKind::Write, false, 1), 0.5e9);
}

proptest! {
    /// Parts add up, nothing is negative, more bytes and more threads never take less time, and
    /// the node's bandwidth is never exceeded.
    #[test]
    fn the_arithmetic_is_consistent(
        bytes in 0..(1_u64 << 30),
        threads in 1..64_u32,
        remote: bool,
        read: bool,
    ) {
        let kind = if read { AccessKind::Read } else { AccessKind::Write };
        for node in [optane(), simple()] {
            let service_ns = node.service_ns(bytes, kind, remote, threads);
            let latency_ns = node.latency_ns(bytes, kind, remote, threads);
            let operation_ns = node.expected_operation_ns(bytes, kind, remote, threads);
            prop_assert!(service_ns >= 0.0 && latency_ns >= 0.0);
            let undisturbed_ns = node.undisturbed_ns(bytes, kind, remote, threads);
            prop_assert!(near(service_ns + latency_ns, undisturbed_ns, 1e-9));
            prop_assert!(operation_ns >= undisturbed_ns);
            prop_assert!(operation_ns <= node.expected_operation_ns(bytes + 4096, kind, remote, threads));
            prop_assert!(operation_ns <= node.expected_operation_ns(bytes, kind, true, threads));
            prop_assert!(operation_ns <= node.expected_operation_ns(bytes, kind, remote, threads + 1));
            let capacity_bytes_s = node.capacity_bytes_s(kind, remote, threads);
            let bytes_s = node.expected_bytes_s(bytes, kind, remote, threads);
            prop_assert!(bytes_s <= capacity_bytes_s * (1.0 + 1e-9));
        }
    }
}
