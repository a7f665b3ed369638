//! Which node a thread is placed on, and which machines can be emulated.

use std::sync::atomic::Ordering::Relaxed;

use egeria_machine::AccessKind;

use super::EmulationError;
use super::machine::Emulation;
use super::place::allowed_nodes;
use super::state::{CPU_WORDS, EmulatedThread, EmulationState, SLOTS};
use super::tests::{Loop, configured, machine, random};

#[test]
fn threads_spread_over_the_nodes_and_make_room_when_they_end() {
    let state = configured();
    let threads: Vec<EmulatedThread> = (0..8).map(|_| EmulatedThread::default()).collect();
    let nodes: Vec<usize> = threads
        .iter()
        .map(|thread| state.place(thread, 1, 0b11))
        .collect();
    assert_eq!(nodes, [0, 1, 0, 1, 0, 1, 0, 1]);
    for thread in [&threads[1], &threads[3]] {
        state.release_thread(thread);
        assert_eq!(state.placed_node(thread), None);
    }
    assert_eq!(state.place(&threads[3], 1, 0b11), 1);
    assert_eq!(state.place(&threads[1], 1, 0b11), 1);
    assert_eq!(threads[1].accesses(), 0);
}

#[test]
fn only_affinity_moves_a_placed_thread() {
    let state = configured();
    let thread = EmulatedThread::default();
    assert_eq!(state.place(&thread, 1, 0b10), 1);
    assert_eq!(state.place(&thread, 2, 0b11), 1, "still allowed: stays");
    assert_eq!(state.place(&thread, 3, 0), 1, "CPUs of no node: stays");
    assert_eq!(state.place(&thread, 4, 0b01), 0);
    assert_eq!(state.placed_node(&thread), Some(0));
}

#[test]
fn threads_placed_at_once_still_spread() {
    let state = configured();
    let threads: Vec<EmulatedThread> = (0..32).map(|_| EmulatedThread::default()).collect();
    std::thread::scope(|scope| {
        for thread in &threads {
            let state = &state;
            scope.spawn(move || state.place(thread, 1, 0b11));
        }
    });
    let on_first = threads
        .iter()
        .filter(|thread| state.placed_node(thread) == Some(0))
        .count();
    assert_eq!(on_first, 16);
}

#[test]
fn whoever_dies_while_placing_blocks_nobody() {
    let state = configured();
    state.placing_since_ns.store(1, Relaxed);
    assert_eq!(state.place(&EmulatedThread::default(), 1, 0b11), 0);
    assert_eq!(state.placing_since_ns.load(Relaxed), 0);
}

#[test]
fn more_threads_than_slots_are_still_charged() {
    let state = configured();
    let threads: Vec<EmulatedThread> = (0..SLOTS + 3).map(|_| EmulatedThread::default()).collect();
    for thread in &threads {
        assert!(state.place(thread, 1, 0b11) < 2);
    }
    let access = random(1, 4096, AccessKind::Read);
    let mut extra = Loop::new(&state, 0, access);
    extra.go(&state, 0);
    assert_eq!(extra.thread.accesses(), 1);
    for thread in threads.iter().chain([&extra.thread]) {
        state.release_thread(thread);
    }
    assert!(state.used_slots.iter().all(|word| word.load(Relaxed) == 0));
}

#[test]
fn cpus_tell_nodes() {
    let mut machine = machine();
    machine.nodes[0].cpus = [0, 2, 70].map(egeria_machine::CpuId).into();
    machine.nodes[1].cpus = [1, 3, 1023].map(egeria_machine::CpuId).into();
    let state = Emulation::private(&machine).unwrap();
    let allowed = |cpus: &[usize]| {
        let mut mask = [0u64; CPU_WORDS];
        cpus.iter()
            .for_each(|cpu| mask[cpu / 64] |= 1 << (cpu % 64));
        allowed_nodes(&state, &mask)
    };
    assert_eq!(allowed(&[0]), 0b01);
    assert_eq!(allowed(&[70, 2]), 0b01);
    assert_eq!(allowed(&[1023]), 0b10);
    assert_eq!(allowed(&[0, 3]), 0b11);
    assert_eq!(allowed(&[9]), 0);
}

#[test]
fn machines_that_cannot_be_emulated_are_refused() {
    let state = EmulationState::boxed();
    let mut plain = machine();
    plain.emulated = None;
    assert!(matches!(
        state.configure(&plain),
        Err(EmulationError::NotEmulated(_))
    ));
    let mut wide = machine();
    wide.emulated.as_mut().unwrap().nodes[1].cores = 129;
    let error = state.configure(&wide).unwrap_err().to_string();
    assert!(
        error.contains("129 cores in a node, at most 128"),
        "{error}"
    );
    assert!(!state.is_configured() && !state.is_on() && state.node_count() == 0);
}
