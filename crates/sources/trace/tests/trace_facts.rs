//! Facts other than file I/O are recorded, and the layout of all facts is that of the version.

mod traces;

use egeria_facts::{
    AccessWindow, CpuSet, Facts, FileFacts, FileKey, FileUse, KindFacts, Measured, MediumFacts,
    MemoryTraffic, MigrationCost, Mix, NodeAccesses, ProcessAccesses, ProcessKey, RegionAccesses,
    ThreadFacts, ThreadKey, TrafficOrigin,
};
use egeria_machine::{MemoryKind, NodeId};
use egeria_trace::Reader;

use traces::{Place, contents, key, machine, packed, refused, window};

fn whole() -> Facts {
    let machine = machine(2);
    let idle = ThreadFacts::idle(key(1), NodeId(0), 2, CpuSet::empty());
    Facts {
        accesses: AccessWindow {
            number: 0,
            end_ns: 5,
            processes: vec![ProcessAccesses {
                process: ProcessKey {
                    process_id: 7,
                    start_ticks: 8,
                },
                nodes: vec![NodeAccesses {
                    node: NodeId(1),
                    threads: 3,
                    pinned: true,
                    accesses_s: vec![1e6, 0.5],
                    resident_bytes: 1 << 30,
                }],
                running_ns: 1,
                migrating_ns: 2,
                work_s: Some(1e9),
                accessors_known: true,
                regions: vec![RegionAccesses {
                    start: 0x7000_0000,
                    resident_bytes: vec![1 << 20, 0],
                    accesses_s: vec![0.0, 1e6],
                    is_fixed: true,
                }],
            }],
            free_bytes: vec![1 << 30, 0],
            kernel_balances: true,
            migration_cost: Some(MigrationCost {
                s_per_gb: 0.5,
                bytes: 1 << 20,
                migrations: 3,
            }),
        },
        media: vec![MediumFacts {
            node: NodeId(0),
            measured: Measured {
                mix: Mix {
                    requests: 3,
                    mean_bytes: 4096.0,
                    write_share: 0.25,
                },
                demand: 4,
                pm_bytes_s: 1e9,
                dram_bytes_s: Some(2e9),
            },
            free_bytes: Some(1 << 40),
            striped_files: Some(true),
        }],
        files: vec![FileFacts {
            file: FileKey {
                volume: 1,
                inode: 2,
            },
            bytes: 1 << 20,
            bytes_on: vec![1 << 20, 0],
            read_bytes: vec![vec![0, 7], vec![9, 0]],
            written_bytes: 3,
            replicas: vec![false, true],
        }],
        memories: vec![MemoryTraffic {
            node: NodeId(1),
            kind: MemoryKind::Expander,
            read_bytes_s: 1e9,
            written_bytes_s: 2e9,
            origin: TrafficOrigin::CxlDevice,
        }],
        kinds: vec![KindFacts {
            parent: ThreadKey {
                process_id: 1,
                thread_id: 1,
                start_ticks: 2,
            },
            command: "cc".to_owned(),
            windows: 3,
            seen: 4,
            node: Some(NodeId(1)),
            busy_ns: 5,
            read_bytes: vec![6, 7],
            written_bytes: Vec::new(),
            local_bytes: 7,
            files: vec![FileUse {
                file: FileKey {
                    volume: 0,
                    inode: 9,
                },
                read_bytes: 8,
                written_bytes: 0,
            }],
        }],
        ..Facts::of(window(&machine, 0, vec![idle]))
    }
}

#[test]
fn facts_beside_file_io_come_back() {
    let (place, machine) = (Place::new(), machine(2));
    let plain = Facts::of(window(&machine, 1, Vec::new()));
    let facts = [whole(), plain, whole()];
    let path = place.recorded(&machine, &facts);
    let read: Result<Vec<Facts>, _> = Reader::open(&path).unwrap().collect();
    assert_eq!(read.unwrap(), facts);
}

/// postcard names no fields: where this fails, the version of the format has to change.
#[test]
fn the_layout_of_facts_is_that_of_the_version() {
    let (place, machine) = (Place::new(), machine(2));
    let bytes = std::fs::read(place.recorded(&machine, &[whole()])).unwrap();
    let expected = [
        // A window: number, start, duration.
        "02 00 00 8094ebdc03",
        // A thread: key, name, node, CPUs, pinned, read, written, busy, shared, files.
        "01 64 65 c1843d 00 00 00 00 020000 020000 00 00 00",
        // Nodes.
        "02 0001000000 0101000000",
        // Accesses: number, end, a process with a node, how long it ran and was migrated.
        "00 05 01 07 08 01 01 03 01 02 00000000 80842e41 00000000 0000e03f 8080808004 01 02",
        // Its work, whether accessors are known, its regions.
        "01 0000000065cdcd41 01 01 8080808007 02 808040 00 02 0000000000000000 0000000080842e41 01",
        // What migrations took, and the room.
        "01 000000000000e03f 808040 03 02 8080808004 00 01",
        // A medium.
        "01 00 03 000000000000b040 000000000000d03f 04 0000000065cdcd41 01 0000000065cddd41 01 808080808020 01 01",
        // A file.
        "01 01 02 808040 02 808040 00 02 020007 020900 03 02 0001",
        // A memory.
        "01 01 02 0000000065cdcd41 0000000065cddd41 01",
        // Short-lived processes.
        "01 01 01 02 02 6363 03 04 01 01 05 02 0607 00 07 01 00 09 08 00",
    ];
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(
        hex(&contents(&bytes)[1]),
        expected.concat().replace(' ', "")
    );
    assert_eq!(egeria_trace::VERSION, 7);
}

#[test]
fn damaged_other_facts_are_refused() {
    let (place, machine) = (Place::new(), machine(2));
    let good = contents(&std::fs::read(place.recorded(&machine, &[whole()])).unwrap());
    let bad = |change: &dyn Fn(&mut Facts), words: &[&str]| {
        let mut facts = whole();
        change(&mut facts);
        let mut changed = good.clone();
        changed[1] = postcard::to_extend(&facts, vec![2]).unwrap();
        refused(&place.holding(&packed(&changed)), words);
    };
    bad(
        &|facts| facts.accesses.processes[0].nodes[0].node = NodeId(9),
        &["node 9"],
    );
    bad(
        &|facts| facts.accesses.migration_cost.as_mut().unwrap().s_per_gb = 0.0,
        &["no measurement"],
    );
    bad(
        &|facts| facts.memories[0].read_bytes_s = f64::NAN,
        &["no rates or shares"],
    );
    bad(&|facts| facts.memories[0].node = NodeId(9), &["node 9"]);
    bad(
        &|facts| facts.kinds[0].read_bytes = vec![0; 3],
        &["short-lived", "process 1"],
    );
    bad(
        &|facts| facts.media[0].measured.mix.write_share = 1.5,
        &["no rates or shares"],
    );
    bad(
        &|facts| facts.media[0].measured.pm_bytes_s = f64::NAN,
        &["no rates or shares"],
    );
    bad(
        &|facts| facts.files[0].read_bytes.push(vec![1]),
        &["more than 2 nodes"],
    );
}
