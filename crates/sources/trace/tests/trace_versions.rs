//! Recordings of earlier versions are read, and facts beside file I/O are recorded.

mod traces;

use std::path::Path;

use egeria_facts::{
    AccessWindow, CpuSet, Facts, FileFacts, FileKey, Measured, MediumFacts, Mix, NodeAccesses,
    ProcessAccesses, ProcessKey, ThreadFacts,
};
use egeria_machine::NodeId;
use egeria_trace::{Ending, Reader};

use traces::{Place, key, machine, payloads, refused, sealed, sealed_as, window};

/// The flag that version 1 set for a thread that a policy had displaced.
const DISPLACED: u8 = 16;

#[test]
fn a_recording_of_version_1_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/version_1.trace");
    let mut reader = Reader::open(&path).unwrap();
    let facts: Vec<Facts> = reader.by_ref().map(Result::unwrap).collect();
    assert!(facts.len() > 10);
    assert!(facts.iter().any(|facts| facts.window.written_total() > 0));
    assert!(
        facts
            .iter()
            .all(|facts| facts.accesses.processes.is_empty())
    );
    assert_eq!(reader.ending(), Some(Ending::Finished));
}

/// The payloads of a recording of one idle thread, whose record ends the window: step, flags, node.
fn one_idle_thread(place: &Place) -> Vec<Vec<u8>> {
    let machine = machine(2);
    let idle = ThreadFacts::idle(key(1), NodeId(0), 2, CpuSet::empty());
    let path = place.recorded(&machine, &[window(&machine, 0, vec![idle])]);
    payloads(&std::fs::read(path).unwrap())
}

#[test]
fn marks_of_displaced_threads_in_version_1_are_skipped() {
    let place = Place::new();
    let plain = one_idle_thread(&place);
    let mut marked = plain.clone();
    let window = &mut marked[1];
    let flags = window.len() - 2;
    assert_eq!(window[flags], 0);
    window[flags] = DISPLACED;
    window.push(1);
    let read = |bytes: &[u8]| traces::read(&place.holding(bytes)).unwrap().0;
    assert_eq!(read(&sealed_as(1, &marked)), read(&sealed(&plain)));
    refused(&place.holding(&sealed(&marked)), &["unknown flags 0x10"]);
    marked[1].pop();
    marked[1].push(9);
    refused(&place.holding(&sealed_as(1, &marked)), &["position 9"]);
}

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
            }],
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

#[test]
fn damaged_facts_beside_file_io_are_refused() {
    let (place, machine) = (Place::new(), machine(2));
    let good = payloads(&std::fs::read(place.recorded(&machine, &[whole()])).unwrap());
    let with = |from: &str, to: &str| {
        let mut changed = good.clone();
        let text = String::from_utf8(changed[1][1..].to_vec()).unwrap();
        assert!(text.contains(from), "{text}");
        changed[1].truncate(1);
        changed[1].extend(text.replace(from, to).bytes());
        place.holding(&sealed(&changed))
    };
    refused(&with("{", "["), &["make no sense"]);
    refused(&with("\"node\":1", "\"node\":9"), &["node 9"]);
    refused(&with("0.25", "1.5"), &["no rates or shares"]);
    refused(
        &with("[[0,7],[9,0]]", "[[0,7],[9,0],[1]]"),
        &["more than 2 nodes"],
    );
    let mut twice = good.clone();
    twice.insert(1, good[1].clone());
    refused(&place.holding(&sealed(&twice)), &["unknown kind"]);
    let mut alone = good.clone();
    alone.remove(2);
    refused(&place.holding(&sealed(&alone)), &["without their window"]);
    let mut old = good;
    old[2][0] = 2;
    refused(&place.holding(&sealed_as(1, &old)), &["unknown kind"]);
}
