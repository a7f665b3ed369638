//! Cost of having too few cores, and when moving a thread takes effect; in virtual time.

use egeria_machine::{AccessKind, Machine};

use super::access::Access;
use super::clock;
use super::machine::Emulation;
use super::state::EmulatedThread;
use super::tests::{Loop, assert_close, random, run};

fn configured() -> Emulation {
    Emulation::private(&Machine::profile("optane-2s").unwrap()).unwrap()
}

/// Operations per machine ns of threads on these nodes, each on memory of its own node.
fn speed(homes: &[usize], access: Access<'static>) -> f64 {
    let state = configured();
    let local = |&home: &usize| {
        let access = Access {
            place: state.place_of(home, None).unwrap(),
            ..access
        };
        Loop::new(&state, home, access)
    };
    let mut loops: Vec<Loop> = homes.iter().map(local).collect();
    run(&state, &mut loops, 200_000_000, |_| 0).iter().sum()
}

/// A read of 64 bytes: the medium is idle, so only cores can be short.
fn small_read(computed_ns: u64) -> Access<'static> {
    Access {
        computed_ns,
        ..random(0, 64, AccessKind::Read)
    }
}

#[test]
fn twice_the_threads_on_the_cores_take_twice_the_time() {
    let one_node = [0; 8];
    let both = [0, 0, 0, 0, 1, 1, 1, 1];
    // Waiting for the medium occupies a core as computing does.
    for computed_ns in [0, 300, 3_000, 30_000] {
        let access = small_read(computed_ns);
        let times = speed(&both, access) / speed(&one_node, access);
        assert_close(times, 2.0, 0.02, &format!("{computed_ns} ns of computing"));
    }
}

#[test]
fn a_thread_that_moves_leaves_its_core_to_the_others() {
    let state = configured();
    let mut loops: Vec<Loop> = (0..8)
        .map(|_| Loop::new(&state, 0, small_read(3_000)))
        .collect();
    let crowded: f64 = run(&state, &mut loops, 200_000_000, |_| 0).iter().sum();
    for one in &mut loops[4..] {
        assert_eq!(state.place(&one.thread, 2, 0b10), 1);
        one.home = 1;
    }
    let began_ns = loops.iter().map(|one| one.next_ns).max().unwrap();
    let before: u64 = loops.iter().map(|one| one.accesses).sum();
    let length_ns = 200_000_000;
    loop {
        let first = loops.iter_mut().min_by_key(|one| one.next_ns).unwrap();
        if first.next_ns > began_ns + length_ns {
            break;
        }
        first.go(&state, 0);
    }
    let after: u64 = loops.iter().map(|one| one.accesses).sum();
    let spread = (after - before) as f64 / (length_ns as f64 / state.dilation());
    // Four of the eight now read remotely: a little of their time is distance.
    let node = &Machine::profile("optane-2s")
        .unwrap()
        .emulated
        .unwrap()
        .nodes[0];
    let time_ns = |remote| 3_000.0 + node.undisturbed_ns(64, AccessKind::Read, remote, 8);
    let expected = 4.0 / time_ns(false) + 4.0 / time_ns(true);
    assert_close(spread, expected, 0.03, "a core for each");
    assert!(spread > 1.8 * crowded, "{spread} {crowded}");
}

#[test]
fn a_new_affinity_takes_effect_within_milliseconds() {
    let state = configured();
    let thread = EmulatedThread::default();
    let at = |ms: u64, allowed: u32| state.node_of_thread_at(&thread, ms * 1_000_000, || allowed);
    assert_eq!(at(1_000, 0b01), 0);
    // The affinity is read every 4 ms, not at every access.
    assert_eq!(at(1_003, 0b10), 0);
    assert_eq!(at(1_004, 0b10), 1);
    assert_eq!(at(1_009, 0b01), 0);
}

#[test]
fn what_a_wait_computes_is_not_charged() {
    const SPUN_NS: u64 = 10_000_000;
    let spin = || {
        let begun_ns = clock::thread_cpu_ns();
        while clock::thread_cpu_ns() - begun_ns < SPUN_NS {}
    };
    let state = configured();
    state.set_timing(true);
    let thread = EmulatedThread::default();
    let access = || state.access(&thread, 0, 64, AccessKind::Read);
    access();
    state.wait(&thread, spin);
    access();
    assert!(
        thread.computed_ns() < SPUN_NS / 2,
        "{}",
        thread.computed_ns()
    );
    spin();
    access();
    assert!(thread.computed_ns() >= SPUN_NS, "{}", thread.computed_ns());
}
