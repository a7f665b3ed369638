//! Giving threads back the CPUs that their owners allowed.

use std::collections::HashMap;

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

/// Heirs are threads of the same processes and of what these began: shells that were moved go on beginning others. A
/// process that left its ancestors is not found.
fn restore_heirs(all: &[AppliedMask]) -> usize {
    let origins = all.iter().filter(|each| task::is_process_of(each.thread));
    let origins: Vec<&AppliedMask> = origins.collect();
    if origins.is_empty() {
        return 0;
    }
    let mut parents = HashMap::new();
    let mut parent = |process| {
        *parents
            .entry(process)
            .or_insert_with(|| task::parent(process))
    };
    let heirs = task::processes().into_iter().map(|process| {
        let line = ancestors(process, &mut parent);
        let inherited = |each: &&&AppliedMask| line.contains(&each.thread.process_id);
        let inherited: Vec<&AppliedMask> = origins.iter().filter(inherited).copied().collect();
        restore_threads(process, &inherited)
    });
    heirs.sum()
}

/// A process, what began it, and so on.
fn ancestors(process: u32, mut parent: impl FnMut(u32) -> Option<u32>) -> Vec<u32> {
    let chain = std::iter::successors(Some(process), |process| parent(*process));
    // Bounded, because the chain may change during the loop.
    chain.take_while(|process| *process > 1).take(64).collect()
}

/// Restores threads of a process that have one of these masks.
fn restore_threads(process_id: u32, inherited: &[&AppliedMask]) -> usize {
    if inherited.is_empty() {
        return 0;
    }
    let restored = task::threads(process_id).into_iter().filter(|thread_id| {
        let Ok(now) = task::affinity(*thread_id) else {
            return false;
        };
        let origin = inherited.iter().find(|each| each.applied == now);
        origin.is_some_and(|origin| task::set_affinity(*thread_id, &origin.original).is_ok())
    });
    restored.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_facts::{CpuSet, ThreadKey};
    use egeria_harness::testing::has_two_cpus;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    /// A shell that was moved, and what it and a process of it began since.
    #[test]
    fn processes_below_a_moved_shell_get_their_cpus_back() {
        if !has_two_cpus() {
            return;
        }
        let script = "read line; sleep 1000 & sh -c 'sleep 1000 & echo $!; wait' & wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let id = shell.id();
        let original = task::affinity(id).unwrap();
        let applied: CpuSet = original.iter().take(1).collect();
        task::set_affinity(id, &applied).unwrap();
        drop(shell.stdin.take());
        let mut line = String::new();
        let mut answers = BufReader::new(shell.stdout.take().unwrap());
        answers.read_line(&mut line).unwrap();
        let below: u32 = line.trim().parse().unwrap();
        let mut parents = HashMap::new();
        let processes = task::processes();
        let all: Vec<u32> = (processes.into_iter())
            .filter(|process| {
                let parent = |each| *parents.entry(each).or_insert_with(|| task::parent(each));
                ancestors(*process, parent).contains(&id)
            })
            .collect();
        let masks = || all.iter().map(|process| task::affinity(*process).unwrap());
        let narrow = masks().filter(|mask| *mask == applied).count();
        let mask = AppliedMask {
            thread: ThreadKey {
                process_id: id,
                thread_id: id,
                start_ticks: task::began(id).unwrap(),
            },
            original: original.clone(),
            applied,
        };
        let restored = restore(std::slice::from_ref(&mask), std::slice::from_ref(&mask));
        let wide = masks().filter(|mask| *mask == original).count();
        for process in &all {
            let _ = Command::new("kill").arg(process.to_string()).status();
        }
        shell.wait().unwrap();
        assert!(all.contains(&below) && all.len() == 4, "{all:?}");
        assert_eq!((narrow, restored, wide), (4, 4, 4));
    }
}
