//! What last-level caches hold and what time that saves, in virtual time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use egeria_machine::{AccessKind, Machine};

use super::Readers;
use super::access::Access;
use super::machine::Emulation;
use super::sharing::{Course, expected_ns};
use super::state::EmulatedThread;
use super::tests::{Loop, assert_close, random, run};
use crate::{BLOCK_BYTES, PoolIndex, PoolOffset};

const READ: AccessKind = AccessKind::Read;

fn machine(llc_bytes: u64) -> Machine {
    let mut machine = Machine::profile("optane-2s").unwrap();
    for node in &mut machine.emulated.as_mut().unwrap().nodes {
        node.llc_bytes = llc_bytes;
        if llc_bytes == 0 {
            (node.llc_latency_ns, node.llc_read_bytes_s) = (0.0, 0.0);
        }
    }
    machine
}

fn configured(llc_bytes: u64) -> Emulation {
    Emulation::private(&machine(llc_bytes)).unwrap()
}

fn on(state: &Emulation, home: usize) -> EmulatedThread {
    let thread = EmulatedThread::default();
    // A time in the future, so that the affinity of the test's own thread is never read.
    assert_eq!(state.place(&thread, u64::MAX / 2, 1 << home), home);
    thread
}

/// Bytes that a read finds in the cache.
fn found(state: &Emulation, thread: &EmulatedThread, offset: u64, bytes: u64) -> u64 {
    let place = (PoolIndex(0), PoolOffset(offset));
    state.touch(thread, 0, place, bytes, READ);
    thread.take_cached(0)
}

fn write(state: &Emulation, thread: &EmulatedThread, offset: u64, bytes: u64) {
    let place = (PoolIndex(0), PoolOffset(offset));
    state.touch(thread, 0, place, bytes, AccessKind::Write);
    assert_eq!(thread.take_cached(0), 0);
}

#[test]
fn a_block_is_cached_on_the_node_of_who_read_it() {
    let state = configured(1 << 20);
    let (one, other, remote) = (on(&state, 0), on(&state, 0), on(&state, 1));
    assert_eq!(found(&state, &one, 8192, 4096), 0);
    assert_eq!(found(&state, &one, 8192, 4096), 4096);
    assert_eq!(found(&state, &other, 8192, 4096), 4096, "its node shares");
    assert_eq!(found(&state, &remote, 8192, 4096), 0, "another does not");
    assert_eq!(found(&state, &remote, 8192, 4096), 4096);
    let place = (PoolIndex(1), PoolOffset(8192));
    state.touch(&one, 0, place, 4096, READ);
    assert_eq!(one.take_cached(0), 0, "another pool's block");
}

#[test]
fn a_small_read_brings_in_what_the_medium_reads_at_once() {
    let state = configured(1 << 20);
    let thread = on(&state, 0);
    assert_eq!(found(&state, &thread, 4096 + 300, 10), 0);
    assert_eq!(found(&state, &thread, 4096 + 256, 256), 256);
    assert_eq!(found(&state, &thread, 4096, 256), 0);
    assert_eq!(found(&state, &thread, 4096, 4096), 512);
    // From the end of one block, of which the last 100 bytes are cached, into an uncached one.
    assert_eq!(found(&state, &thread, 2 * 4096 - 100, 300), 100);
    assert_eq!(found(&state, &thread, 2 * 4096 - 100, 300), 300);
    assert_eq!(found(&state, &thread, 2 * 4096, 512), 256);
    assert_eq!(found(&state, &thread, 0, 0), 0);
}

#[test]
fn a_write_throws_its_blocks_out_of_every_cache() {
    let state = configured(1 << 20);
    let threads = [on(&state, 0), on(&state, 1)];
    for thread in &threads {
        found(&state, thread, 0, 4 * 4096);
        assert_eq!(found(&state, thread, 0, 4 * 4096), 4 * 4096);
    }
    write(&state, &threads[0], 4096 + 5, 4096);
    for thread in &threads {
        assert_eq!(found(&state, thread, 0, 4 * 4096), 2 * 4096);
    }
}

#[test]
fn a_cache_holds_what_it_can_and_no_more() {
    for llc_bytes in [32 << 10, 64 << 10, 1 << 20, 64 << 20] {
        let state = configured(llc_bytes);
        let thread = on(&state, 0);
        let pass = |bytes: u64| -> u64 {
            (0..bytes / BLOCK_BYTES)
                .map(|block| found(&state, &thread, block * BLOCK_BYTES, BLOCK_BYTES))
                .sum()
        };
        assert_eq!(pass(llc_bytes / 2), 0, "cold");
        let half = pass(llc_bytes / 2) as f64 / (llc_bytes / 2) as f64;
        assert!(half > 0.95, "{llc_bytes}: {half} of half its size");
        pass(4 * llc_bytes);
        let held = pass(4 * llc_bytes);
        assert!(held <= llc_bytes, "{llc_bytes}: {held} of four times");
    }
}

#[test]
fn what_is_prepared_without_timing_is_not_cached() {
    let state = configured(1 << 20);
    let thread = on(&state, 0);
    found(&state, &thread, 0, 4096);
    state.set_timing(false);
    found(&state, &thread, 4096, 4096);
    write(&state, &thread, 0, 4096);
    state.set_timing(true);
    assert_eq!(found(&state, &thread, 0, 2 * 4096), 0);
}

#[test]
fn without_a_cache_and_with_nonsense_nothing_is_found() {
    let state = configured(0);
    let thread = on(&state, 0);
    assert_eq!(found(&state, &thread, 0, 4096), 0);
    assert_eq!(found(&state, &thread, 0, 4096), 0);
    let state = configured(1 << 20);
    let thread = on(&state, 0);
    for (pool, offset, bytes) in [
        (0, u64::MAX, u64::MAX),
        (255, u64::MAX - 4095, 4096),
        (255, 1 << 51, 1 << 40),
    ] {
        let place = (PoolIndex(pool), PoolOffset(offset));
        for kind in [READ, AccessKind::Write, READ] {
            state.touch(&thread, 0, place, bytes, kind);
        }
        assert_eq!(thread.take_cached(0), 0);
    }
    state.touch(
        &thread,
        usize::MAX,
        (PoolIndex(0), PoolOffset(0)),
        4096,
        READ,
    );
}

#[test]
fn threads_that_race_leave_only_what_was_read() {
    let state = configured(64 << 10);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let state = &state;
            scope.spawn(move || {
                let thread = on(state, number % 2);
                for step in 0..20_000_u64 {
                    let block = step.wrapping_mul(0x9E37_79B9) % 64;
                    match step % 7 {
                        0 => write(state, &thread, block * BLOCK_BYTES, BLOCK_BYTES),
                        _ => assert!(found(state, &thread, block * BLOCK_BYTES, 512) <= 512),
                    }
                }
            });
        }
    });
    let threads = [on(&state, 0), on(&state, 1)];
    write(&state, &threads[0], 0, 64 * BLOCK_BYTES);
    for thread in &threads {
        assert_eq!(found(&state, thread, 0, 64 * BLOCK_BYTES), 0);
    }
}

fn cached_read(memory_node: usize, cached_bytes: u64) -> Access<'static> {
    let places = configured(1 << 20);
    let place = places.place_of(memory_node, None).unwrap();
    Access {
        cached_bytes,
        ..random(place, 65_536, READ)
    }
}

#[test]
fn cached_reads_take_the_caches_time_wherever_the_memory_is() {
    let machine = machine(1 << 20);
    let node = &machine.emulated.as_ref().unwrap().nodes[0];
    for (threads, memory_node) in [(1, 0), (4, 0), (1, 1), (4, 1)] {
        let state = configured(1 << 20);
        let access = cached_read(memory_node, 65_536);
        let mut loops: Vec<Loop> = (0..threads).map(|_| Loop::new(&state, 0, access)).collect();
        for rate in run(&state, &mut loops, 100_000_000, |_| 0) {
            assert_close(1.0 / rate, node.cached_ns(65_536), 0.02, "cached");
        }
        let one = &loops[0];
        assert_eq!(one.thread.cached_bytes(), one.accesses * 65_536);
    }
}

#[test]
fn cached_reads_leave_the_medium_to_others() {
    // Three threads from the cache, one that writes as if it were alone.
    let state = configured(1 << 20);
    let writes = Access {
        kind: AccessKind::Write,
        ..cached_read(0, 0)
    };
    let mut loops: Vec<Loop> = (0..3)
        .map(|_| Loop::new(&state, 0, cached_read(0, 65_536)))
        .collect();
    loops.push(Loop::new(&state, 0, writes));
    let rates = run(&state, &mut loops, 200_000_000, |_| 0);
    let alone = machine(1 << 20).emulated.unwrap().nodes[0].undisturbed_ns(
        65_536,
        AccessKind::Write,
        false,
        1,
    );
    assert_close(1.0 / rates[3], alone, 0.02, "the writer");
}

#[test]
fn a_read_that_is_half_cached_takes_both_times() {
    let machine = machine(1 << 20);
    let node = &machine.emulated.as_ref().unwrap().nodes[0];
    let state = configured(1 << 20);
    let mut loops = [Loop::new(&state, 0, cached_read(0, 32_768))];
    let rates = run(&state, &mut loops, 100_000_000, |_| 0);
    let from_medium_ns = node.undisturbed_ns(32_768, READ, false, 1);
    let from_cache_ns = node.cached_ns(32_768) - node.llc_latency_ns;
    assert_close(1.0 / rates[0], from_medium_ns + from_cache_ns, 0.02, "both");
}

/// Mean time of two readers, in virtual time.
fn mean_ns(readers: Readers) -> f64 {
    let state = Emulation::private(&Machine::profile("optane-2s").unwrap()).unwrap();
    let given = [AtomicU64::new(0), AtomicU64::new(0)];
    let courses = Course::of(readers, 1, &given);
    let mut loops = courses.each_ref().map(|course| {
        let one = Loop::new(&state, course.home, cached_read(0, 0));
        one.thread.placed_ns.store(u64::MAX / 2, Relaxed);
        one
    });
    let length_ns = 400_000_000;
    let end_ns = loops[0].next_ns + length_ns;
    loop {
        let next = usize::from(loops[1].next_ns < loops[0].next_ns);
        if loops[next].next_ns >= end_ns {
            break;
        }
        loops[next].access = courses[next].next(&state, &loops[next].thread);
        loops[next].go(&state, 0);
    }
    let reads: u64 = loops.iter().map(|one| one.accesses).sum();
    2.0 * length_ns as f64 / state.dilation() / reads as f64
}

/// NThread §III-D (claim N07) and what follows from it and from distance (claim N01).
#[test]
fn readers_together_gain_what_the_profile_says() {
    let machine = Machine::profile("optane-2s").unwrap();
    let nodes = &machine.emulated.as_ref().unwrap().nodes;
    let expected = |readers| expected_ns((&nodes[0], &nodes[1]), readers);
    let together_ns = mean_ns(Readers::Together);
    for readers in [Readers::Together, Readers::OwnFiles, Readers::OwnNodes] {
        let what = format!("{readers:?}");
        assert_close(mean_ns(readers), expected(readers), 0.02, &what);
    }
    let gain = mean_ns(Readers::OwnFiles) / together_ns;
    assert_close(gain, 1.315, 0.02, "NThread's 31.5 %");
}
