//! What the pools of a volume give, if no file says so: measured once, while the volume is idle.
//!
//! ```text
//!   unknown ── IDLE_WINDOWS without an access ──▶ measured by a thread of its own ──▶ known, and remembered
//!      ▲                                             │ an access: given up
//!      └─────────────────────────────────────────────┘ at most MAX_ATTEMPTS times
//! ```
//!
//! Files without names take the writes, so all space is freed in whatever way this ends. The result is stored under
//! the identity of the storage below the pool ([`remembered`]): a device is measured once.

mod measure;
mod remembered;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use egeria_engine::Volume;
use egeria_facts::Facts;
use egeria_machine::{Machine, NodeId, PoolBandwidth};
use egeria_policy::Note;

use crate::options::StewardOptions;
use crate::target::Target;

/// Windows without any access before something is measured.
pub(crate) const IDLE_WINDOWS: u32 = 3;
/// After this number of disturbances the measurement is given up.
const MAX_ATTEMPTS: u32 = 3;

/// What became of a node's pool.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) node: NodeId,
    /// What it gives, or why that will not be measured.
    pub(crate) found: Result<PoolBandwidth, String>,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let node = self.node.0;
        match &self.found {
            Ok(found) => {
                let left = |curve: &[(u32, f64)]| curve.last().map_or(1.0, |point| point.1) * 100.0;
                write!(
                    formatter,
                    "the memory of node {node}'s pool was measured while no program used it: {:.2} GB/s read, {:.2} GB/s written; \
                     all CPUs at once get {:.0} and {:.0} % of that",
                    found.read_bytes_s / 1e9,
                    found.write_bytes_s / 1e9,
                    left(&found.read_curve),
                    left(&found.write_curve)
                )
            }
            Err(why) => write!(
                formatter,
                "the memory of node {node}'s pool is not measured: {why}; run `egeria machine calibrate` instead"
            ),
        }
    }
}

/// The node that a note is about, if the note says that its memory is unknown.
pub(crate) fn unknown_of(note: &Note) -> Option<NodeId> {
    match note {
        Note::PmMaximumUnknown { node } => Some(*node),
        Note::ThreadNowhere { .. } => None,
    }
}

/// Waits until the volume is idle, and measures.
pub(crate) struct IdlePools {
    volume: Arc<Volume>,
    machine: Machine,
    /// Where what was found is kept.
    store: PathBuf,
    idle_windows: u32,
    attempts: u32,
    running: Option<Running>,
    /// Nodes that are known, or given up.
    settled: Vec<NodeId>,
}

struct Running {
    node: NodeId,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<PoolBandwidth, measure::Refusal>>,
}

impl IdlePools {
    /// `None` where there is nothing to measure: without a volume, on an emulated machine, if the policy does not look
    /// at persistent memory, or if the options forbid it.
    pub(crate) fn begin(target: &Target, options: &StewardOptions) -> Option<IdlePools> {
        let Target::Volume(volume) = target else {
            return None;
        };
        let is_wanted = options.measure_idle_pools && options.settings.nthread.stages.pm;
        if !is_wanted || options.machine.is_emulated() || volume.emulation().is_configured() {
            return None;
        }
        Some(IdlePools {
            volume: Arc::clone(volume),
            machine: options.machine.clone(),
            store: remembered::path(),
            idle_windows: 0,
            attempts: 0,
            running: None,
            settled: Vec::new(),
        })
    }

    /// What was found before of the pools of these nodes.
    pub(crate) fn remembered(&self) -> Vec<(NodeId, PoolBandwidth)> {
        let nodes = self.machine.nodes.iter();
        nodes
            .filter_map(|node| {
                let device = remembered::device(&self.volume, self.pool_of(node.id)?)?;
                Some((node.id, remembered::find(&self.store, &device)?))
            })
            .collect()
    }

    fn pool_of(&self, node: NodeId) -> Option<usize> {
        let nodes = self.volume.pool_nodes();
        nodes.into_iter().position(|of_pool| of_pool == node.0)
    }

    /// Takes a window and the nodes with unknown memory; returns results found since the last call.
    pub(crate) fn look(
        &mut self,
        facts: &Facts,
        unknown: impl Iterator<Item = NodeId>,
    ) -> Option<Outcome> {
        if let Some(running) = &self.running {
            // Its own accesses count for nodes, but it is no thread that is looked after.
            if facts
                .window
                .threads
                .iter()
                .any(|thread| thread.moved_total() > 0)
            {
                running.stop.store(true, Ordering::Relaxed);
            }
            return if running.thread.is_finished() {
                self.running.take().and_then(|running| self.finish(running))
            } else {
                None
            };
        }
        let is_busy = |node: &egeria_facts::NodeFacts| node.read_bytes + node.written_bytes > 0;
        self.idle_windows = if facts.window.nodes.iter().any(is_busy) {
            0
        } else {
            self.idle_windows + 1
        };
        let node = unknown
            .into_iter()
            .find(|node| !self.settled.contains(node))?;
        if self.idle_windows < IDLE_WINDOWS {
            return None;
        }
        self.idle_windows = 0;
        self.start(node)
    }

    fn start(&mut self, node: NodeId) -> Option<Outcome> {
        let plan = (self.pool_of(node))
            .ok_or_else(|| "it has no pool".to_owned())
            .and_then(|pool| measure::Plan::make(&self.volume, &self.machine, node, pool));
        let plan = match plan {
            Ok(plan) => plan,
            Err(why) => return Some(self.settle(node, Err(why))),
        };
        let (volume, stop) = (Arc::clone(&self.volume), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("egeria-measure".to_owned())
            .spawn(move || plan.carry_out(&volume, &stopped));
        match thread {
            Ok(thread) => {
                self.running = Some(Running { node, stop, thread });
                None
            }
            Err(error) => {
                Some(self.settle(node, Err(format!("no thread can be started: {error}"))))
            }
        }
    }

    fn finish(&mut self, running: Running) -> Option<Outcome> {
        let node = running.node;
        let found = running.thread.join().unwrap_or_else(|_| {
            let what = "the thread that measured ended early".to_owned();
            Err(measure::Refusal::Failed(what))
        });
        match found {
            Ok(found) => {
                let device = self.pool_of(node);
                let device = device.and_then(|pool| remembered::device(&self.volume, pool));
                if let Some(device) = device
                    && let Err(error) = remembered::keep(&self.store, &device, &found)
                {
                    let store = self.store.display();
                    tracing::warn!(
                        "what was measured is not kept, and will be measured again: {store}: {error}; \
                         set EGERIA_STATE_DIR to a directory of your own"
                    );
                }
                Some(self.settle(node, Ok(found)))
            }
            Err(measure::Refusal::Disturbed) => {
                self.attempts += 1;
                (self.attempts >= MAX_ATTEMPTS).then(|| {
                    let why = format!(
                        "the volume was used each of {MAX_ATTEMPTS} times that it was tried"
                    );
                    self.settle(node, Err(why))
                })
            }
            Err(measure::Refusal::Failed(why)) => Some(self.settle(node, Err(why))),
        }
    }

    fn settle(&mut self, node: NodeId, found: Result<PoolBandwidth, String>) -> Outcome {
        self.attempts = 0;
        self.settled.push(node);
        Outcome { node, found }
    }
}

impl Drop for IdlePools {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.store(true, Ordering::Relaxed);
            let _ = running.thread.join();
        }
    }
}
