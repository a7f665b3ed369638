//! The emulation's arithmetic, in virtual time: no clock, no sleep.

use std::sync::atomic::Ordering::Relaxed;

use egeria_machine::costs::{Beside, Pattern};
use egeria_machine::{AccessKind, Machine};

use super::access::{Access, Cost};
use super::charge::{blocked, sleep};
use super::clock;
use super::machine::Emulation;
use super::self_test::expected_ns;
use super::state::EmulatedThread;

const KINDS: [AccessKind; 2] = [AccessKind::Read, AccessKind::Write];
const START_NS: u64 = 1 << 40;

pub(super) fn machine() -> Machine {
    Machine::profile("optane-2s").unwrap()
}

pub(super) fn configured() -> Emulation {
    Emulation::private(&machine()).unwrap()
}

/// An access at random places, not cached, by a thread that computes nothing before it.
pub(super) fn random(place: usize, bytes: u64, kind: AccessKind) -> Access<'static> {
    Access {
        place,
        bytes,
        kind,
        cached_bytes: 0,
        computed_ns: 0,
        owed_ns: 0,
        pattern: Pattern::Random,
        at_once: false,
        in_burst: false,
        rest: &[],
    }
}

/// A thread that does nothing but compute and access, in virtual time.
pub(super) struct Loop {
    pub(super) thread: EmulatedThread,
    pub(super) home: usize,
    pub(super) access: Access<'static>,
    /// How long it waits for delegates before each access, host ns.
    pub(super) waited_ns: u64,
    /// Host time of its next access.
    pub(super) next_ns: u64,
    pub(super) accesses: u64,
}

impl Loop {
    pub(super) fn new(state: &Emulation, home: usize, access: Access<'static>) -> Loop {
        let thread = EmulatedThread::default();
        assert_eq!(state.place(&thread, 1, 1 << home), home);
        Loop {
            thread,
            home,
            access,
            waited_ns: 0,
            next_ns: START_NS,
            accesses: 0,
        }
    }

    /// One access; the thread wakes `late_ns` after its end.
    pub(super) fn go(&mut self, state: &Emulation, late_ns: u64) {
        let now_ns = self.next_ns;
        state.restart(&self.thread, now_ns);
        let waited_ns = if self.accesses == 0 {
            0
        } else {
            self.waited_ns
        };
        self.thread.waited_ns.store(waited_ns, Relaxed);
        let on_core = state.take_core(
            state.costs().unwrap(),
            &self.thread,
            self.home,
            now_ns,
            self.access,
            || true,
        );
        let asked_ns = state.at_ns(now_ns);
        let ended_ns = state.use_memory(
            state.costs().unwrap(),
            &self.thread,
            self.home,
            &on_core,
            asked_ns,
            self.access,
        );
        let woke_ns = (ended_ns + state.stalled_ns()).max(now_ns) + late_ns;
        state.wake(&self.thread, woke_ns);
        // Real computing takes its own time before the next access, undilated.
        self.next_ns = woke_ns + self.access.computed_ns + self.waited_ns;
        self.accesses += 1;
    }
}

/// Accesses per machine ns of each loop, over the second half of `length_ns` host time.
pub(super) fn run(
    state: &Emulation,
    loops: &mut [Loop],
    length_ns: u64,
    late: impl Fn(u64) -> u64,
) -> Vec<f64> {
    let mut before = vec![0; loops.len()];
    let mut half = None;
    loop {
        let first = loops.iter_mut().min_by_key(|one| one.next_ns).unwrap();
        let now_ns = first.next_ns;
        if now_ns > START_NS + length_ns {
            break;
        }
        first.go(state, late(now_ns));
        if half.is_none() && now_ns > START_NS + length_ns / 2 {
            half = Some(state.stalled_ns());
            before = loops.iter().map(|one| one.accesses).collect();
        }
    }
    let stalled_ns = state.stalled_ns() - half.unwrap_or_default();
    let machine_ns = (length_ns / 2 - stalled_ns) as f64 / state.dilation();
    loops
        .iter()
        .zip(before)
        .map(|(one, before)| (one.accesses - before) as f64 / machine_ns)
        .collect()
}

/// Mean machine time of an access in a run of equal threads of one node.
fn operation_ns(
    threads: u32,
    home: usize,
    access: Access<'static>,
    late: impl Fn(u64) -> u64,
) -> f64 {
    operation_ns_over(200_000_000, threads, home, access, late)
}

/// Mean machine time of an access in such a run, over this much host time.
fn operation_ns_over(
    length_ns: u64,
    threads: u32,
    home: usize,
    access: Access<'static>,
    late: impl Fn(u64) -> u64,
) -> f64 {
    let state = configured();
    let mut loops: Vec<Loop> = (0..threads)
        .map(|_| Loop::new(&state, home, access))
        .collect();
    let rates = run(&state, &mut loops, length_ns, late);
    f64::from(threads) / rates.iter().sum::<f64>()
}

pub(super) fn assert_close(measured: f64, expected: f64, share: f64, what: &str) {
    assert!(
        (measured / expected - 1.0).abs() < share,
        "{what}: {measured} against {expected}"
    );
}

/// Cost of a local access without contention.
fn alone(bytes: u64, kind: AccessKind) -> Cost {
    let state = configured();
    let access = random(0, bytes, kind);
    state.cost(state.costs().unwrap(), 0, access, (Beside::ALONE, 0.0))
}

#[test]
fn costs_of_tables_are_what_the_tables_declare() {
    let machine = machine();
    let state = configured();
    let costs = state.costs().unwrap();
    let nodes = &machine.emulated.as_ref().unwrap().nodes;
    for (memory_node, node) in nodes.iter().enumerate() {
        let place = state.place_of(memory_node, None).unwrap();
        for kind in KINDS {
            for (remote, threads) in [(false, 1), (false, 3), (true, 1), (true, 8), (true, 60)] {
                for bytes in [128u64, 4096, 1 << 16, 2 << 20, 1 << 30] {
                    let access = random(place, bytes, kind);
                    let home = if remote { 1 - memory_node } else { memory_node };
                    let beside = Beside {
                        accessors: f64::from(threads),
                        written_share: 1.0,
                        shared_reads: true,
                    };
                    let cost = state.cost(costs, home, access, (beside, 0.0));
                    let what = format!("{kind:?} {remote} {threads} {bytes}");
                    let service_ns = node.service_ns(bytes, kind, remote, threads);
                    assert_close(cost.service_ns, service_ns, 1e-9, &what);
                    let undisturbed_ns = node.undisturbed_ns(bytes, kind, remote, threads);
                    assert_close(cost.undisturbed_ns, undisturbed_ns, 1e-9, &what);
                }
            }
        }
    }
}

#[test]
fn bandwidth_and_latency_are_the_profiles_for_1_to_8_threads() {
    let machine = machine();
    for kind in KINDS {
        for (remote, bytes, threads) in
            [(false, 4096), (true, 4096), (false, 65_536), (true, 65_536)]
                .into_iter()
                .flat_map(|(remote, bytes)| (1..=8).map(move |threads| (remote, bytes, threads)))
        {
            let access = random(0, bytes, kind);
            let measured = operation_ns(threads, usize::from(remote), access, |_| 0);
            let what = format!("{kind:?} remote {remote} {bytes} bytes {threads} threads");
            assert_close(
                measured,
                expected_ns(&machine, (threads, kind, remote, bytes), 4),
                0.02,
                &what,
            );
        }
    }
}

#[test]
fn waking_late_does_not_slow_the_machine() {
    // Up to 300 us late, without a regular pattern.
    let late = |now_ns: u64| (now_ns.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % 300_000;
    for (threads, kind) in [
        (1, AccessKind::Read),
        (4, AccessKind::Read),
        (4, AccessKind::Write),
        (7, AccessKind::Write),
    ] {
        let access = random(0, 65_536, kind);
        let punctual = operation_ns(threads, 0, access, |_| 0);
        assert_close(
            operation_ns(threads, 0, access, late),
            punctual,
            0.02,
            "late",
        );
    }
}

#[test]
fn computing_is_dilated_and_occupies_a_core() {
    // Reads of 64 bytes: the medium is idle, the cores are not.
    let access = Access {
        computed_ns: 3_000,
        ..random(0, 64, AccessKind::Read)
    };
    let read_ns = alone(64, AccessKind::Read).undisturbed_ns;
    let alone = 3_000.0 + read_ns;
    for (threads, expected) in [(1, alone), (4, alone), (6, alone * 1.5), (8, alone * 2.0)] {
        assert_close(
            operation_ns(threads, 0, access, |_| 0),
            expected,
            0.02,
            &format!("{threads}"),
        );
    }
}

#[test]
fn time_spent_blocked_counts_and_the_hosts_scheduling_does_not() {
    let access = random(0, 64, AccessKind::Read);
    let state = configured();
    let arrival_ns = |idle_ns: u64, was_blocked: bool| {
        let mut one = Loop::new(&state, 0, access);
        one.go(&state, 0);
        let ended_ns = one.next_ns;
        let on_core = state.take_core(
            state.costs().unwrap(),
            &one.thread,
            0,
            ended_ns + idle_ns,
            access,
            || was_blocked,
        );
        on_core.arrival_ns - ended_ns
    };
    assert_eq!(arrival_ns(1_000_000, true), 1_000_000);
    assert_eq!(arrival_ns(1_000_000, false), 0);
    assert_eq!(arrival_ns(10_000, true), 0, "too little to look into");
}

#[test]
fn clock_stands_still_while_a_thread_lags() {
    let access = random(0, 64, AccessKind::Read);
    let state = configured();
    let arrival_ns = |idle_ns: u64| {
        let mut one = Loop::new(&state, 0, access);
        one.go(&state, 0);
        let ended_ns = state.at_ns(one.next_ns);
        let on_core = state.take_core(
            state.costs().unwrap(),
            &one.thread,
            0,
            one.next_ns + idle_ns,
            access,
            || false,
        );
        on_core.arrival_ns - ended_ns
    };
    assert_eq!((arrival_ns(900_000), state.stalled_ns()), (0, 0));
    assert_eq!(arrival_ns(101_000_000), 0, "none of it is forgiven");
    assert_eq!(
        state.stalled_ns(),
        100_000_000,
        "but for what may be caught up"
    );
    assert_eq!(arrival_ns(10_000_000_000), 10_000_000_000 - 1_001_000_000);
    assert_eq!(state.stalled_ns(), 1_100_000_000, "bounded");
}

#[test]
fn what_others_take_of_the_hosts_cpus_slows_no_thread() {
    // In each 40 ms, a thread gets no CPU for 25: each at another time.
    let access = random(0, 4096, AccessKind::Write);
    let late = |now_ns: u64| match now_ns / 1_000_000 % 40 {
        0 => 25_000_000,
        _ => 0,
    };
    for threads in [1, 4] {
        let quiet = operation_ns(threads, 0, access, |_| 0);
        let busy = operation_ns_over(8_000_000_000, threads, 0, access, late);
        assert_close(busy, quiet, 0.05, &format!("{threads} threads"));
    }
}

#[test]
fn sleeps_of_ours_are_told_from_others() {
    let thread = EmulatedThread::default();
    // The host may block us for other reasons, so several tries.
    let ours = (0..20).any(|_| {
        blocked(&thread);
        sleep(&thread, clock::now_ns() + 1_000_000);
        !blocked(&thread)
    });
    assert!(ours);
    std::thread::sleep(std::time::Duration::from_millis(1));
    assert!(blocked(&thread));
}

#[test]
fn long_computing_leaves_the_medium_to_others() {
    // One thread computes for 1 ms per access; the other has the medium for itself.
    let state = configured();
    let busy = random(0, 65_536, AccessKind::Write);
    let mut loops = [
        Loop::new(
            &state,
            0,
            Access {
                computed_ns: 1_000_000,
                ..busy
            },
        ),
        Loop::new(&state, 0, busy),
    ];
    let rates = run(&state, &mut loops, 200_000_000, |_| 0);
    let alone = alone(65_536, AccessKind::Write).undisturbed_ns;
    assert_close(1.0 / rates[1], alone, 0.05, "undisturbed");
}

#[test]
fn accessors_of_all_nodes_share_the_medium_and_its_curve() {
    let machine = machine();
    let node = &machine.emulated.as_ref().unwrap().nodes[0];
    let state = configured();
    let access = random(0, 65_536, AccessKind::Write);
    let mut loops: Vec<Loop> = (0..8)
        .map(|index| Loop::new(&state, index / 4, access))
        .collect();
    let rates = run(&state, &mut loops, 400_000_000, |_| 0);
    let local: f64 = rates[..4].iter().sum();
    let remote: f64 = rates[4..].iter().sum();
    let use_of_medium = local * node.service_ns(65_536, AccessKind::Write, false, 8)
        + remote * node.service_ns(65_536, AccessKind::Write, true, 8);
    assert_close(
        use_of_medium,
        1.0,
        0.02,
        "the medium is full, at the curve's point for 8",
    );
}

#[test]
fn a_thread_that_vanishes_is_forgotten_after_its_last_access() {
    let access = random(0, 4096, AccessKind::Write);
    let state = configured();
    for home in [0, 0, 0, 1, 1, 1, 1] {
        // Never released, as if killed in the middle.
        Loop::new(&state, home, access).go(&state, 0);
    }
    let mut survivor = Loop::new(&state, 0, access);
    survivor.next_ns = START_NS + 10_000_000;
    let rates = run(&state, &mut [survivor], 200_000_000, |_| 0);
    let alone = alone(4096, AccessKind::Write).undisturbed_ns;
    assert_close(1.0 / rates[0], alone, 0.02, "alone again");
}

#[test]
fn waiting_for_a_core_is_no_busy_time() {
    let access = Access {
        computed_ns: 2_000,
        ..random(0, 64, AccessKind::Read)
    };
    let state = configured();
    let mut loops: Vec<Loop> = (0..8).map(|_| Loop::new(&state, 0, access)).collect();
    run(&state, &mut loops, 100_000_000, |_| 0);
    let machine_ns = 100_000_000.0 / state.dilation();
    let busy: u64 = loops.iter().map(|one| one.thread.busy_ns()).sum();
    assert_close(busy as f64, 4.0 * machine_ns, 0.05, "four cores' worth");
    for one in &loops {
        assert_eq!(one.thread.accesses(), one.accesses);
        assert_eq!(one.thread.computed_ns(), (one.accesses - 1) * 2_000 + 2_000);
        assert_close(
            one.thread.queued_ns() as f64,
            machine_ns / 2.0,
            0.1,
            "half its time",
        );
    }
}
