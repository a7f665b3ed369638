//! What was recorded is what is read.

mod traces;

use egeria_facts::{
    CpuSet, Facts, FileKey, FileUse, MAX_COUNTER, MAX_DURATION_NS, NodeFacts, ThreadFacts, Window,
};
use egeria_machine::{Machine, NodeId};
use egeria_stats::rng::Rng;
use egeria_trace::{Ending, Reader};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use traces::{Place, SECOND_NS, header, key, machine, read, thread, varied, window};

#[test]
fn header_machine_and_windows_come_back() {
    let (place, machine) = (Place::new(), machine(3));
    let windows = varied(&machine);
    let mut reader = Reader::open(&place.recorded(&machine, &windows)).unwrap();
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.machine(), &machine);
    assert_eq!(reader.ending(), None);
    let read: Vec<Facts> = reader.by_ref().map(Result::unwrap).collect();
    let recorded: Vec<Facts> = windows.into_iter().map(Facts::of).collect();
    assert_eq!(read, recorded);
    assert_eq!(reader.ending(), Some(Ending::Finished));
    assert_eq!((reader.warning(), reader.windows()), (None, 4));
    assert!(reader.next().is_none());
}

#[test]
fn every_profile_and_this_machine_come_back() {
    let place = Place::new();
    let profiles = Machine::profile_names()
        .iter()
        .map(|name| Machine::profile(name));
    for machine in profiles.chain([Machine::detect()]).map(Result::unwrap) {
        let window = Window::empty(&machine, 0, 0, 1);
        let reader = Reader::open(&place.recorded(&machine, &[window])).unwrap();
        let mut expected = machine.clone();
        expected.warnings = Vec::new();
        assert_eq!(reader.machine(), &expected);
    }
}

#[test]
fn a_recording_without_windows_is_one() {
    let place = Place::new();
    let (windows, warning) = read(&place.recorded(&machine(1), &Vec::<Window>::new())).unwrap();
    assert_eq!((windows.len(), warning), (0, None));
}

/// Threads that come and go, ids used again, and each window with its own sets of CPUs: what is
/// known is told afresh now and then, and nothing of it is lost.
#[test]
fn many_short_lived_threads_come_back() {
    let (place, machine) = (Place::new(), machine(2));
    let made = |number: u64| {
        let make = |index: u32| {
            let mut facts = thread(&machine, index, 1 << 20, 0);
            facts.key.start_ticks = number / 3;
            let cpu = |bit: u32| (number + u64::from(index)) >> bit & 1 == 1;
            let cpus = (0..13).filter(|&bit| cpu(bit));
            facts.allowed_cpus = cpus.map(|bit| egeria_machine::CpuId(bit as u16)).collect();
            facts
        };
        window(&machine, number, (0..60).map(make).collect())
    };
    let windows: Vec<Window> = (0..200).map(|step| made(step * 37)).collect();
    assert!(read(&place.recorded(&machine, &windows)).unwrap().0 == windows);
}

/// Bytes that one more window of these threads takes, per thread.
fn bytes_per_thread(count: u32, facts: impl Fn(u32, &mut Rng) -> ThreadFacts) -> f64 {
    const WINDOWS: u64 = 20;
    let (place, machine) = (Place::new(), machine(2));
    let length = |windows: u64| {
        let mut rng = Rng::new(1);
        let mut made = |number| {
            let threads = (0..count).map(|thread| facts(thread, &mut rng));
            window(&machine, number, threads.collect())
        };
        let windows: Vec<Window> = (0..windows).map(&mut made).collect();
        std::fs::metadata(place.recorded(&machine, &windows))
            .unwrap()
            .len()
    };
    let more = length(1 + WINDOWS) - length(1);
    more as f64 / (f64::from(count) * WINDOWS as f64)
}

#[test]
fn a_thread_takes_as_few_bytes_as_the_document_says() {
    let machine = &machine(2);
    let idle = |number, _: &mut Rng| ThreadFacts::idle(key(number), NodeId(0), 2, CpuSet::empty());
    let many = bytes_per_thread(10_000, idle);
    let idle = bytes_per_thread(1000, idle);
    // No two windows have the same counters.
    let busy = |number, rng: &mut Rng, written| {
        let mut facts = thread(machine, number, (800 << 20) + rng.below(1 << 28), written);
        facts.busy_ns = rng.below(SECOND_NS);
        facts
    };
    let reader = bytes_per_thread(1000, |number, rng| busy(number, rng, 0));
    let mixed = bytes_per_thread(1000, |number, rng| {
        let written = rng.below(200 << 20);
        let mut facts = busy(number, rng, written);
        facts.read_bytes[1] = rng.below(40 << 20);
        facts
    });
    println!("bytes per thread and window: idle {idle} and {many}, reader {reader}, mixed {mixed}");
    assert!(
        idle < 0.2 && many < 0.2 && reader < 23.1 && mixed < 33.5,
        "{idle} {many} {reader} {mixed}"
    );
}

fn any_counter() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 2 => 0..1_u64 << 34, 1 => 0..=MAX_COUNTER]
}

fn any_cpus() -> impl Strategy<Value = CpuSet> {
    let lists = ["", "0", "0-3", "0,2-3,9", "8191", "0-8191"];
    proptest::sample::select(lists.to_vec()).prop_map(traces::cpus)
}

fn any_file() -> impl Strategy<Value = FileUse> {
    let key = (any::<u32>(), any::<u64>()).prop_map(|(volume, inode)| FileKey { volume, inode });
    (key, any_counter(), any_counter()).prop_map(|(file, read_bytes, written_bytes)| FileUse {
        file,
        read_bytes,
        written_bytes,
    })
}

fn any_facts(nodes: usize) -> impl Strategy<Value = ThreadFacts> {
    let node = || (0..nodes as u16).prop_map(NodeId);
    let counters = || vec(any_counter(), nodes);
    let name = prop_oneof![Just("worker".to_owned()), "[a-zé:/ ]{0,64}"];
    let place = (node(), any_cpus(), any::<bool>());
    let done = (
        counters(),
        counters(),
        any_counter(),
        any::<bool>(),
        vec(any_file(), 0..3),
    );
    (name, place, done).prop_map(|(name, place, done)| ThreadFacts {
        key: key(0),
        name,
        node: place.0,
        allowed_cpus: place.1,
        pinned: place.2,
        read_bytes: done.0,
        written_bytes: done.1,
        busy_ns: done.2,
        is_shared: done.3,
        files: done.4,
    })
}

fn any_node(id: u16) -> impl Strategy<Value = NodeFacts> {
    let counters = (any_counter(), any_counter(), any_counter());
    (any::<bool>(), counters).prop_map(move |(has_pool, counters)| NodeFacts {
        node: NodeId(id),
        has_pool,
        read_bytes: counters.0,
        written_bytes: counters.1,
        busy_ns: counters.2,
    })
}

/// Few keys, so that threads come, change and go; in any order.
fn any_window(nodes: usize) -> impl Strategy<Value = Window> {
    let threads = btree_map(0..12_u32, any_facts(nodes), 0..8)
        .prop_map(|facts| {
            let keyed = facts.into_iter().map(|(number, mut facts)| {
                facts.key = key(number);
                facts
            });
            keyed.collect::<Vec<ThreadFacts>>()
        })
        .prop_shuffle();
    let nodes: Vec<_> = (0..nodes as u16).map(any_node).collect();
    let times = (any::<u64>(), any::<u64>(), 1..=MAX_DURATION_NS);
    (times, threads, nodes).prop_map(|(times, threads, nodes)| Window {
        number: times.0,
        start_ns: times.1,
        duration_ns: times.2,
        threads,
        nodes,
    })
}

fn any_recording() -> impl Strategy<Value = (usize, Vec<Window>)> {
    let nodes = prop_oneof![1..=4_usize, Just(64)];
    nodes.prop_flat_map(|nodes| (Just(nodes), vec(any_window(nodes), 0..6)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_is_read((nodes, windows) in any_recording()) {
        let place = Place::new();
        let path = place.recorded(&machine(nodes), &windows);
        let (read, warning) = read(&path).unwrap();
        prop_assert_eq!(read, windows);
        prop_assert_eq!(warning, None);
    }
}
