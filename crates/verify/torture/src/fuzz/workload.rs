//! Workloads of the model, and machines that it is asked about.

use super::subject::{Case, Observations, Subject, one_line};
use super::text_mutator::mutate;
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_sim::{Options, Workload};
use egeria_stats::rng::Rng;

/// Workloads to begin with.
const TEXTS: [&str; 4] = [
    include_str!("../../../../model/sim/workloads/fio-8-rw60.toml"),
    include_str!("../../fuzz/workload/beside.toml"),
    include_str!("../../fuzz/workload/spread.toml"),
    include_str!("../../fuzz/workload/phases.toml"),
];
const MACHINES: [&str; 5] = [
    "optane-1s",
    "optane-2s",
    "odin-8s",
    "bulldozer-8n",
    "epyc-2s-cxl",
];
const WORDS: [&str; 16] = [
    "[[threads]]\n",
    "[[files]]\n",
    "[[threads.phases]]\n",
    "count = ",
    "seconds = ",
    "nodes = [0, 1]\n",
    "medium = \"memory\"\n",
    "layout = \"striped\"\n",
    "lockstep = true\n",
    "pinned = true\n",
    "shared = true\n",
    "request_bytes = ",
    "1e9",
    "nan",
    "inf",
    "0",
];
/// More threads than these take longer than a case may.
const MAX_THREADS: u64 = 300;
/// Of the machine's time, s; decided upon four times.
const SECONDS: f64 = 0.25;
const WINDOW_NS: u64 = 60_000_000;

pub(super) struct Workloads {
    machines: Vec<Machine>,
}

impl Workloads {
    pub(super) fn new() -> Result<Workloads, String> {
        let load = |name: &&str| Machine::profile(name).map_err(|error| error.to_string());
        Ok(Workloads {
            machines: MACHINES.iter().map(load).collect::<Result<_, _>>()?,
        })
    }
}

impl Subject for Workloads {
    fn samples(&self) -> usize {
        TEXTS.len()
    }

    fn attempt(&mut self, case: &Case, observed: &mut Observations) -> Result<(), String> {
        let mut text = TEXTS[case.sample as usize % TEXTS.len()]
            .as_bytes()
            .to_vec();
        for step in &case.mutation_seeds {
            mutate(&mut Rng::new(*step), &mut text, &WORDS);
        }
        let text = String::from_utf8_lossy(&text);
        observed.line(|| text.to_string());
        let workload = match Workload::from_toml(&text, "workload.toml") {
            Ok(workload) => workload,
            Err(error) => {
                observed.record(&error.to_string());
                return one_line(&error.to_string());
            }
        };
        observed.record("a workload");
        let mut rng = Rng::new(case.use_seed);
        let machine = &self.machines[rng.index(self.machines.len())];
        let system = System::ALL[rng.index(System::ALL.len())];
        predict(machine, workload, system, observed)
    }
}

/// What the model says of a workload, cut to what a case may take.
pub(super) fn predict(
    machine: &Machine,
    mut workload: Workload,
    system: System,
    observed: &mut Observations,
) -> Result<(), String> {
    if workload.thread_count() > MAX_THREADS {
        observed.record("too many threads to wait for");
        return Ok(());
    }
    workload.seconds = workload.seconds.min(SECONDS);
    workload.warm_up_seconds = 0.0;
    let options = Options {
        window_ns: WINDOW_NS,
        ..Options::of(system)
    };
    let outcome = match egeria_sim::run(machine, &workload, &options) {
        Ok(outcome) => outcome,
        Err(error) => {
            // Names in it would make every refusal a new kind.
            observed.record("refused by the model");
            observed.line(|| error.to_string());
            return one_line(&error.to_string());
        }
    };
    observed.record("a prediction");
    let nodes = outcome.windows.iter().flat_map(|window| &window.nodes);
    let figures = nodes.flat_map(|node| [node.read_bytes_s, node.written_bytes_s, node.busy_share]);
    let figures = figures.chain([outcome.operations_s, outcome.bytes_s, outcome.local_share]);
    let wrong = |figure: &f64| !figure.is_finite() || *figure < 0.0;
    match figures.into_iter().find(wrong) {
        Some(figure) => Err(format!("a prediction of {figure} under {system}")),
        None => Ok(()),
    }
}
