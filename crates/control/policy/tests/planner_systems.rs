//! Each paper's own system is one setting of the planner.

use crate::whole;

use egeria_facts::{Facts, Measured, MediumFacts, Mix, Window};
use egeria_machine::{Machine, NodeId};
use egeria_policy::nthread::{self, Configuration};
use egeria_policy::pats::Limiter;
use egeria_policy::planner::{
    Decision, DelegatedBecause, DelegationPlan, DirectBecause, Planner, Settings, System,
};
use egeria_policy::{Plan, asymsched};
use proptest::prelude::*;
use whole::{obeyed_all, whole};

/// The decisions of so many windows, each with the facts it is about; all is done as decided.
fn history(
    machine: &Machine,
    facts: &Facts,
    settings: Settings,
    windows: usize,
) -> Vec<(Facts, Decision)> {
    let mut planner = Planner::new(machine, settings);
    let mut facts = facts.clone();
    let mut all = Vec::with_capacity(windows);
    for _ in 0..windows {
        let decision = planner.decide(machine, &facts);
        let next = obeyed_all(machine, &facts, &decision);
        all.push((facts, decision));
        facts = next;
    }
    all
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(640)
    }
}

/// What no system but those asked for may decide.
fn decides_nothing_else(decision: &Decision, system: System) {
    let placement = &decision.placement;
    assert!(
        decision.relocations.is_empty(),
        "relocation is nobody's but ours"
    );
    assert!(system == System::Pats || decision.limits.is_empty());
    let direct = DelegationPlan::Off {
        because: DirectBecause::Stage,
    };
    assert!(system == System::Odin || decision.delegation == direct);
    let is_off = placement.decision == asymsched::Decision::Off;
    assert!(system == System::Asymsched || is_off && placement.moves.is_empty());
    let threads = [System::Rl, System::Cpu, System::Nm, System::Full];
    assert!(threads.contains(&system) || decision.threads.moves.is_empty());
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn off_decides_nothing((machine, facts) in whole()) {
        for (_, decision) in history(&machine, &facts, System::Off.published(), 3) {
            decides_nothing_else(&decision, System::Off);
            prop_assert!(decision.threads.displaced.is_empty());
        }
    }

    #[test]
    fn nthreads_configurations_are_nthreads_own_plans((machine, facts) in whole()) {
        for (system, configuration) in [
            (System::Rl, Configuration::Rl),
            (System::Cpu, Configuration::Cpu),
            (System::Nm, Configuration::Nm),
            (System::Full, Configuration::Full),
        ] {
            let settings = nthread::Settings::of(configuration);
            let mut last: Option<Plan> = None;
            for (facts, decision) in history(&machine, &facts, system.published(), 4) {
                let last_plan = last.unwrap_or_default();
                let plan = nthread::plan_after(&machine, &facts.window, &settings, &last_plan);
                prop_assert_eq!(&decision.threads, &plan);
                decides_nothing_else(&decision, system);
                last = Some(plan);
            }
        }
    }

    #[test]
    fn asymsched_is_asymscheds_own_plan((machine, mut facts) in whole()) {
        // Threads of its processes that are bound would be told in both lists.
        facts.window.threads.iter_mut().for_each(|thread| thread.key.process_id += 100);
        let settings = asymsched::Settings::default();
        let mut last: Option<asymsched::PlacementPlan> = None;
        for (facts, decision) in history(&machine, &facts, System::Asymsched.published(), 4) {
            let window = facts.accesses;
            let last_plan = last.unwrap_or_else(|| asymsched::PlacementPlan::off(0));
            let plan = asymsched::plan_after(&machine, &window, &settings, &last_plan);
            prop_assert_eq!(&decision.placement, &plan);
            decides_nothing_else(&decision, System::Asymsched);
            last = Some(plan);
        }
    }

    #[test]
    fn pats_is_its_own_limiter_on_every_node((machine, facts) in whole(), learned: bool) {
        let mut settings = System::Pats.published();
        if learned {
            settings.set("pats.controller", "learned").expect("a setting");
        }
        // The machine's nodes have one DIMM.
        let mut limiters = vec![Limiter::new(&settings.pats); machine.nodes.len()];
        for (facts, decision) in history(&machine, &facts, settings.clone(), 6) {
            let is_persistent = |medium: &&MediumFacts| {
                machine.node(medium.node).is_some_and(|node| machine.has_persistent_memory(node))
            };
            let media: Vec<_> = facts.media.iter().filter(is_persistent).collect();
            prop_assert_eq!(decision.limits.len(), media.len());
            for ((limit, medium), limiter) in decision.limits.iter().zip(media).zip(&mut limiters) {
                let own = limiter.next(&medium.measured);
                prop_assert_eq!((limit.node, limit.decision), (medium.node, own));
                prop_assert_eq!((limit.threads, limit.delegates), (own.limit, None));
            }
            decides_nothing_else(&decision, System::Pats);
        }
    }

    #[test]
    fn odin_delegates_whatever_happens((machine, facts) in whole()) {
        let mut nodes = machine.nodes.iter();
        let has_any = nodes.any(|node| machine.has_persistent_memory(node));
        for (_, decision) in history(&machine, &facts, System::Odin.settings(), 3) {
            match decision.delegation {
                DelegationPlan::On { delegates_per_node, .. } => {
                    let artifact = DelegationPlan::On {
                        stripe_bytes: 32 << 10,
                        min_read_bytes: 32 << 10,
                        min_write_bytes: 256,
                        delegates_per_node,
                        because: DelegatedBecause::Always,
                    };
                    prop_assert_eq!(decision.delegation, artifact);
                    prop_assert!(has_any && (1..=16).contains(&delegates_per_node));
                }
                DelegationPlan::Off { because } => {
                    prop_assert_eq!(because, DirectBecause::NoMedium);
                    prop_assert!(!has_any);
                }
            }
            decides_nothing_else(&decision, System::Odin);
        }
    }
}

/// The comparisons above are not of empty plans.
#[test]
fn generated_scenes_make_every_system_decide_something() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut moves, mut node_moves, mut limits) = (0, 0, 0);
    for _ in 0..60 {
        let (machine, facts) = whole()
            .new_tree(&mut runner)
            .expect("nothing is rejected")
            .current();
        let of = |system: System| history(&machine, &facts, system.published(), 2);
        moves += of(System::Full)[0].1.threads.moves.len();
        node_moves += of(System::Asymsched)[0].1.placement.moves.len();
        limits += of(System::Pats)[1].1.limits.len();
    }
    assert!(
        moves > 50 && node_moves > 10 && limits > 100,
        "{moves} {node_moves} {limits}"
    );
}

#[test]
fn systems_and_settings_are_known_by_name() {
    for system in System::ALL {
        assert_eq!(system.name().parse::<System>().expect("its name"), system);
        let settings = system.published();
        settings.validate().expect("in their ranges");
        let mut again = System::Off.published();
        for (name, value) in settings.values() {
            again.set(&name, &value).expect("what was told");
        }
        assert_eq!(again, settings);
        let text = serde_json::to_string(&settings).expect("plain data");
        assert_eq!(
            serde_json::from_str::<Settings>(&text).expect("what was written"),
            settings
        );
    }
    let mut settings = Settings::default();
    settings
        .set_pair("read_margin_bytes_s=5e6")
        .expect("NThread's");
    assert_eq!(settings.nthread.read_margin_bytes_s, 5e6);
    for (name, value) in [
        ("relocation.horizon_ms", "0"),
        ("relocation.copy_share", "NaN"),
        ("delegation.stripe_bytes", "1"),
        ("budget.share", "1.1"),
        ("stages.limits", "maybe"),
        ("relocation.what", "1"),
        ("what.horizon_ms", "1"),
        ("what", "1"),
    ] {
        let before = settings.clone();
        let error = settings
            .set(name, value)
            .expect_err("out of range")
            .to_string();
        assert!(error.contains("; use ") && !error.contains('\n'), "{error}");
        assert_eq!(settings, before);
    }
    assert!("everything".parse::<System>().is_err());
}

/// Eqs. 1 to 4, and the number of threads that a medium bears, are of persistent memory. Crowds elsewhere are left alone.
#[test]
fn no_profile_has_a_limit_or_delegation_for_dram() {
    for name in Machine::profile_names() {
        let machine = Machine::profile(name).expect("it ships with Egeria");
        let has = |id: NodeId| machine.has_persistent_memory(machine.node(id).expect("a node"));
        let has_any = machine.nodes.iter().any(|node| has(node.id));
        let mut facts = Facts::of(Window::empty(&machine, 0, 0, 1_000_000_000));
        facts.media = (machine.nodes.iter().map(|node| MediumFacts {
            node: node.id,
            measured: Measured {
                mix: Mix {
                    requests: 1_000_000,
                    mean_bytes: 65_536.0,
                    write_share: 1.0,
                },
                demand: 1000,
                pm_bytes_s: 1e9,
                dram_bytes_s: Some(1e9),
            },
            free_bytes: None,
            striped_files: Some(true),
        }))
        .collect();
        for system in [System::Pats, System::Odin, System::All] {
            let settings = system.settings();
            let decision = Planner::new(&machine, settings.clone()).decide(&machine, &facts);
            assert!(
                decision.limits.iter().all(|limit| has(limit.node)),
                "{name}"
            );
            let is_on = matches!(decision.delegation, DelegationPlan::On { .. });
            assert!(has_any || !is_on, "{name}: {system}");
            // Without trials, as published, both are there at once.
            assert!(system != System::Odin || is_on == has_any, "{name}");
            assert!(
                system != System::Pats || decision.limits.is_empty() != has_any,
                "{name}"
            );
            let why = decision.why_nothing(&settings, &machine).join("\n");
            let says = why.contains("no node has persistent memory")
                || why.contains("no node is known to have");
            assert_eq!(says, !has_any, "{name}: {system}: {why}");
        }
    }
}
