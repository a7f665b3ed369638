//! Machines with emulated memories of their own: queues, links, several memories of a node; in virtual time.

use egeria_machine::costs::{self, AccessCosts, Beside, Pattern};
use egeria_machine::{AccessKind, Machine, MemoryKind};

use super::access::{Access, Part};
use super::machine::Emulation;
use super::tests::{Loop, assert_close, random, run};
use std::sync::atomic::Ordering::Relaxed;

const LENGTH_NS: u64 = 400_000_000;

fn emulated(profile: &str) -> Emulation {
    let machine = Machine::profile(profile).unwrap().emulate(64.0).unwrap();
    Emulation::private(&machine).unwrap()
}

fn access(
    state: &Emulation,
    node: usize,
    kind: MemoryKind,
    what: (AccessKind, u64),
) -> Access<'static> {
    let place = state.place_of(node, Some(kind)).unwrap();
    Access {
        pattern: Pattern::Sequential,
        ..random(place, what.1, what.0)
    }
}

/// Accesses per machine ns of the last of these threads of node 0, while the other threads run.
fn last_of(profile: &str, writers: usize, other: (MemoryKind, AccessKind)) -> f64 {
    let state = emulated(profile);
    let write = (AccessKind::Write, 4096);
    let writes = access(&state, 0, MemoryKind::Persistent, write);
    let mut loops: Vec<Loop> = (0..writers).map(|_| Loop::new(&state, 0, writes)).collect();
    let other = access(&state, 0, other.0, (other.1, 4096));
    loops.push(Loop::new(&state, 0, other));
    run(&state, &mut loops, LENGTH_NS, |_| 0)[writers]
}

#[test]
fn slow_memory_blocks_the_fast_one_behind_the_same_controller() {
    let dram = (MemoryKind::Dram, AccessKind::Read);
    let alone = last_of("optane-1s", 0, dram);
    let beside_few = last_of("optane-1s", 1, dram);
    let beside_many = last_of("optane-1s", 14, dram);
    assert_close(beside_few, alone, 0.1, "one writer fills no queue");
    assert!(
        beside_many < 0.5 * alone,
        "{beside_many} beside fourteen writers, {alone} alone"
    );
    // On the other controller they share only the socket's lines in flight (PATS §III-B5).
    let apart = last_of("optane-1s-dimc", 14, dram) / last_of("optane-1s-dimc", 0, dram);
    let together = beside_many / alone;
    assert!(apart > 1.5 * together, "{apart} {together}");
}

#[test]
fn threads_of_two_nodes_share_one_way_of_a_link() {
    let state = emulated("odin-8s");
    let costs = state.costs().unwrap();
    let read = (AccessKind::Read, 2 << 20);
    let far = access(&state, 0, MemoryKind::Dram, read);
    let way: Vec<usize> = costs.lanes_of(AccessKind::Read, 1, 0).collect();
    assert_eq!(way.len(), 1, "neighbours");
    let link_bytes_s = costs.lanes()[way[0]].bytes_s;
    let mut loops: Vec<Loop> = (0..12).map(|_| Loop::new(&state, 1, far)).collect();
    let rates = run(&state, &mut loops, LENGTH_NS * 8, |_| 0);
    let bytes_s = rates.iter().sum::<f64>() * (2 << 20) as f64 * 1e9;
    assert_close(bytes_s, link_bytes_s, 0.03, "the link is full");
}

/// An access by a delegate of node 0, for a thread of this node: what it reads there, it writes to the thread's buffer.
fn delegated(state: &Emulation, home: usize, bytes: u64) -> Access<'static> {
    let buffer = Part {
        place: state.place_of(home, Some(MemoryKind::Dram)).unwrap(),
        bytes,
        cached_bytes: 0,
        is_buffer: true,
    };
    Access {
        rest: Vec::leak(vec![buffer]),
        ..access(state, 0, MemoryKind::Dram, (AccessKind::Read, bytes))
    }
}

#[test]
fn delegated_bytes_cross_the_link_to_the_caller() {
    let bytes = 256 << 10;
    let carried = |home: usize| {
        let state = emulated("odin-8s");
        let copy = delegated(&state, home, bytes);
        let mut loops: Vec<Loop> = (0..12).map(|_| Loop::new(&state, 0, copy)).collect();
        let rates = run(&state, &mut loops, LENGTH_NS * 8, |_| 0);
        rates.iter().sum::<f64>() * bytes as f64 * 1e9
    };
    let state = emulated("odin-8s");
    let costs = state.costs().unwrap();
    let way: Vec<usize> = costs.lanes_of(AccessKind::Read, 1, 0).collect();
    let link_bytes_s = costs.lanes()[way[0]].bytes_s;
    assert_close(carried(1), link_bytes_s, 0.03, "the link is full");
    let local = carried(0);
    assert!(local > 1.3 * link_bytes_s, "{local}: no link on the way");
}

#[test]
fn a_delegated_access_takes_both_copies_and_the_handing_over() {
    let state = emulated("odin-8s");
    let costs = state.costs().unwrap();
    let bytes = 256 << 10;
    let copy = delegated(&state, 1, bytes);
    let owed_ns = 1_000;
    let mut loops = [Loop::new(&state, 0, Access { owed_ns, ..copy })];
    let rate = run(&state, &mut loops, LENGTH_NS * 8, |_| 0)[0];
    let ns = copy.parts().map(|part| {
        let of_memory = part.of_memory(0);
        costs.access_ns(&of_memory, 1.0, 0.0)
    });
    let expected_ns = ns.sum::<f64>() + owed_ns as f64;
    assert_close(1.0 / rate, expected_ns, 0.02, "read, written, handed over");
    assert!(
        state.dram_bytes(1).unwrap() > bytes,
        "written to the buffer"
    );
}

/// Four jobs that begin at once: the last ends when the memory has served all, not its own time later.
#[test]
fn jobs_of_one_access_are_served_in_turn() {
    let (jobs, bytes) = (4, 256 << 20);
    let last_ended_ns = |in_burst: bool| {
        let state = emulated("odin-8s");
        let read = (AccessKind::Read, bytes);
        let job = Access {
            in_burst,
            ..access(&state, 0, MemoryKind::Persistent, read)
        };
        let ends = (0..jobs).map(|_| {
            let mut one = Loop::new(&state, 0, job);
            let begun_ns = state.at_ns(one.next_ns);
            one.go(&state, 0);
            let ended_ns = one.thread.ended_ns.load(Relaxed);
            let medium = state.costs().unwrap().places[job.place].memory.medium();
            let most_bytes_s = medium.capacity_bytes_s(AccessKind::Read, false, jobs);
            (
                (ended_ns - begun_ns) as f64 / state.dilation(),
                most_bytes_s,
            )
        });
        ends.fold((0.0, 0.0), |last: (f64, f64), end| {
            (last.0.max(end.0), end.1)
        })
    };
    let (burst_ns, most_bytes_s) = last_ended_ns(true);
    let served_ns = f64::from(jobs) * bytes as f64 / most_bytes_s * 1e9;
    assert_close(burst_ns, served_ns, 0.1, "all are served");
    assert!(
        last_ended_ns(false).0 > 1.2 * burst_ns,
        "one after the other"
    );
}

#[test]
fn computing_does_not_overlap_with_waiting_for_delegates() {
    let state = emulated("odin-8s");
    let read = access(&state, 0, MemoryKind::Dram, (AccessKind::Read, 4096));
    let access_ns = {
        let mut loops = [Loop::new(&state, 0, read)];
        1.0 / run(&state, &mut loops, LENGTH_NS, |_| 0)[0]
    };
    let (computed_ns, waited_ns) = (3_000, 5_000);
    let state = emulated("odin-8s");
    let computes = Access {
        computed_ns,
        ..read
    };
    let mut one = Loop::new(&state, 0, computes);
    one.waited_ns = waited_ns * state.dilation() as u64;
    let rate = run(&state, &mut [one], LENGTH_NS, |_| 0)[0];
    let expected_ns = access_ns + (computed_ns + waited_ns) as f64;
    assert_close(1.0 / rate, expected_ns, 0.02, "one after the other");
}

#[test]
fn accessors_lose_what_the_curve_takes() {
    let state = emulated("odin-8s");
    let costs: &AccessCosts = state.costs().unwrap();
    let write = (AccessKind::Write, 1 << 16);
    let writes = access(&state, 0, MemoryKind::Persistent, write);
    for threads in [1, 4, 16, 24] {
        let state = emulated("odin-8s");
        let mut loops: Vec<Loop> = (0..threads).map(|_| Loop::new(&state, 0, writes)).collect();
        let rates = run(&state, &mut loops, LENGTH_NS, |_| 0);
        let of_memory = costs::Access {
            kind: AccessKind::Write,
            home: 0,
            place: writes.place,
            bytes: 1 << 16,
            pattern: Pattern::Sequential,
            at_once: false,
        };
        let beside = Beside {
            accessors: threads as f64,
            written_share: 1.0,
            shared_reads: false,
        };
        let alone_ns = costs.access_ns(&of_memory, threads as f64, 0.0);
        let service_ns = costs.service_ns(&of_memory, beside);
        let expected = (threads as f64 / alone_ns).min(1.0 / service_ns);
        assert_close(rates.iter().sum(), expected, 0.05, &format!("{threads}"));
    }
}

#[test]
fn nodes_without_cores_run_no_threads_and_hold_data() {
    let state = emulated("epyc-2s-cxl");
    let expander = (0..state.node_count()).find_map(|node| {
        let place = state.place_of(node, Some(MemoryKind::Expander))?;
        Some((node, place))
    });
    let (node, place) = expander.expect("an expander");
    assert_eq!(state.costs().unwrap().cores[node], 0);
    let reads = random(place, 4096, AccessKind::Read);
    let mut loops = [Loop::new(&state, 0, reads)];
    assert!(run(&state, &mut loops, LENGTH_NS, |_| 0)[0] > 0.0);
    let threads: Vec<_> = (0..32).map(|_| super::EmulatedThread::default()).collect();
    let all = u32::MAX;
    assert!(
        threads
            .iter()
            .all(|thread| state.place(thread, 1, all) != node)
    );
}

#[test]
fn description_in_shared_memory_is_looked_at() {
    let machine = Machine::profile("odin-8s").unwrap().emulate(64.0).unwrap();
    let state = Emulation::private(&machine).unwrap();
    assert_eq!(state.machine().unwrap(), machine);
    assert!(Emulation::off().machine().is_err());
    state.spoil_description();
    assert!(state.machine().is_err());
}

#[test]
fn striped_accesses_of_many_threads_use_all_memories_at_once() {
    let state = emulated("odin-8s");
    let place = |node: usize| state.place_of(node, Some(MemoryKind::Persistent)).unwrap();
    let bytes = 256 << 10;
    let part = |node: usize| Part {
        place: place(node),
        bytes,
        cached_bytes: 0,
        is_buffer: false,
    };
    let rest: &'static [Part] = Vec::leak((1..8).map(part).collect());
    let striped = Access {
        at_once: false,
        in_burst: false,
        rest,
        ..access(
            &state,
            0,
            MemoryKind::Persistent,
            (AccessKind::Write, bytes),
        )
    };
    let mut loops: Vec<Loop> = (0..32)
        .map(|thread| Loop::new(&state, thread % 8, striped))
        .collect();
    let rates = run(&state, &mut loops, LENGTH_NS * 8, |_| 0);
    let striped_bytes_s = rates.iter().sum::<f64>() * (8 * bytes) as f64;
    // An equal number of bytes, each thread at the memory of one node, from the nodes that the stripes come from.
    let state = emulated("odin-8s");
    let single = |thread: usize| {
        let write = (AccessKind::Write, 8 * bytes);
        let node = (thread + thread / 8) % 8;
        Loop::new(
            &state,
            thread % 8,
            access(&state, node, MemoryKind::Persistent, write),
        )
    };
    let mut loops: Vec<Loop> = (0..32).map(single).collect();
    let rates = run(&state, &mut loops, LENGTH_NS * 8, |_| 0);
    let single_bytes_s = rates.iter().sum::<f64>() * (8 * bytes) as f64;
    let of_single = striped_bytes_s / single_bytes_s;
    assert!(of_single > 0.6, "{of_single}: all nodes work at once");
    // All threads in step: each is at one memory for an eighth of the time, so four are at each, as in the model.
    let costs = state.costs().unwrap();
    let service_ns = |home: usize| {
        let write = (AccessKind::Write, bytes);
        let part = access(&state, 0, MemoryKind::Persistent, write).of_memory(home);
        let beside = Beside {
            accessors: 4.0,
            written_share: 1.0,
            shared_reads: false,
        };
        costs.service_ns(&part, beside)
    };
    let a_round_ns: f64 = (0..32).map(|thread| service_ns(thread % 8)).sum();
    let bound_bytes_s = 32.0 * (8 * bytes) as f64 / a_round_ns;
    assert_close(striped_bytes_s, bound_bytes_s, 0.05, "four at each memory");
}

/// Rates are by the machine's clock, however busy the host is.
#[test]
fn a_flow_carries_what_one_thread_reads_until_it_is_stopped() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let state = emulated("optane-1s");
    state.set_timing(true);
    let place = state.place_of(0, Some(MemoryKind::Dram)).unwrap();
    let flow = super::Flow {
        home: 0,
        place,
        threads: 1,
        bytes: 16 << 10,
        pattern: Pattern::Sequential,
        kinds: [AccessKind::Read; 2],
        at_once: true,
        is_cached: false,
    };
    let (time, stop) = (std::time::Duration::from_millis(5), AtomicBool::new(false));
    let run = |flow| state.run_flows(&[flow], time, &stop).unwrap().bytes_s[0];
    let expected_bytes_s = AccessCosts::of(&state.machine().unwrap()).places[place]
        .memory
        .read_stream_bytes_s;
    assert_close(run(flow), expected_bytes_s, 0.02, "one thread");
    for (home, place) in [(7, place), (0, 99)] {
        let nowhere = super::Flow {
            home,
            place,
            ..flow
        };
        assert_eq!(run(nowhere), 0.0);
    }
    stop.store(true, Relaxed);
    assert_eq!(run(flow), 0.0);
}
