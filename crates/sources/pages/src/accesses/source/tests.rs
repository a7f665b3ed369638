//! Facts of made samples and made windows.

use super::*;
use crate::NodeBytes;
use crate::accesses::Recorded;
use egeria_facts::{CpuSet, ThreadKey};
use std::time::Duration;

/// One window of this process: a thread on each of two nodes, that on node 1 three times as busy, and an idle one
/// on node 1.
struct Windows(Machine);

impl FactSource for Windows {
    type Error = Infallible;

    fn machine(&self) -> &Machine {
        &self.0
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, Infallible> {
        let mut window = Window::empty(&self.0, 0, 0, 1_000_000_000);
        for (thread_id, node, busy_ns) in [(1, 0, 200_000_000), (2, 1, 600_000_000), (3, 1, 0)] {
            let key = ThreadKey {
                process_id: std::process::id(),
                thread_id,
                start_ticks: 1,
            };
            let mut thread = ThreadFacts::idle(key, NodeId(node), 2, CpuSet::empty());
            thread.busy_ns = busy_ns;
            window.threads.push(thread);
        }
        Ok(Some(Facts::of(window)))
    }
}

struct Nobody;

impl Membership for Nobody {
    fn holds(&self, _: ThreadKey) -> bool {
        false
    }
}

impl LiveSource for Windows {
    fn dilation(&self) -> f64 {
        1.0
    }

    fn start_over(&mut self) {}

    fn masks(&self) -> SharedMasks {
        SharedMasks::default()
    }

    fn members(&self) -> Arc<dyn Membership> {
        Arc::new(Nobody)
    }
}

fn own() -> ProcessKey {
    task::process(std::process::id()).unwrap()
}

#[test]
fn threads_share_accesses_of_their_process_by_running_time() {
    let mut accessed = NodeBytes::default();
    accessed.add(NodeId(1), 64_000_000);
    let mut resident = accessed.clone();
    resident.add(NodeId(0), 1 << 30);
    let sample = Sample {
        process: own(),
        accessed,
        resident,
        from: Vec::new(),
        unassigned: NodeBytes::default(),
        pages: 0,
        is_tracked: false,
        regions: Vec::new(),
        took: Duration::from_millis(100),
    };
    let other = Sample {
        process: ProcessKey::default(),
        ..sample.clone()
    };
    let recorded = Recorded([vec![other, sample]].into());
    let times = MigrationTimes::default();
    times.migrated(own(), 10_000_000, Duration::from_millis(7));
    let machine = Machine::profile("optane-2s").unwrap();
    let mut source = MemorySource::new(Windows(machine.clone()), recorded, times);
    let facts = source.next_facts().unwrap().unwrap();
    facts.accesses.validate(&machine).unwrap();
    let [process] = &facts.accesses.processes[..] else {
        panic!("{facts:?}");
    };
    assert_eq!((process.process, process.migrating_ns), (own(), 7_000_000));
    let cost = facts.accesses.migration_cost.unwrap();
    assert_eq!((cost.s_per_gb, cost.migrations), (0.7, 1));
    let [zero, one] = &process.nodes[..] else {
        panic!("{process:?}");
    };
    // 1e7 lines/s, a quarter of them from node 0.
    let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 1e-6;
    assert!(near(zero.rate_to(1), 2.5e6) && near(one.rate_to(1), 7.5e6));
    assert_eq!((zero.rate_to(0), one.rate_to(0)), (0.0, 0.0));
    assert_eq!((zero.threads, one.threads), (1, 1));
    assert_eq!(
        (zero.resident_bytes, one.resident_bytes),
        (1 << 30, 64_000_000)
    );
}

#[test]
fn who_accesses_what_is_taken_as_the_sampler_knows_it() {
    let on = |node: u16, bytes: u64| {
        let mut all = NodeBytes::default();
        all.add(NodeId(node), bytes);
        all
    };
    let mut accessed = on(0, 64_000_000);
    accessed.add(NodeId(1), 6_400_000);
    let sample = Sample {
        process: own(),
        accessed,
        resident: on(1, 1 << 20),
        // Node 1's threads ran three times as long and accessed a tenth.
        from: vec![
            (NodeId(0), on(0, 64_000_000)),
            (NodeId(1), on(1, 6_400_000)),
        ],
        unassigned: NodeBytes::default(),
        pages: 0,
        is_tracked: false,
        regions: Vec::new(),
        took: Duration::from_secs(1),
    };
    let machine = Machine::profile("optane-2s").unwrap();
    let recorded = Recorded([vec![sample]].into());
    let windows = Windows(machine.clone());
    let mut source = MemorySource::new(windows, recorded, MigrationTimes::default());
    let facts = source.next_facts().unwrap().unwrap();
    facts.accesses.validate(&machine).unwrap();
    let [zero, one] = &facts.accesses.processes[0].nodes[..] else {
        panic!("{facts:?}");
    };
    let rates = [zero, one].map(|node| [node.rate_to(0), node.rate_to(1)]);
    assert_eq!(rates, [[1e6, 0.0], [0.0, 1e5]]);
}

#[test]
fn regions_are_accessed_as_known_or_as_threads_ran() {
    let region = |start: usize, from: &[(u16, u64)]| {
        let mut resident = NodeBytes::default();
        resident.add(NodeId(1), 1 << 21);
        Region {
            range: start..start + (1 << 21),
            resident,
            accessed_bytes: 64_000,
            from: from
                .iter()
                .map(|(node, bytes)| (NodeId(*node), *bytes))
                .collect(),
            is_fixed: false,
        }
    };
    let sample = Sample {
        process: own(),
        accessed: NodeBytes::default(),
        resident: NodeBytes::default(),
        from: Vec::new(),
        unassigned: NodeBytes::default(),
        pages: 0,
        is_tracked: false,
        regions: vec![region(0, &[(1, 64_000)]), region(1 << 21, &[])],
        took: Duration::from_secs(1),
    };
    let machine = Machine::profile("optane-2s").unwrap();
    let window = Windows(machine.clone())
        .next_facts()
        .unwrap()
        .unwrap()
        .window;
    let threads: Vec<&ThreadFacts> = window.threads.iter().collect();
    let facts = |threads: &[&ThreadFacts]| {
        accesses(
            &machine,
            &sample,
            threads,
            20_000_000,
            &MigrationTimes::default(),
        )
    };
    let both = facts(&threads);
    assert_eq!(both.regions[0].accesses_s[..2], [0.0, 1000.0]);
    assert_eq!(both.regions[1].accesses_s[..2], [250.0, 750.0]);
    assert_eq!(both.regions[1].resident_bytes[..2], [0, 1 << 21]);
    let one = facts(&threads[1..]);
    assert!(!both.accessors_known && !one.accessors_known);
    assert_eq!(one.regions[1].accesses_s[..2], [0.0, 1000.0]);
}

/// Takes a while for each look, and names the processes that it looked at. The first looks see no access.
struct Slow {
    looked: Vec<ProcessKey>,
    blind_looks: usize,
}

impl Slow {
    fn seeing() -> Slow {
        Slow {
            looked: Vec::new(),
            blind_looks: 0,
        }
    }
}

impl Sampler for &mut Slow {
    fn sample(&mut self, processes: &[ProcessKey]) -> Vec<Sample> {
        let begin = cpu_time::of_thread();
        while cpu_time::of_thread() - begin < Duration::from_millis(30) {}
        self.looked.extend(processes);
        let mut accessed = NodeBytes::default();
        if self.looked.len() > self.blind_looks {
            accessed.add(NodeId(0), 4096);
        }
        let sample = |process: &ProcessKey| Sample {
            process: *process,
            accessed: accessed.clone(),
            resident: NodeBytes::default(),
            from: Vec::new(),
            unassigned: NodeBytes::default(),
            pages: 0,
            is_tracked: false,
            regions: Vec::new(),
            took: Duration::from_millis(50),
        };
        processes.iter().map(sample).collect()
    }

    fn looks_at_each(&self) -> bool {
        true
    }
}

#[test]
fn looks_rest_and_who_wants_one_gets_some_ahead_of_time() {
    let (mut slow, times) = (Slow::seeing(), MigrationTimes::default());
    let machine = Machine::profile("optane-2s").unwrap();
    let mut source = MemorySource::new(Windows(machine), &mut slow, times.clone());
    let mut look = |is_wanted: bool| {
        if is_wanted {
            times.want_look(own());
        }
        let facts = source.next_facts().unwrap().unwrap();
        assert_eq!(facts.accesses.processes.len(), 1, "what is known lasts");
        source.sampler.looked.len()
    };
    assert_eq!([false, false, false].map(&mut look), [1, 1, 1]);
    // More than six seconds of rest for each: after half a minute of them that is enough.
    assert_eq!([true; 8].map(&mut look), [2, 3, 4, 5, 5, 5, 5, 5]);
}

#[test]
fn a_look_that_saw_no_access_is_repeated_soon() {
    let mut slow = Slow {
        blind_looks: 2,
        ..Slow::seeing()
    };
    let machine = Machine::profile("optane-2s").unwrap();
    let mut source = MemorySource::new(Windows(machine), &mut slow, MigrationTimes::default());
    let looks = [(); 5].map(|()| {
        source.next_facts().unwrap().unwrap();
        source.sampler.looked.len()
    });
    assert_eq!(looks, [1, 2, 3, 3, 3]);
}

#[test]
fn what_other_looks_take_is_left_out_of_the_budget() {
    let machine = Machine::profile("optane-2s").unwrap();
    let times = MigrationTimes::default();
    let mut source = MemorySource::new(Windows(machine), Recorded::default(), times);
    for _ in 0..50 {
        source.others_took(Duration::from_millis(2), 1_000_000_000);
    }
    assert!((source.others - 0.002).abs() < 1e-4, "{}", source.others);
}
