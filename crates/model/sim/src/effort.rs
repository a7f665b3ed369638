//! What a run takes, before it is begun: a small text may ask for more than anybody waits for.

use egeria_machine::{MemoryKind, Node};

use crate::error::SimError;
use crate::outcome::Options;
use crate::rates::model::Model;
use crate::workload::{MediumKind, Phase, Workload};

/// Figures that are kept for files and threads, 8 bytes each.
const MAX_FIGURES: f64 = 5e7;
/// Windows, each of which is in the outcome.
const MAX_WINDOWS: f64 = 100_000.0;
/// Elementary steps: some minutes.
const MAX_WORK: f64 = 1e12;
/// Those of a thread and a memory in a step.
const PER_THREAD: f64 = 100.0;
/// Rounds of the fixed point, as often as not.
const ROUNDS: f64 = 20.0;
/// Steps of a window.
const STEPS: f64 = 10.0;

/// Whether a run can be followed.
pub(crate) fn check(model: &Model, workload: &Workload, options: &Options) -> Result<(), SimError> {
    let refused = |problem: String, hint| {
        Err(SimError::TooMuchWork {
            workload: workload.name.clone(),
            machine: model.machine.name.clone(),
            problem,
            hint,
        })
    };
    let (nodes, places) = (model.node_count() as f64, model.costs.places.len() as f64);
    let threads = workload.thread_count() as f64;
    let figures = files(workload) * nodes * places + threads * places * 8.0;
    if figures > MAX_FIGURES {
        let problem = format!("{figures:.0} figures of files and threads beside memories");
        return refused(problem, "have fewer files or threads, or share the files");
    }
    let windows = workload.seconds / (options.window_ns.max(1) as f64 / 1e9);
    if windows > MAX_WINDOWS {
        let problem = format!("{windows:.0} windows");
        return refused(problem, "lengthen the window, or shorten seconds");
    }
    let kinds = (workload.threads.len() as f64 * nodes).min(threads);
    let resources = 2.0 * nodes + 2.0 * places + model.costs.lanes().len() as f64;
    let step = threads * places * PER_THREAD + ROUNDS * kinds * (kinds + resources) * places;
    let work = (windows * STEPS + phases(workload)) * step;
    if work > MAX_WORK {
        let problem = format!("some {work:.0e} steps of computing");
        let hint = "shorten seconds, lengthen phases or windows, or have fewer kinds of threads";
        return refused(problem, hint);
    }
    Ok(())
}

/// Whether all data has a place: on nodes with memory, and no more of it than is known to be there.
pub(crate) fn room(model: &Model, workload: &Workload) -> Result<(), SimError> {
    let machine = &model.machine;
    let mut needed = [0u64; 2];
    for group in &workload.files {
        for id in group.node.iter().chain(&group.nodes) {
            let index = machine.index_of(*id);
            if index.is_none_or(|node| model.place_of(node, group.medium).is_none()) {
                return Err(SimError::NoMemory {
                    workload: workload.name.clone(),
                    machine: machine.name.clone(),
                    node: id.0,
                });
            }
        }
        let kind = usize::from(group.medium == MediumKind::Storage);
        let bytes = group.bytes.saturating_mul(group.count);
        needed[kind] = needed[kind].saturating_add(bytes);
    }
    let all = |of: fn(&Node) -> u64| machine.nodes.iter().map(of).fold(0, u64::saturating_add);
    let (memory, persistent) = (all(memory_bytes), all(persistent_bytes));
    let [in_memory, stored] = needed;
    let kinds = if persistent > 0 {
        [
            ("memory", in_memory, memory),
            ("persistent memory", stored, persistent),
        ]
    } else {
        [
            ("memory", in_memory.saturating_add(stored), memory),
            ("persistent memory", 0, 0),
        ]
    };
    for (what, needed, there) in kinds {
        // A machine that does not say how much it has is taken to have enough.
        if there > 0 && needed > there {
            return Err(SimError::TooMuchData {
                machine: machine.name.clone(),
                what,
                needed,
                there,
            });
        }
    }
    Ok(())
}

fn memory_bytes(node: &Node) -> u64 {
    let others = node.hardware.memories.iter();
    let others = others.filter(|memory| memory.kind != MemoryKind::Persistent);
    let bytes = others.map(|memory| memory.bytes);
    node.memory_bytes.max(bytes.fold(0, u64::saturating_add))
}

fn persistent_bytes(node: &Node) -> u64 {
    let regions = node.persistent_regions.iter().map(|region| region.bytes);
    let persistent = node.hardware.memories.iter();
    let persistent = persistent.filter(|memory| memory.kind == MemoryKind::Persistent);
    let bytes = persistent.map(|memory| memory.bytes);
    let regions = regions.fold(0, u64::saturating_add);
    regions.max(bytes.fold(0, u64::saturating_add))
}

/// Files that are kept apart.
fn files(workload: &Workload) -> f64 {
    let users = |name: &str| {
        let users = workload.threads.iter();
        users
            .filter(|group| group.files == name)
            .collect::<Vec<_>>()
    };
    let apart = |files: &crate::FileGroup| {
        let users = users(&files.name);
        let most = users.iter().map(|group| group.count).max().unwrap_or(0);
        if users.iter().any(|group| group.shared) {
            1.0
        } else {
            files.count.min(most) as f64
        }
    };
    workload.files.iter().map(apart).sum()
}

/// How often phases change, all groups together.
fn phases(workload: &Workload) -> f64 {
    let changes = |phases: &[Phase]| {
        let round_s: f64 = phases.iter().filter_map(|phase| phase.seconds).sum();
        let is_endless = phases.iter().any(|phase| phase.seconds.is_none());
        if is_endless || round_s <= 0.0 {
            phases.len() as f64
        } else {
            workload.seconds / round_s * phases.len() as f64
        }
    };
    workload
        .threads
        .iter()
        .map(|group| changes(&group.phases))
        .sum()
}
