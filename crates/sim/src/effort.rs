//! What a run takes, before it is begun: a small text may ask for more than anybody waits for.

use crate::error::SimError;
use crate::model::Model;
use crate::outcome::Options;
use crate::workload::{Phase, Workload};

/// Figures that are kept for files and threads, 8 bytes each.
const MOST_FIGURES: f64 = 5e7;
/// Windows, each of which is in the outcome.
const MOST_WINDOWS: f64 = 100_000.0;
/// Elementary steps: some minutes.
const MOST_WORK: f64 = 1e12;
/// Those of a thread and a memory in a step.
const PER_THREAD: f64 = 100.0;
/// Rounds of the fixed point, as often as not.
const ROUNDS: f64 = 20.0;
/// Steps of a window.
const STEPS: f64 = 10.0;

/// Whether a run can be followed.
pub(crate) fn check(model: &Model, workload: &Workload, options: &Options) -> Result<(), SimError> {
    let refused = |problem: String, mend| {
        Err(SimError::TooMuchWork {
            workload: workload.name.clone(),
            machine: model.machine.name.clone(),
            problem,
            mend,
        })
    };
    let (nodes, places) = (model.node_count() as f64, model.places.len() as f64);
    let threads = workload.thread_count() as f64;
    let figures = files(workload) * nodes * places + threads * places * 8.0;
    if figures > MOST_FIGURES {
        let problem = format!("{figures:.0} figures of files and threads beside memories");
        return refused(problem, "have fewer files or threads, or share the files");
    }
    let windows = workload.seconds / (options.window_ns.max(1) as f64 / 1e9);
    if windows > MOST_WINDOWS {
        let problem = format!("{windows:.0} windows");
        return refused(problem, "lengthen the window, or shorten seconds");
    }
    let kinds = (workload.threads.len() as f64 * nodes).min(threads);
    let resources = 2.0 * nodes + 2.0 * places + model.lanes().len() as f64;
    let step = threads * places * PER_THREAD + ROUNDS * kinds * (kinds + resources) * places;
    let work = (windows * STEPS + phases(workload)) * step;
    if work > MOST_WORK {
        let problem = format!("some {work:.0e} steps of computing");
        let mend = "shorten seconds, lengthen phases or windows, or have fewer kinds of threads";
        return refused(problem, mend);
    }
    Ok(())
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
        match users.iter().any(|group| group.shared) {
            true => 1.0,
            false => files.count.min(most) as f64,
        }
    };
    workload.files.iter().map(apart).sum()
}

/// How often phases change, all groups together.
fn phases(workload: &Workload) -> f64 {
    let changes = |phases: &[Phase]| {
        let round_s: f64 = phases.iter().filter_map(|phase| phase.seconds).sum();
        let is_endless = phases.iter().any(|phase| phase.seconds.is_none());
        match is_endless || round_s <= 0.0 {
            true => phases.len() as f64,
            false => workload.seconds / round_s * phases.len() as f64,
        }
    };
    workload
        .threads
        .iter()
        .map(|group| changes(&group.phases))
        .sum()
}
