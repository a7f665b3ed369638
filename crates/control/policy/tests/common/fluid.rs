//! What threads do next, where a plan put them: a closed loop of operations per thread.
//!
//! A thread computes, sleeps, reads and writes; its reads come from where its data is, its
//! writes go to where it runs. Alone it does `1 / (idle + busy)` operations per second, where
//! `busy` has the profile's latencies, remote ones included. Threads of a node share its cores
//! evenly, and all speeds rise together until a medium is full; who uses that stops there
//! (max-min fair).

use egeria_facts::{ThreadFacts, Window};
use egeria_machine::{AccessKind, EmulatedNode, Machine};
use egeria_policy::Plan;

use super::{SECOND_NS, all_cpus, key};

/// What a thread does over and over.
#[derive(Clone, Debug)]
pub struct Worker {
    pub number: u32,
    pub node: usize,
    /// Share of its reads that come from each node.
    pub data: Vec<f64>,
    /// Bytes of an operation.
    pub block: u64,
    /// Share of operations that read.
    pub reads: f64,
    pub compute_ns: f64,
    pub idle_ns: f64,
    pub is_shared: bool,
    pub pinned: bool,
}

/// The threads of a machine.
#[derive(Clone, Debug)]
pub struct Fluid {
    pub machine: Machine,
    pub workers: Vec<Worker>,
    pub number: u64,
}

impl Worker {
    /// One thread of fio with 4 KiB blocks and a private file on node 0 (NThread §V-C).
    pub fn fio(number: u32, node: usize, nodes: usize, reads: f64) -> Worker {
        let mut data = vec![0.0; nodes];
        data[0] = 1.0;
        Worker {
            number,
            node,
            data,
            block: 4096,
            reads,
            compute_ns: 1000.0,
            idle_ns: 0.0,
            is_shared: false,
            pinned: false,
        }
    }

    /// Time an operation needs of the medium of a node, ns.
    fn service_ns(&self, nodes: &[EmulatedNode], node: usize) -> f64 {
        let remote = node != self.node;
        let read_ns = nodes[node].service_ns(self.block, AccessKind::Read, remote, 1);
        let write_ns = nodes[node].service_ns(self.block, AccessKind::Write, false, 1);
        let writes = if remote { 0.0 } else { 1.0 - self.reads };
        self.reads * self.data[node] * read_ns + writes * write_ns
    }

    /// Time an operation takes beside sleeping when nobody disturbs it, ns.
    fn busy_ns(&self, nodes: &[EmulatedNode]) -> f64 {
        let read_ns = |node: usize| {
            let remote = node != self.node;
            self.data[node] * nodes[node].undisturbed_ns(self.block, AccessKind::Read, remote, 1)
        };
        let reads_ns: f64 = (0..nodes.len()).map(read_ns).sum();
        let write_ns = nodes[self.node].undisturbed_ns(self.block, AccessKind::Write, false, 1);
        self.compute_ns + self.reads * reads_ns + (1.0 - self.reads) * write_ns
    }
}

impl Fluid {
    pub fn new(machine: Machine, workers: Vec<Worker>) -> Fluid {
        Fluid {
            machine,
            workers,
            number: 0,
        }
    }

    fn nodes(&self) -> &[EmulatedNode] {
        let emulated = self.machine.emulated.as_ref();
        &emulated.expect("test machines are emulated").nodes
    }

    /// The next window, all threads where they are.
    pub fn window(&mut self) -> Window {
        let shares = self.cpu_shares();
        let speeds = self.speeds(&shares);
        let mut window = Window::empty(&self.machine, self.number, 0, SECOND_NS);
        self.number += 1;
        for ((worker, speed), share) in self.workers.iter().zip(speeds).zip(shares) {
            window.threads.push(self.facts(worker, speed, share));
        }
        window
    }

    /// Puts threads where a plan wants them.
    pub fn act(&mut self, plan: &Plan) {
        for step in &plan.moves {
            let to = self.machine.index_of(step.to).expect("a node");
            let mut workers = self.workers.iter_mut();
            let worker = workers.find(|worker| key(worker.number) == step.thread);
            worker.expect("a thread of the window").node = to;
        }
    }

    /// Bytes per second of all threads.
    pub fn bytes_s(&mut self) -> f64 {
        let window = self.window();
        (window.read_total() + window.written_total()) as f64
    }

    fn facts(&self, worker: &Worker, speed: f64, busy: f64) -> ThreadFacts {
        let (machine, count) = (&self.machine, self.machine.nodes.len());
        let node = machine.nodes[worker.node].id;
        let mut facts = ThreadFacts::idle(key(worker.number), node, count, all_cpus(machine));
        let bytes_s = speed * worker.block as f64;
        for (bytes, share) in facts.read_bytes.iter_mut().zip(&worker.data) {
            *bytes = (bytes_s * worker.reads * share) as u64;
        }
        facts.written_bytes[worker.node] = (bytes_s * (1.0 - worker.reads)) as u64;
        facts.busy_ns = (busy * SECOND_NS as f64) as u64;
        facts.is_shared = worker.is_shared;
        facts.pinned = worker.pinned;
        facts
    }

    /// The share of a core that each thread gets: what it wants, if that is less than an even
    /// share of the rest.
    fn cpu_shares(&self) -> Vec<f64> {
        let want = |worker: &Worker| {
            let busy_ns = worker.busy_ns(self.nodes());
            busy_ns / (busy_ns + worker.idle_ns)
        };
        let wants: Vec<f64> = self.workers.iter().map(want).collect();
        let mut shares = wants.clone();
        for node in 0..self.nodes().len() {
            let mut here: Vec<usize> = (0..self.workers.len())
                .filter(|&index| self.workers[index].node == node)
                .collect();
            here.sort_by(|&one, &other| wants[one].total_cmp(&wants[other]));
            let mut cores = f64::from(self.nodes()[node].cores);
            for (position, &index) in here.iter().enumerate() {
                let even = cores / (here.len() - position) as f64;
                shares[index] = wants[index].min(even);
                cores -= shares[index];
            }
        }
        shares
    }

    /// Operations per second of each thread, with so much of a core each.
    fn speeds(&self, shares: &[f64]) -> Vec<f64> {
        let nodes = self.nodes();
        let most: Vec<f64> = (self.workers.iter().zip(shares))
            .map(|(worker, share)| share * 1e9 / worker.busy_ns(nodes))
            .collect();
        let needs: Vec<Vec<f64>> = (self.workers.iter())
            .map(|worker| (0..nodes.len()).map(|node| worker.service_ns(nodes, node) / 1e9))
            .map(Iterator::collect)
            .collect();
        let mut speeds = vec![0.0; self.workers.len()];
        let mut rising: Vec<bool> = most.iter().map(|&most| most > 0.0).collect();
        // Every round fills a medium or lets a thread reach its own pace.
        for _ in 0..=nodes.len() {
            let step = step(&most, &needs, &speeds, &rising, nodes.len());
            for index in 0..speeds.len() {
                if rising[index] {
                    speeds[index] += step * most[index];
                }
            }
            let full = |node: usize| {
                let used: f64 = (0..speeds.len())
                    .map(|at| speeds[at] * needs[at][node])
                    .sum();
                used > 1.0 - 1e-9
            };
            let full: Vec<bool> = (0..nodes.len()).map(full).collect();
            for index in 0..speeds.len() {
                let is_stuck = (0..nodes.len()).any(|node| full[node] && needs[index][node] > 0.0);
                let is_fastest = speeds[index] >= most[index] * (1.0 - 1e-9);
                rising[index] &= !is_stuck && !is_fastest;
            }
        }
        speeds
    }
}

/// By which share of their own pace all rising threads can still become faster.
fn step(most: &[f64], needs: &[Vec<f64>], speeds: &[f64], rising: &[bool], nodes: usize) -> f64 {
    let threads = 0..most.len();
    let rising: Vec<usize> = threads.clone().filter(|&index| rising[index]).collect();
    let to_own_pace = rising
        .iter()
        .map(|&index| 1.0 - speeds[index] / most[index]);
    let to_full_medium = (0..nodes).filter_map(|node| {
        let used: f64 = threads.clone().map(|at| speeds[at] * needs[at][node]).sum();
        let slope: f64 = rising.iter().map(|&at| most[at] * needs[at][node]).sum();
        (slope > 0.0).then(|| (1.0 - used).max(0.0) / slope)
    });
    to_own_pace.chain(to_full_medium).fold(1.0, f64::min)
}
