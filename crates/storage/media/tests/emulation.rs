//! The emulation as other crates use it: with real threads and the host's clock.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::time::{Duration, Instant};

use egeria_machine::Machine;
use egeria_media::emulation::{AccessKind, EmulatedThread, Emulation, EmulationState};

fn configured(profile: &str) -> Emulation {
    Emulation::private(&Machine::profile(profile).unwrap()).unwrap()
}

#[test]
fn zeroed_state_charges_nothing() {
    let state = Emulation::off();
    let thread = EmulatedThread::default();
    state.set_timing(true);
    state.begin_access(&thread);
    state.access(&thread, 0, u64::MAX, AccessKind::Read);
    assert!(!state.is_on() && !state.is_configured());
    assert_eq!(
        (
            state.node_of_thread(&thread),
            thread.accesses(),
            thread.busy_ns()
        ),
        (0, 0, 0)
    );
    state.release_thread(&thread);
}

#[test]
fn an_access_never_ends_before_the_profile_says() {
    let machine = Machine::profile("optane-2s").unwrap();
    let node = &machine.emulated.as_ref().unwrap().nodes[0];
    let state = configured("optane-2s");
    let thread = EmulatedThread::default();
    let remote = state.node_of_thread(&thread) != 0;
    let began_ns = state.machine_now_ns();
    for _ in 0..10 {
        state.access(&thread, 0, 65_536, AccessKind::Write);
    }
    let min_ns = 10.0 * node.undisturbed_ns(65_536, AccessKind::Write, remote, 1);
    let took_ns = (state.machine_now_ns() - began_ns) as f64;
    assert!(took_ns >= min_ns * 0.999, "{took_ns} {min_ns}");
    assert!(thread.busy_ns() as f64 >= min_ns * 0.999);
    assert_eq!(thread.accesses(), 10);
}

#[test]
fn timing_can_be_off_while_data_is_prepared() {
    let state = configured("optane-2s");
    let thread = EmulatedThread::default();
    state.set_timing(false);
    state.access(&thread, 0, 1 << 40, AccessKind::Write);
    assert_eq!(thread.accesses(), 0);
    state.set_timing(true);
    state.access(&thread, 0, 64, AccessKind::Write);
    assert_eq!(thread.accesses(), 1);
    assert_eq!(
        thread.computed_ns(),
        0,
        "what was computed while off is not charged"
    );
}

#[test]
fn declared_nodes_without_timing_are_only_places() {
    let state = configured("dram-2s");
    let threads: Vec<EmulatedThread> = (0..2).map(|_| EmulatedThread::default()).collect();
    state.set_timing(true);
    assert!(state.is_configured() && !state.is_on());
    assert_eq!(state.node_count(), 2);
    state.access(&threads[0], 0, 1 << 40, AccessKind::Read);
    assert_eq!(threads[0].accesses(), 0);
}

#[test]
fn memories_that_do_not_exist_are_free() {
    let state = configured("optane-2s");
    let thread = EmulatedThread::default();
    state.access(&thread, 7, 1 << 40, AccessKind::Read);
    state.access(&thread, usize::MAX, 1 << 40, AccessKind::Read);
    assert_eq!(thread.accesses(), 0);
}

#[test]
fn a_thread_follows_its_affinity() {
    let machine = Machine::profile("optane-2s").unwrap();
    let cpus: Vec<usize> = machine
        .nodes
        .iter()
        .map(|node| usize::from(node.cpus[0].0))
        .collect();
    // With one CPU both nodes stand on it, and affinity tells nothing.
    if !egeria_harness::testing::has_two_cpus() {
        return;
    }
    let state = configured("optane-2s");
    let thread = EmulatedThread::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for node in [1usize, 0, 1] {
                pin_to(cpus[node]);
                let until = Instant::now() + Duration::from_secs(20);
                while state.node_of_thread(&thread) != node {
                    assert!(Instant::now() < until, "never followed to node {node}");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
    });
}

fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("a CPU that is allowed");
}

#[test]
fn state_and_thread_are_of_fixed_size() {
    assert_eq!(size_of::<EmulatedThread>(), 256);
    // Sparse: the tags of the largest caches of the most nodes.
    assert!(EmulationState::size() <= 4 << 20);
}
