//! A machine's file beside what was found, where one has memories that the other has not.

use egeria_calibrate::{Calibration, Difference, Latency, MeasuredMemory, Stream, differences};
use egeria_machine::costs::AccessCosts;
use egeria_machine::{MAX_MEMORIES, Machine};

const EMULATED: &str = "
[nodes.emulated]
cores = 2
dimms = 1
read_bytes_s = 8e9
write_bytes_s = 4e9
read_stream_bytes_s = 2e9
write_stream_bytes_s = 1e9
read_latency_ns = 300.0
write_latency_ns = 100.0
remote_latency_factor = 1.0
remote_read_bandwidth_factor = 1.0
remote_write_bandwidth_factor = 1.0
read_curve = [[1, 1.0]]
write_curve = [[1, 1.0]]
";

/// Emulated persistent memory in two nodes; beside it as much as a file may hold in the first, and DRAM in the second.
fn declared() -> Machine {
    let memory = |kind: &str, bytes_s: f64| {
        format!(
            "[[nodes.memories]]\nkind = \"{kind}\"\nread_bytes_s = {bytes_s:e}\nwrite_bytes_s = {bytes_s:e}\n\
             read_stream_bytes_s = {bytes_s:e}\nwrite_stream_bytes_s = {bytes_s:e}\n\
             read_latency_ns = 100.0\nwrite_latency_ns = 100.0\n"
        )
    };
    let first: String = (1..=MAX_MEMORIES)
        .map(|at| memory("expander", at as f64 * 1e9))
        .collect();
    let second = memory("dram", 20e9);
    let text = format!(
        "name = \"many\"\n[emulation]\ndilation = 1.0\ntiming = true\n\
         [[nodes]]\nid = 0\n{EMULATED}{first}[[nodes]]\nid = 1\n{EMULATED}{second}"
    );
    Machine::from_toml(&text, "many.toml".as_ref()).unwrap_or_else(|error| panic!("{error}"))
}

/// What each memory of the file says, from its own node by one thread: as if it had been measured so.
fn measured(machine: &Machine) -> Calibration {
    let costs = AccessCosts::of(machine);
    let mut calibration = Calibration::default();
    for (memory, place) in costs.places.iter().enumerate() {
        let node = machine.nodes[place.node].id;
        let [read_bytes_s, write_bytes_s] = [
            place.memory.read_stream_bytes_s,
            place.memory.write_stream_bytes_s,
        ];
        calibration.memories.push(MeasuredMemory {
            node,
            kind: place.memory.kind,
            path: None,
            is_direct: true,
            bytes: 0,
            modules: None,
        });
        calibration.streams.push(Stream {
            cpu_node: node,
            memory,
            threads: 1,
            read_bytes_s,
            write_bytes_s,
            nontemporal_write_bytes_s: write_bytes_s,
            mixed_bytes_s: read_bytes_s,
        });
        calibration.latencies.push(Latency {
            cpu_node: node,
            memory,
            read_ns: place.memory.read_latency_ns,
            write_ns: place.memory.write_latency_ns,
        });
    }
    calibration
}

/// A node with its own emulated memory and all that a file holds beside it has one more than a file of what was found.
#[test]
fn memories_that_a_file_has_no_place_for_shift_no_other() {
    let declared = declared();
    let found = measured(&declared).machine(&declared);
    let counts: Vec<usize> = (found.nodes.iter())
        .map(|node| node.hardware.memories.len())
        .collect();
    assert_eq!(counts, [MAX_MEMORIES, 2]);
    let all = differences(&declared, &found);
    let of = |words: &str| -> Vec<&Difference> {
        let of = all.iter().filter(|figure| figure.what.starts_with(words));
        of.collect()
    };
    for (words, count, latency_ns) in [
        ("persistent of node 0", 1, 300.0),
        ("expander of node 0", MAX_MEMORIES - 1, 100.0),
        ("persistent of node 1", 1, 300.0),
        ("dram of node 1", 1, 100.0),
    ] {
        let node = words.rsplit(' ').next().unwrap();
        let loads = of(&format!("{words}, a load from node {node}"));
        assert_eq!(loads.len(), count, "{words}");
        for load in loads {
            assert_eq!((load.declared, load.measured), (latency_ns, latency_ns));
        }
        for read in of(&format!("{words}, read by 1 of its threads")) {
            assert!(read.distance() < 0.01, "{read:?}");
        }
    }
}

/// As many in both: all are compared.
#[test]
fn a_machine_is_no_different_from_itself() {
    let declared = declared();
    let all = differences(&declared, &declared);
    assert!(all.iter().all(|figure| figure.distance() == 0.0));
    let loads = all.iter().filter(|figure| {
        figure
            .what
            .contains("expander of node 0, a load from node 0")
    });
    assert_eq!(loads.count(), MAX_MEMORIES);
}
