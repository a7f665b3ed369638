//! Each setting changes what comes of some run with the stages that it says it acts with.

use crate::common::*;
use crate::falling_curves;
use crate::memories::{lopsided, over_two};
use crate::tiers;
use egeria_machine::{Machine, MemoryKind, NodeId};
use egeria_policy::planner::{Place, Settings, System};
use egeria_sim::workload::MediumKind;
use egeria_sim::{Allocation, Options, Outcome, Workload};

/// A run, and what is set in it besides.
struct Scene {
    machine: Machine,
    workload: Workload,
    system: System,
    set: &'static [(&'static str, &'static str)],
}

impl Scene {
    fn options(&self) -> Options {
        let mut options = options(self.system);
        if self.system.stripes() {
            options.allocation = Allocation::Striped;
        }
        for (name, value) in self.set {
            options.planner.set(name, value).expect("a setting");
        }
        options
    }

    fn run(&self, planner: Settings) -> Outcome {
        let options = Options {
            planner,
            ..self.options()
        };
        egeria_sim::run(&self.machine, &self.workload, &options).expect("a run")
    }
}

/// A workload of a file of this repository, cut to some seconds.
fn workload_of(text: &str, seconds: f64) -> Workload {
    let mut workload = Workload::from_toml(text, "workload").expect("a workload");
    (workload.seconds, workload.warm_up_seconds) = (seconds, 1.0);
    workload
}

fn scenes() -> Vec<Scene> {
    let fio = include_str!("../workloads/fio-8-rw60.toml");
    let hot = include_str!("../../papers/workloads/hot.toml");
    let limits = include_str!("../../papers/workloads/limits.toml");
    let clusters = include_str!("../../papers/workloads/asymsched.toml");
    let scene = |machine: &str, workload: Workload, system, set| Scene {
        machine: Machine::profile(machine).expect("a profile"),
        workload,
        system,
        set,
    };
    let mut small = workload_of(limits, 20.0);
    for threads in &mut small.threads {
        threads.phases[0].request_bytes = threads.phases[0].request_bytes.min(256);
    }
    let mut striped = workload_of(fio, 8.0);
    striped.threads[0].phases[0].request_bytes = 1 << 20;
    let mut spread = workload_of(clusters, 20.0);
    spread.files[0].nodes = vec![];
    let apart = |width: f64, node, bytes, system| {
        let mut workload = over_two(0, node, false);
        workload.files[0].bytes = bytes;
        (workload.seconds, workload.warm_up_seconds) = (40.0, 30.0);
        Scene {
            machine: lopsided(width),
            workload,
            system,
            set: &[],
        }
    };
    // More threads than cores on the node that they read from.
    let mut crowd = workload_of(fio, 12.0);
    (crowd.files[0].count, crowd.threads[0].count) = (10, 10);
    crowd.threads[0].phases[0].read_share = 1.0;
    crowd.threads[0].phases[0].think_ns = 20_000.0;
    let mut shared = crowd.clone();
    shared.threads[0].shared = true;
    let memory = 100_000_000;
    let mut written = workload_of(hot, 40.0);
    written.threads[0].phases[0].read_share = 0.97;
    // Memory on one node, used from the other by more threads than that has cores, differently after a while.
    let mut remote = workload_of(fio, 40.0);
    remote.files[0].medium = MediumKind::Memory;
    remote.files[0].nodes = vec![NodeId(0)];
    remote.files[0].bytes = 100_000_000;
    (remote.files[0].count, remote.threads[0].count) = (6, 6);
    remote.threads[0].start_nodes = vec![NodeId(1)];
    let mut other = remote.threads[0].phases[0];
    other.think_ns = 1000.0;
    remote.threads[0].phases.push(other);
    for phase in &mut remote.threads[0].phases {
        phase.seconds = Some(9.0);
    }
    let affordable = Scene {
        set: &[("asymsched.budget", "0.9")],
        ..apart(1e9, 1, 8_000_000_000, System::Asymsched)
    };
    // Memory that gives less to many, used without asking by many, then by few.
    let mut unasked = falling_curves::writers(20);
    (unasked.seconds, unasked.warm_up_seconds) = (30.0, 1.0);
    unasked.files[0].medium = MediumKind::Memory;
    let mut few = unasked.threads[0].phases[0];
    few.think_ns = 1e6;
    unasked.threads[0].phases[0].seconds = Some(10.0);
    unasked.threads[0].phases.push(few);
    let declared = &[
        ("dimm_read_bytes_s", "3e8"),
        ("dimm_write_bytes_s", "1e8"),
        ("pm_rule", "peak"),
    ];
    vec![
        affordable,
        scene("optane-2s", workload_of(fio, 20.0), System::Full, declared),
        apart(4e9, 2, memory, System::Asymsched),
        apart(1e9, 1, 8 * memory, System::Asymsched),
        apart(1e9, 1, 80 * memory, System::Asymsched),
        apart(4e9, 2, memory, System::All),
        scene("optane-2s", crowd.clone(), System::Cpu, &[]),
        scene(
            "optane-2s",
            crowd,
            System::Full,
            &[("read_margin_bytes_s", "1e6")],
        ),
        scene(
            "optane-2s",
            shared,
            System::Full,
            &[("read_margin_bytes_s", "1e6")],
        ),
        scene(
            "optane-2s",
            workload_of(fio, 20.0),
            System::Nm,
            &[("pm_rule", "peak")],
        ),
        scene("optane-2s", workload_of(fio, 10.0), System::Full, &[]),
        scene("optane-2s", workload_of(fio, 30.0), System::All, &[]),
        scene(
            "optane-2s",
            workload_of(fio, 10.0),
            System::Full,
            &[("dimm_read_bytes_s", "1e9")],
        ),
        scene(
            "optane-2s",
            workload_of(fio, 10.0),
            System::Full,
            &[("pm_limit", "0.3"), ("cpu_limit", "0.3")],
        ),
        scene(
            "optane-1s-dimc",
            workload_of(limits, 20.0),
            System::Pats,
            &[],
        ),
        scene(
            "optane-1s-dimc",
            workload_of(limits, 60.0),
            System::Pats,
            &[("pats.controller", "learned")],
        ),
        scene("optane-1s-dimc", small, System::Pats, &[]),
        scene(
            "optane-1s-dimc",
            workload_of(limits, 40.0),
            System::All,
            &[],
        ),
        scene("optane-2s", striped.clone(), System::Odin, &[]),
        scene("optane-2s", striped, System::All, &[]),
        scene(
            "bulldozer-8n",
            workload_of(clusters, 10.0),
            System::Asymsched,
            &[],
        ),
        scene(
            "bulldozer-8n",
            spread,
            System::Asymsched,
            &[("asymsched.dynamic_memory", "off")],
        ),
        scene("dram-2s", remote, System::All, &[]),
        Scene {
            machine: tiers::machine(),
            workload: tiers::changing(),
            system: System::All,
            set: &[],
        },
        Scene {
            machine: falling_curves::machine(MemoryKind::Dram, true),
            workload: unasked,
            system: System::Off,
            set: &[("stages.mba", "on")],
        },
        // Those that take longest.
        scene("odin-8s", workload_of(hot, 40.0), System::All, &[]),
        scene("odin-8s", written, System::All, &[]),
    ]
}

/// Other values of a setting, far from its own.
fn others(name: &str, value: &str) -> Vec<String> {
    match value.parse::<f64>() {
        Ok(number) => [0.0, 0.01, 0.3, 3.0, 100.0, 1e-5, 2000.0]
            .into_iter()
            .flat_map(|factor| {
                // 0 stands for a value that the policy finds.
                let other = if number == 0.0 {
                    factor
                } else {
                    number * factor
                };
                [format!("{other}"), format!("{}", other.round())]
            })
            .collect(),
        Err(_) => match (name, value) {
            (_, "on") => vec!["off".into()],
            (_, "off") => vec!["on".into()],
            (_, "curve") => vec!["peak".into()],
            (_, "formula") => vec!["learned".into()],
            (_, "learned") => vec!["formula".into()],
            _ => vec![
                "1e7".into(),
                "1e9".into(),
                "1e11".into(),
                "2".into(),
                "9".into(),
            ],
        },
    }
}

fn changes_something(scene: &Scene, usual: &Outcome, name: &str) -> bool {
    let own = scene.options().planner;
    if own.check_acts(name, Place::Model).is_err() {
        return false;
    }
    let values = own.values();
    let value = &values
        .iter()
        .find(|each| each.0 == name)
        .expect("a value")
        .1;
    others(name, value).iter().any(|other| {
        let mut changed = own.clone();
        changed.set(name, other).is_ok() && scene.run(changed) != *usual
    })
}

/// Settings that no run here shows, and the code that reads them, below `crates/control/policy/src`.
const READ_BY: [(&str, &str); 13] = [
    ("stages.bandwidth", "planner/threads.rs"),
    ("nthread.pm_rule", "nthread/loads.rs"),
    ("nthread.pm_return", "nthread/returns.rs"),
    ("nthread.dimm_write_bytes_s", "nthread/maximum.rs"),
    ("nthread.dimms", "nthread/maximum.rs"),
    ("pats.min_gain", "pats/learned/verdict.rs"),
    ("pats.probe_windows", "pats/learned/learner.rs"),
    ("asymsched.chunk_pages", "asymsched/memory.rs"),
    ("together.tier_rest_windows", "together/mod.rs"),
    ("limits.rest_windows", "planner/limits.rs"),
    ("relocation.cold_bytes_s", "planner/relocation/steps.rs"),
    ("relocation.replicas", "planner/relocation/mod.rs"),
    ("feedback.rest_windows", "planner/experiments/setbacks.rs"),
];

#[test]
fn every_setting_that_no_run_shows_is_read() {
    for (name, file) in READ_BY {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../control/policy/src/");
        let source = std::fs::read_to_string(format!("{path}{file}")).expect("a source");
        let source = source.split("#[cfg(test)]").next().unwrap();
        let (_, field) = name.split_once('.').unwrap();
        assert!(
            source.contains(&format!(".{field}")),
            "{file} does not read {name}"
        );
    }
}

#[test]
fn every_setting_changes_some_run() {
    let scenes = scenes();
    let usual: Vec<Outcome> = scenes
        .iter()
        .map(|scene| scene.run(scene.options().planner))
        .collect();
    let is_shown = |name: &String| {
        let mut runs = scenes.iter().zip(&usual);
        READ_BY.iter().any(|each| each.0 == name)
            || runs.any(|(scene, usual)| changes_something(scene, usual, name))
    };
    let names = Settings::names().into_iter().map(|each| each.0);
    let idle: Vec<String> = names.filter(|name| !is_shown(name)).collect();
    assert_eq!(idle, [""; 0], "no run shows these");
}
