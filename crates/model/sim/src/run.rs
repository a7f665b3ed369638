//! A run: time passes, windows are cut, the planner is asked, threads and data move.

use std::convert::Infallible;

use egeria_facts::{FactSource, Facts};
use egeria_machine::Machine;
use egeria_policy::ActionKind;
use egeria_policy::control::ControlLoop;

use crate::act::{Acts, ModelActuator};
use crate::effort;
use crate::error::SimError;
use crate::facts::{Span, facts};
use crate::outcome::{
    GroupOutcome, GroupWindow, LaneOutcome, MemoryOutcome, NodeOutcome, Options, Outcome,
    WindowOutcome,
};
use crate::rates::demand::Demand;
use crate::rates::fluid::{Rate, rates};
use crate::rates::model::Model;
use crate::rates::passed::{GroupPassed, Passed};
use crate::state::State;
use crate::workload::{MediumKind, Workload};

/// Steps a window is cut into, at least: data and phases change inside.
const STEPS_PER_WINDOW: f64 = 10.0;

/// Runs a workload on a machine. The same input gives the same outcome.
///
/// # Errors
/// When the machine has no speeds, or the workload does not fit it.
pub fn run(machine: &Machine, workload: &Workload, options: &Options) -> Result<Outcome, SimError> {
    workload.check_on(machine)?;
    let model = Model::new(machine)?;
    effort::room(&model, workload)?;
    effort::check(&model, workload, options)?;
    let groups = workload.threads.len();
    let mut run = Run {
        state: State::new(&model, workload, options.allocation),
        acts: Acts::new(&model, options, groups),
        control: ControlLoop::new(
            &model.machine,
            options.policy,
            options.planner.clone(),
            &ActionKind::ALL,
        ),
        counted: Counted::new(&model, groups),
        model,
        workload,
        options,
        now_s: 0.0,
        windows: Vec::new(),
        nothing_because: Some(vec![
            "the run is no longer than a window, and nothing follows a decision at its end"
                .to_owned(),
        ]),
        known: None,
    };
    while let Ok(Some(facts)) = run.next_facts() {
        run.decide(&facts);
    }
    Ok(run.outcome())
}

/// What is counted after the warm-up.
struct Counted {
    passed: Passed,
    storage_read_bytes: f64,
    storage_written_bytes: f64,
}

impl Counted {
    fn new(model: &Model, groups: usize) -> Counted {
        Counted {
            passed: Passed::none(model, groups),
            storage_read_bytes: 0.0,
            storage_written_bytes: 0.0,
        }
    }
}

/// Rates that hold as long as nothing changes.
struct Known {
    demands: Vec<Demand>,
    rates: Vec<Rate>,
}

struct Run<'a> {
    model: Model,
    state: State,
    acts: Acts,
    control: ControlLoop,
    workload: &'a Workload,
    options: &'a Options,
    now_s: f64,
    counted: Counted,
    windows: Vec<WindowOutcome>,
    /// Why nothing has been decided; `None` once something was.
    nothing_because: Option<Vec<String>>,
    known: Option<Known>,
}

/// A window after the other passes, under what was decided on those before. A last piece that is no whole window has
/// no facts: nothing would come of a decision on it.
impl FactSource for Run<'_> {
    type Error = Infallible;

    fn machine(&self) -> &Machine {
        &self.model.machine
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, Infallible> {
        if self.now_s >= self.workload.seconds * (1.0 - 1e-9) {
            return Ok(None);
        }
        let (span, sum) = self.window();
        let is_last = span.begin_s + self.window_s() >= self.workload.seconds;
        let facts = (!is_last).then(|| {
            let counts = self.options.planner.stages.mba;
            facts(
                &self.model,
                &self.state,
                &sum,
                &span,
                &self.acts.migrated,
                counts,
            )
        });
        self.state.begin_window();
        Ok(facts)
    }
}

impl Run<'_> {
    fn window_s(&self) -> f64 {
        self.options.window_ns as f64 / 1e9
    }

    /// One window, or what is left of the run.
    fn window(&mut self) -> (Span, Passed) {
        let end_s = self.workload.seconds;
        let length_s = self.window_s();
        let begin_s = self.now_s;
        let until_s = (begin_s + length_s).min(end_s);
        let mut sum = Passed::none(&self.model, self.workload.threads.len());
        while self.now_s < until_s * (1.0 - 1e-12) {
            self.step(until_s, length_s / STEPS_PER_WINDOW, &mut sum);
        }
        let span = Span {
            number: self.windows.len() as u64,
            begin_s,
            end_s: self.now_s,
        };
        let outcome = self.describe(&span, &sum);
        self.windows.push(outcome);
        (span, sum)
    }

    fn step(&mut self, until_s: f64, longest_s: f64, sum: &mut Passed) {
        let (running, mut demands) = self.state.demands(&self.model, &self.acts.thresholds);
        demands.extend(self.acts.demands(&self.model));
        let rates = self.rates(demands.clone());
        let copies_s: Vec<f64> = rates[running.len()..]
            .iter()
            .map(|rate| rate.operations_s)
            .collect();
        let threads = self.state.threads.iter();
        let changes = threads.map(|thread| thread.next_change_s());
        let changes = changes.chain([self.acts.next_change_s(&copies_s)]);
        let mut step_s = changes.fold(longest_s, f64::min).min(until_s - self.now_s);
        let warm_up_s = self.workload.warm_up_seconds;
        if self.now_s < warm_up_s {
            step_s = step_s.min(warm_up_s - self.now_s);
        }
        // Rounding must not make a step that never ends.
        let step_s = step_s.max(1e-9);
        let groups = self.workload.threads.len();
        let mut passed = self
            .state
            .pass(&self.model, &running, &demands, &rates, step_s, groups);
        for (demand, rate) in demands[running.len()..].iter().zip(&copies_s) {
            passed.add_moved(&self.model, demand, rate * step_s);
        }
        self.acts.pass(
            &self.model,
            &mut self.state,
            self.options,
            &copies_s,
            (self.now_s, step_s),
        );
        if self.now_s >= warm_up_s * (1.0 - 1e-12) {
            self.count(&running, &demands, &rates, step_s);
            self.counted.passed.add(&passed);
        }
        sum.add(&passed);
        self.now_s += step_s;
    }

    /// The rates of these demands: those of the step before, if nothing changed.
    fn rates(&mut self, demands: Vec<Demand>) -> Vec<Rate> {
        if let Some(known) = self.known.as_ref().filter(|known| known.demands == demands) {
            return known.rates.clone();
        }
        let rates = rates(&self.model, &self.acts.control, &demands);
        self.known = Some(Known {
            demands,
            rates: rates.clone(),
        });
        rates
    }

    fn count(&mut self, running: &[usize], demands: &[Demand], rates: &[Rate], step_s: f64) {
        for ((index, demand), rate) in running.iter().zip(demands).zip(rates) {
            let file = &self.state.files[self.state.threads[*index].file];
            if file.medium == MediumKind::Storage {
                let bytes = rate.operations_s * step_s * demand.request_bytes as f64;
                self.counted.storage_read_bytes += bytes * demand.reads.iter().sum::<f64>();
                self.counted.storage_written_bytes += bytes * demand.writes.iter().sum::<f64>();
            }
        }
    }

    fn describe(&self, span: &Span, sum: &Passed) -> WindowOutcome {
        let seconds = (span.end_s - span.begin_s).max(1e-9);
        let lane = |(lane, bytes): (&egeria_machine::Lane, &f64)| LaneOutcome {
            from: self.model.machine.nodes[lane.from].id,
            to: self.model.machine.nodes[lane.to].id,
            bytes_s: bytes / seconds,
            share: bytes / seconds / lane.bytes_s,
        };
        let group = |(index, passed): (usize, &GroupPassed)| GroupWindow {
            operations_s: passed.operations / seconds,
            threads: self.threads_per_node(Some(index)),
        };
        let nodes = 0..self.model.node_count();
        let lanes = self.model.costs.lanes().iter().zip(&sum.lane_bytes);
        WindowOutcome {
            end_s: self.now_s,
            operations_s: sum.operations() / seconds,
            nodes: nodes.map(|node| self.node(node, sum, seconds)).collect(),
            lanes: lanes.map(lane).collect(),
            groups: sum.groups.iter().enumerate().map(group).collect(),
            moves: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Threads on each node, of one group or of all.
    fn threads_per_node(&self, group: Option<usize>) -> Vec<u32> {
        let mut count = vec![0; self.model.node_count()];
        for thread in &self.state.threads {
            if group.is_none_or(|group| group == thread.group) {
                count[thread.node] += 1;
            }
        }
        count
    }

    fn node(&self, node: usize, sum: &Passed, seconds: f64) -> NodeOutcome {
        let places = self.model.costs.places.iter().enumerate();
        let memories: Vec<MemoryOutcome> = places
            .filter(|(_, place)| place.node == node)
            .map(|(index, place)| MemoryOutcome {
                kind: place.memory.kind,
                read_bytes_s: sum.read_bytes[index] / seconds,
                written_bytes_s: sum.written_bytes[index] / seconds,
            })
            .collect();
        let here = self.state.threads.iter();
        let busy_s: f64 = here
            .filter(|thread| thread.node == node)
            .map(|thread| thread.busy_s)
            .fold(0.0, |sum, busy_s| sum + busy_s);
        let cores = self.model.cores(node);
        NodeOutcome {
            node: self.model.machine.nodes[node].id,
            read_bytes_s: memories.iter().map(|memory| memory.read_bytes_s).sum(),
            written_bytes_s: memories.iter().map(|memory| memory.written_bytes_s).sum(),
            memories,
            busy_share: if cores > 0.0 {
                busy_s / seconds / cores
            } else {
                0.0
            },
            threads: self.threads_per_node(None)[node],
        }
    }

    fn decide(&mut self, facts: &Facts) {
        let model = &self.model;
        let mut actuator = ModelActuator {
            acts: &mut self.acts,
            model,
            state: &mut self.state,
            options: self.options,
            moves: Vec::new(),
            steps: Vec::new(),
        };
        let turn = self.control.turn(facts, &mut [&mut actuator]);
        self.nothing_because = (self.nothing_because.take())
            .filter(|_| turn.actions.is_empty())
            .map(|_| {
                turn.decision
                    .why_nothing(&self.options.planner, self.control.machine())
            });
        let ModelActuator { moves, steps, .. } = actuator;
        // Limits, delegation and places may all be others now.
        self.known = None;
        if let Some(window) = self.windows.last_mut() {
            (window.moves, window.steps) = (moves, steps);
        }
    }

    fn outcome(self) -> Outcome {
        let counted_s = self.workload.seconds - self.workload.warm_up_seconds;
        let moves = self.state.threads.iter().map(|thread| thread.moves);
        let (max_moves_per_thread, moves) = (moves.clone().max().unwrap_or(0), moves.sum());
        let counted = &self.counted;
        let bytes = counted.passed.bytes();
        let groups = self.workload.threads.iter().zip(&counted.passed.groups);
        let group = |(group, passed): (&crate::ThreadGroup, &GroupPassed)| {
            let operation_s = passed.thread_s / passed.operations.max(1e-300);
            GroupOutcome {
                name: group.name.clone(),
                threads: group.count,
                operations_s: passed.operations / counted_s,
                bytes_s: passed.bytes / counted_s,
                operation_ns: if passed.operations > 0.0 {
                    operation_s * 1e9
                } else {
                    0.0
                },
            }
        };
        Outcome {
            operations_s: counted.passed.operations() / counted_s,
            bytes_s: bytes / counted_s,
            storage_read_bytes_s: counted.storage_read_bytes / counted_s,
            storage_written_bytes_s: counted.storage_written_bytes / counted_s,
            local_share: if bytes > 0.0 {
                counted.passed.local_bytes / bytes
            } else {
                0.0
            },
            max_moves_per_thread,
            moves,
            groups: groups.map(group).collect(),
            windows: self.windows,
            nothing_because: self.nothing_because.unwrap_or_default(),
        }
    }
}
