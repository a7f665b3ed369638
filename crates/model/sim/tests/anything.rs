//! Whatever the machine, the workload and the system: an outcome that can be.

use crate::common;
use common::*;
use egeria_machine::{Machine, MemoryKind};
use egeria_policy::planner::System;
use egeria_sim::{
    Allocation, FileGroup, Layout, MediumKind, Options, Pattern, Phase, ThreadGroup, Workload,
};
use proptest::prelude::*;

const MACHINES: [&str; 10] = [
    "optane-1s",
    "optane-1s-dimc",
    "optane-2s",
    "optane-4s-emulated",
    "odin-8s",
    "bulldozer-8n",
    "epyc-2s-cxl",
    "xeon-2s-dram",
    "epyc-2s-nps4",
    "xeon-2s-snc4",
];

fn phase() -> impl Strategy<Value = Phase> {
    (
        prop::option::of(0.01f64..3.0),
        0.0f64..=1.0,
        prop_oneof![1u64..512, 512u64..65_536, 65_536u64..8_000_000],
        0.0f64..1e5,
        0.0f64..1e5,
        any::<bool>(),
        any::<bool>(),
        (0.0f64..=1.0, 0.0f64..2.0),
    )
        .prop_map(
            |(
                seconds,
                read_share,
                request_bytes,
                think_ns,
                idle_ns,
                sequential,
                at_once,
                software,
            )| Phase {
                seconds,
                read_share,
                request_bytes,
                think_ns,
                idle_ns,
                pattern: if sequential {
                    Pattern::Sequential
                } else {
                    Pattern::Random
                },
                at_once,
                serial_ns: software.0 * (think_ns + idle_ns),
                write_overhead: software.1,
            },
        )
}

fn group() -> impl Strategy<Value = (FileGroup, ThreadGroup)> {
    let files = (
        1u64..6,
        prop_oneof![1u64..1_000_000, 1_000_000u64..500_000_000],
        prop::option::of(0u16..8),
        any::<(bool, bool)>(),
    );
    let threads = (
        1u64..20,
        prop::option::of(0u16..8),
        any::<(bool, bool, bool)>(),
    );
    (files, threads, prop::collection::vec(phase(), 1..3)).prop_map(
        |((count, bytes, node, (memory, striped)), (number, start, flags), mut phases)| {
            let last = phases.len() - 1;
            for phase in &mut phases[..last] {
                phase.seconds = Some(phase.seconds.unwrap_or(0.5));
            }
            let files = FileGroup {
                count,
                bytes,
                node: node.map(egeria_machine::NodeId),
                medium: if memory {
                    MediumKind::Memory
                } else {
                    MediumKind::Storage
                },
                layout: if striped {
                    Layout::Striped
                } else {
                    Layout::Local
                },
                ..FileGroup::default()
            };
            let threads = ThreadGroup {
                count: number,
                start_node: start.map(egeria_machine::NodeId),
                shared: flags.0,
                pinned: flags.1,
                lockstep: flags.2,
                phases,
                ..ThreadGroup::default()
            };
            (files, threads)
        },
    )
}

fn named(groups: Vec<(FileGroup, ThreadGroup)>, machine: &Machine) -> Workload {
    let groups = groups.into_iter().enumerate();
    let named = groups.map(|(index, (mut files, mut threads))| {
        (files.name, threads.name) = (format!("f{index}"), format!("t{index}"));
        threads.files.clone_from(&files.name);
        // Threads cannot be where there is no core.
        threads.start_node = threads.start_node.filter(|id| {
            let node = machine.node(*id);
            node.is_some_and(|node| machine.core_count(node) > 0)
        });
        files.node = files.node.filter(|id| machine.node(*id).is_some());
        (files, threads)
    });
    Workload {
        seconds: 6.0,
        warm_up_seconds: 1.0,
        ..workload(named.collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn nothing_comes_out_of_nothing(
        name in prop::sample::select(MACHINES.to_vec()),
        groups in prop::collection::vec(group(), 1..5),
        system in prop::sample::select(System::ALL.to_vec()),
        allocation in prop::sample::select(vec![
            Allocation::Local, Allocation::Spread, Allocation::Node(0), Allocation::Striped,
        ]),
    ) {
        let machine = Machine::profile(name).unwrap();
        let workload = named(groups, &machine);
        let options = Options { allocation, ..Options::of(system) };
        let outcome = egeria_sim::run(&machine, &workload, &options).unwrap();
        prop_assert!(outcome.operations_s.is_finite() && outcome.operations_s >= 0.0);
        prop_assert!((0.0..=1.0 + 1e-9).contains(&outcome.local_share));
        let sum: f64 = outcome.groups.iter().map(|group| group.operations_s).sum();
        prop_assert!((sum - outcome.operations_s).abs() <= sum * 1e-9);
        for window in &outcome.windows {
            for (index, node) in window.nodes.iter().enumerate() {
                let cores = machine.core_count(&machine.nodes[index]);
                prop_assert!((0.0..=1.0 + 1e-6).contains(&node.busy_share), "{}", node.busy_share);
                prop_assert!(cores > 0 || node.threads == 0);
                let hardware = &machine.nodes[index].hardware.memories;
                for memory in &node.memories {
                    let declared = machine.emulated_node(node.node).map(|node| node.as_memory());
                    let like = |other: &&egeria_machine::Memory| other.kind == memory.kind;
                    let found = declared.iter().chain(hardware).find(like).unwrap();
                    let most = |bytes_s: f64| bytes_s * (1.0 + 1e-6);
                    prop_assert!(memory.written_bytes_s <= most(found.write_bytes_s), "{:?}", memory);
                    prop_assert!(memory.read_bytes_s <= most(found.read_bytes_s), "{:?}", memory);
                    prop_assert!(memory.kind != MemoryKind::Expander || cores == 0);
                }
            }
            for lane in &window.lanes {
                prop_assert!((0.0..=1.0 + 1e-6).contains(&lane.share), "{:?}", lane);
            }
            let there: u32 = window.nodes.iter().map(|node| node.threads).sum();
            prop_assert_eq!(u64::from(there), workload.thread_count());
        }
        prop_assert_eq!(&outcome, &egeria_sim::run(&machine, &workload, &options).unwrap());
    }
}
