//! A run: time passes, windows are cut, the policy is asked, threads move.

use egeria_machine::{Machine, NodeId};
use egeria_policy::Plan;
use egeria_policy::nthread::{self, Settings};
use egeria_window::{NodeFacts, Window};
use serde::Serialize;

use crate::error::SimError;
use crate::fluid::rates;
use crate::model::Model;
use crate::state::{Passed, State};
use crate::workload::Workload;

/// Steps a window is cut into, at least: data and phases change inside.
const STEPS_PER_WINDOW: f64 = 10.0;

/// Where data that is written goes (NThread's baselines).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// To the node of the thread that writes.
    Local,
    /// To all nodes alike (`nova_n`).
    Spread,
    /// To the node at this position (`nova`).
    Node(usize),
}

impl Allocation {
    /// Share of what a thread of `home` writes that goes to each node.
    pub(crate) fn shares(self, home: usize, nodes: usize) -> Vec<f64> {
        let to = match self {
            Allocation::Spread => return vec![1.0 / nodes as f64; nodes],
            Allocation::Local => home,
            Allocation::Node(node) => node,
        };
        (0..nodes)
            .map(|node| f64::from(u8::from(node == to)))
            .collect()
    }
}

/// How a run is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// NThread's settings; its configuration `off` decides nothing.
    pub nthread: Settings,
    /// Where written data goes.
    pub allocation: Allocation,
    /// Time between two decisions, ns.
    pub window_ns: u64,
    /// What a move costs a thread, ns: it does nothing for so long.
    pub move_pause_ns: f64,
}

/// What came of a run. Rates are per second of the machine's time, after the warm-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// Operations/s of all threads.
    pub operations_s: f64,
    /// Bytes/s read and written.
    pub bytes_s: f64,
    /// Share of these on the thread's own node, 0 when nothing was read or written.
    pub local_share: f64,
    /// Moves of threads in the whole run.
    pub moves: u32,
    /// Most moves of one thread.
    pub most_moves_of_one: u32,
    /// Each window of the run.
    pub windows: Vec<WindowOutcome>,
}

/// One window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WindowOutcome {
    /// When it ended, s since the run began.
    pub end_s: f64,
    /// Operations/s in it.
    pub operations_s: f64,
    /// Its nodes, in the machine's order.
    pub nodes: Vec<NodeOutcome>,
    /// What was decided at its end.
    pub moves: Vec<MoveOutcome>,
}

/// One node in one window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NodeOutcome {
    /// The node.
    pub node: NodeId,
    /// Read from its memory, bytes/s.
    pub read_bytes_s: f64,
    /// Written to its memory, bytes/s.
    pub written_bytes_s: f64,
    /// Share of its cores in use.
    pub busy_share: f64,
    /// Threads on it at the end.
    pub threads: u32,
}

/// One move.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MoveOutcome {
    /// The thread's name in the workload, and which of the run's it is.
    pub thread: String,
    /// Where it was.
    pub from: NodeId,
    /// Where it went.
    pub to: NodeId,
    /// Why.
    pub why: String,
}

/// Runs a workload on a machine. The same input gives the same outcome.
///
/// # Errors
/// When the machine has no speeds, or the workload does not fit it.
pub fn run(machine: &Machine, workload: &Workload, options: &Options) -> Result<Outcome, SimError> {
    workload.check_on(machine)?;
    check_room(machine, workload)?;
    let model = Model::new(machine)?;
    let state = State::new(&model, workload, options.allocation);
    let mut run = Run {
        model,
        state,
        options,
        warm_up_s: workload.warm_up_seconds,
        now_s: 0.0,
        counted: Counted::default(),
        windows: Vec::new(),
        plan: None,
    };
    while run.now_s < workload.seconds * (1.0 - 1e-9) {
        run.window(workload.seconds);
    }
    Ok(run.outcome(workload.seconds))
}

fn check_room(machine: &Machine, workload: &Workload) -> Result<(), SimError> {
    let room = |node: &egeria_machine::Node| {
        let regions = node.persistent_regions.iter();
        match regions.map(|region| region.bytes).sum::<u64>() {
            0 => node.memory_bytes,
            bytes => bytes,
        }
    };
    let there = machine.nodes.iter().map(room).fold(0, u64::saturating_add);
    let sizes = workload
        .files
        .iter()
        .map(|group| group.bytes.saturating_mul(group.count));
    let needed = sizes.fold(0, u64::saturating_add);
    // A machine that does not say how much memory it has is taken to have enough.
    match there > 0 && needed > there {
        true => Err(SimError::TooMuchData {
            machine: machine.name.clone(),
            needed,
            there,
        }),
        false => Ok(()),
    }
}

#[derive(Default)]
struct Counted {
    operations: f64,
    bytes: f64,
    local_bytes: f64,
}

struct Run<'a> {
    model: Model,
    state: State,
    options: &'a Options,
    warm_up_s: f64,
    now_s: f64,
    counted: Counted,
    windows: Vec<WindowOutcome>,
    plan: Option<Plan>,
}

impl Run<'_> {
    /// One window, or what is left of the run.
    fn window(&mut self, end_s: f64) {
        let length_s = self.options.window_ns as f64 / 1e9;
        let begin_s = self.now_s;
        let until_s = (begin_s + length_s).min(end_s);
        let nodes = self.model.node_count();
        let mut sum = Passed {
            read_bytes: vec![0.0; nodes],
            written_bytes: vec![0.0; nodes],
            local_bytes: 0.0,
            operations: 0.0,
        };
        while self.now_s < until_s * (1.0 - 1e-12) {
            self.step(until_s, length_s / STEPS_PER_WINDOW, &mut sum);
        }
        let window = self.facts(begin_s, &sum);
        let outcome = self.describe(&window, &sum);
        self.windows.push(outcome);
        // A last piece that is no whole window is not decided upon: nothing would come of it.
        if until_s < end_s {
            self.decide(window);
        }
    }

    fn step(&mut self, until_s: f64, longest_s: f64, sum: &mut Passed) {
        let (running, demands) = self.state.demands(&self.model);
        let rates = rates(&self.model, &demands);
        let changes = self
            .state
            .threads
            .iter()
            .map(|thread| thread.next_change_s());
        let mut step_s = changes.fold(longest_s, f64::min).min(until_s - self.now_s);
        if self.now_s < self.warm_up_s {
            step_s = step_s.min(self.warm_up_s - self.now_s);
        }
        let passed = self
            .state
            .pass(&self.model, &running, &demands, &rates, step_s);
        let bytes: f64 = passed.read_bytes.iter().chain(&passed.written_bytes).sum();
        if self.now_s >= self.warm_up_s * (1.0 - 1e-12) {
            self.counted.operations += passed.operations;
            self.counted.bytes += bytes;
            self.counted.local_bytes += passed.local_bytes;
        }
        for node in 0..self.model.node_count() {
            sum.read_bytes[node] += passed.read_bytes[node];
            sum.written_bytes[node] += passed.written_bytes[node];
        }
        sum.operations += passed.operations;
        sum.local_bytes += passed.local_bytes;
        self.now_s += step_s;
    }

    fn facts(&mut self, begin_s: f64, sum: &Passed) -> Window {
        let machine = &self.model.machine;
        let duration_ns = ((self.now_s - begin_s) * 1e9).round() as u64;
        let number = self.windows.len() as u64;
        let mut window = Window::empty(machine, number, (begin_s * 1e9) as u64, duration_ns);
        window.threads = self.state.facts(machine);
        for (index, node) in window.nodes.iter_mut().enumerate() {
            let busy = window
                .threads
                .iter()
                .filter(|thread| thread.node == node.node);
            *node = NodeFacts {
                read_bytes: sum.read_bytes[index] as u64,
                written_bytes: sum.written_bytes[index] as u64,
                busy_ns: busy.map(|thread| thread.busy_ns).sum(),
                ..*node
            };
        }
        window
    }

    fn describe(&self, window: &Window, sum: &Passed) -> WindowOutcome {
        let seconds = window.seconds().max(1e-9);
        let node = |(index, facts): (usize, &NodeFacts)| NodeOutcome {
            node: facts.node,
            read_bytes_s: sum.read_bytes[index] / seconds,
            written_bytes_s: sum.written_bytes[index] / seconds,
            busy_share: facts.busy_ns as f64 / 1e9 / seconds / self.model.cores(index),
            threads: window
                .threads
                .iter()
                .filter(|thread| thread.node == facts.node)
                .count() as u32,
        };
        WindowOutcome {
            end_s: self.now_s,
            operations_s: sum.operations / seconds,
            nodes: window.nodes.iter().enumerate().map(node).collect(),
            moves: Vec::new(),
        }
    }

    fn decide(&mut self, mut window: Window) {
        if let Some(plan) = &self.plan {
            plan.carry_to(&mut window);
        }
        let plan = nthread::plan(&self.model.machine, &window, &self.options.nthread);
        for each in &plan.moves {
            let threads = &mut self.state.threads;
            let moved = threads.iter_mut().find(|thread| thread.key == each.thread);
            let (Some(thread), Some(to)) = (moved, self.model.machine.index_of(each.to)) else {
                continue;
            };
            thread.node = to;
            thread.moves += 1;
            thread.pause_left_s = self.options.move_pause_ns / 1e9;
            let number = each.thread.thread_id % 100_000;
            if let Some(window) = self.windows.last_mut() {
                window.moves.push(MoveOutcome {
                    thread: format!("{} {number}", thread.name),
                    from: each.from,
                    to: each.to,
                    why: each.reason.to_string(),
                });
            }
        }
        self.plan = Some(plan);
    }

    fn outcome(self, seconds: f64) -> Outcome {
        let counted_s = seconds - self.warm_up_s;
        let moves = self.state.threads.iter().map(|thread| thread.moves);
        Outcome {
            operations_s: self.counted.operations / counted_s,
            bytes_s: self.counted.bytes / counted_s,
            local_share: match self.counted.bytes > 0.0 {
                true => self.counted.local_bytes / self.counted.bytes,
                false => 0.0,
            },
            most_moves_of_one: moves.clone().max().unwrap_or(0),
            moves: moves.sum(),
            windows: self.windows,
        }
    }
}
