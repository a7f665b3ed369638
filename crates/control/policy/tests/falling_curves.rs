//! Limits, delegation and relocation for memory of any kind whose curve falls, and nothing for memory whose curve does not.

use egeria_facts::{Facts, Measured, MediumFacts, Mix, Window};
use egeria_machine::{Machine, MemoryKind, NodeId};
use egeria_policy::pats::Because;
use egeria_policy::planner::{
    Decision, DelegatedBecause, DelegationPlan, DirectBecause, Planner, System,
};

use crate::common::SECOND_NS;

/// Two nodes with one memory of this kind and these curves.
fn machine(kind: MemoryKind, read_curve: &[(u32, f64)], write_curve: &[(u32, f64)]) -> Machine {
    let mut machine = Machine::profile("xeon-2s-dram").expect("a profile");
    for node in &mut machine.nodes {
        node.hardware.memories.truncate(1);
        let memory = &mut node.hardware.memories[0];
        memory.kind = kind;
        memory.read_curve = read_curve.to_vec();
        memory.write_curve = write_curve.to_vec();
    }
    machine
}

/// With this number of threads at the memory of node 0, and this number of bytes written.
fn decide(machine: &Machine, demand: u32, write_share: f64) -> Decision {
    let mut settings = System::All.settings();
    settings.stages.feedback = false;
    let mut facts = Facts::of(Window::empty(machine, 0, 0, SECOND_NS));
    let medium = |node: u16, demand: u32| MediumFacts {
        node: NodeId(node),
        measured: Measured {
            mix: Mix {
                requests: 1000 * u64::from(demand),
                mean_bytes: 65536.0,
                write_share,
            },
            demand,
            pm_bytes_s: 5e9,
            dram_bytes_s: None,
        },
        free_bytes: None,
        striped_files: Some(true),
    };
    facts.media = vec![medium(0, demand), medium(1, 0)];
    Planner::new(machine, settings).decide(machine, &facts)
}

const FALLS: [(u32, f64); 3] = [(4, 1.0), (8, 0.97), (16, 0.5)];

#[test]
fn a_curve_that_falls_limits_memory_of_any_kind() {
    for kind in [MemoryKind::Dram, MemoryKind::Expander] {
        let machine = machine(kind, &FALLS, &[]);
        let decision = decide(&machine, 16, 0.0);
        let [limit] = &decision.limits[..] else {
            panic!("{kind:?}: {:?}", decision.limits);
        };
        assert_eq!((limit.node, limit.threads), (NodeId(0), 8));
        let because = limit.decision.because;
        assert!(matches!(because, Because::Curve { .. }), "{because}");
        let DelegationPlan::On {
            delegates_per_node,
            because,
            ..
        } = decision.delegation
        else {
            panic!("{}", decision.delegation);
        };
        let crowded = DelegatedBecause::Crowded {
            node: NodeId(0),
            demand: 16,
            bears: 8,
        };
        assert_eq!(because, crowded);
        assert!(delegates_per_node <= 8);
    }
}

#[test]
fn no_more_threads_than_the_curve_bears_have_no_limit() {
    let machine = machine(MemoryKind::Dram, &FALLS, &[]);
    let decision = decide(&machine, 8, 0.0);
    assert_eq!(decision.limits, []);
    assert!(matches!(decision.delegation, DelegationPlan::Off { .. }));
}

#[test]
fn a_flat_or_rising_curve_bounds_nothing() {
    let flat = [(1, 1.0), (16, 1.0)];
    let rises = [(1, 0.2), (4, 0.7), (16, 1.0)];
    for curve in [&[][..], &flat[..1], &flat, &rises] {
        for kind in [MemoryKind::Dram, MemoryKind::Expander] {
            let decision = decide(&machine(kind, curve, curve), 64, 0.5);
            assert_eq!(decision.limits, [], "{curve:?}");
            let because = DirectBecause::NoMedium;
            assert_eq!(decision.delegation, DelegationPlan::Off { because });
        }
    }
}

/// Reads count if there are reads, and writes if there are writes.
#[test]
fn only_the_curve_of_what_is_done_counts() {
    let writes = machine(MemoryKind::Dram, &[], &FALLS);
    assert_eq!(decide(&writes, 64, 0.0).limits, []);
    assert_eq!(decide(&writes, 64, 0.5).limits[0].threads, 8);
    let reads = machine(MemoryKind::Dram, &FALLS, &[]);
    assert_eq!(decide(&reads, 64, 1.0).limits, []);
}

/// The paper's own system limits persistent memory and no other.
#[test]
fn pats_alone_does_not_limit_dram() {
    let machine = machine(MemoryKind::Dram, &FALLS, &FALLS);
    let mut facts = Facts::of(Window::empty(&machine, 0, 0, SECOND_NS));
    facts.media = vec![MediumFacts {
        node: NodeId(0),
        measured: Measured {
            demand: 64,
            ..Measured::default()
        },
        free_bytes: None,
        striped_files: None,
    }];
    let mut pats = Planner::new(&machine, System::Pats.settings());
    assert_eq!(pats.decide(&machine, &facts).limits, []);
}
