//! Giving threads back the CPUs that their owners allowed.

use egeria_proc::masks::AppliedMask;
use egeria_proc::task;

/// Restores the original masks of threads, and of the threads that they started, which inherited the applied ones and
/// may never have been watched. `all` are the masks applied now and those of threads that ended with one.
/// Returns how many threads were restored.
pub(crate) fn restore(applied: &[AppliedMask], all: &[AppliedMask]) -> usize {
    // For a thread that was migrated again, the last entry counts.
    let own = applied.iter().rev().filter(|each| restore_one(each));
    own.count() + restore_heirs(all)
}

/// Restores it if it is still that thread and still has the applied mask.
fn restore_one(mask: &AppliedMask) -> bool {
    let thread = mask.thread;
    let is_ours = || task::affinity(thread.thread_id).is_ok_and(|now| now == mask.applied);
    task::is_still(thread)
        && is_ours()
        && task::set_affinity(thread.thread_id, &mask.original).is_ok()
}

fn restore_heirs(all: &[AppliedMask]) -> usize {
    let mut processes: Vec<u32> = all.iter().map(|each| each.thread.process_id).collect();
    processes.sort_unstable();
    processes.dedup();
    processes
        .into_iter()
        .map(|process| heirs_in(process, all))
        .sum()
}

fn heirs_in(process_id: u32, all: &[AppliedMask]) -> usize {
    let parents = all.iter();
    let parents = parents
        .filter(|each| each.thread.process_id == process_id && task::is_process_of(each.thread));
    let parents: Vec<&AppliedMask> = parents.collect();
    if parents.is_empty() {
        return 0;
    }
    let restored = task::threads(process_id).into_iter().filter(|thread_id| {
        let Ok(now) = task::affinity(*thread_id) else {
            return false;
        };
        let parent = parents.iter().find(|each| each.applied == now);
        parent.is_some_and(|parent| task::set_affinity(*thread_id, &parent.original).is_ok())
    });
    restored.count()
}
