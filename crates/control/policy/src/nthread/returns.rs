//! Threads that an earlier plan displaced (ours).
//!
//! Such a thread stays away from its data as long as its return could bring the contention back.
//! What it would do at home is not known, only bounded: remote operations take 65.5 % longer
//! (NThread §I), so it may become that much faster. Hence it returns when, at the rates measured,
//! the node would come to `pm_return` of its bandwidth (0.5: with 1.655 times the rates still
//! hardly `pm_limit`, 0.8) and when there is a core for it, or all would come to `cpu_return` of
//! the CPUs. A thread that comes from a node short of CPUs counts as a whole core.

use super::whatif::WhatIf;
use crate::{Contention, Reason};

/// Leaves displaced threads where they are, and lets those return for whom there is room again.
pub(super) fn decide(what_if: &mut WhatIf<'_>) {
    let held: Vec<usize> = (0..what_if.threads.len())
        .filter(|&index| is_displaced(what_if, index))
        .collect();
    for &index in &held {
        what_if.put(index, what_if.threads[index].present);
    }
    for &index in &held {
        match obstacle(what_if, index) {
            Some(contention) => what_if.leave_away(index, contention),
            None => bring_back(what_if, index),
        }
    }
}

/// Displaced from where its data still is. Threads that share a file follow their data instead
/// (NThread §III-D).
fn is_displaced(what_if: &WhatIf<'_>, index: usize) -> bool {
    let thread = &what_if.threads[index];
    let stages = what_if.settings.stages;
    thread.home != thread.present
        && !thread.is_held
        && thread.displaced_from == Some(what_if.loads.id(thread.home))
        && (stages.pm || stages.cpu)
        && !(stages.sharing && thread.facts.is_shared)
}

/// What speaks against the return of a thread, if anything.
fn obstacle(what_if: &WhatIf<'_>, index: usize) -> Option<Contention> {
    let settings = what_if.settings;
    if pm_share(what_if, index).is_some_and(|share| share > settings.pm_return) {
        return Some(Contention::Pm);
    }
    let cpu_share = cpu_share(what_if, index)?;
    let has_own_core = what_if.loads.spare_cores(what_if.threads[index].home) >= 1.0;
    (cpu_share > settings.cpu_return && !has_own_core).then_some(Contention::Cpu)
}

fn bring_back(what_if: &mut WhatIf<'_>, index: usize) {
    let thread = &what_if.threads[index];
    let home = thread.home;
    let reason = Reason::ContentionOver {
        target: what_if.loads.id(home),
        target_bytes_s: thread.lead.map_or(0.0, |lead| lead.read_bytes_s),
        pm_share: pm_share(what_if, index),
        cpu_share: cpu_share(what_if, index),
    };
    what_if.put(index, home);
    what_if.threads[index].reason = Some(reason);
}

/// What `BW` of its home would be of the maximum; `None` when it writes nothing (its reads are
/// there already) or that is not judged.
fn pm_share(what_if: &WhatIf<'_>, index: usize) -> Option<f64> {
    let thread = &what_if.threads[index];
    let maximum_bytes_s = what_if.loads.pm_maximum_bytes_s(thread.home)?;
    let written_bytes_s = what_if.loads.per_second(thread.written as f64);
    let bytes_s = what_if.loads.pm_bytes_s(thread.home) + written_bytes_s;
    let judged = what_if.settings.stages.pm && thread.written > 0;
    judged.then_some(bytes_s / maximum_bytes_s)
}

/// What `CPU` of its home would be; `None` when that is not judged.
fn cpu_share(what_if: &WhatIf<'_>, index: usize) -> Option<f64> {
    let (thread, loads) = (&what_if.threads[index], &what_if.loads);
    let is_starved = loads.cpu_share(thread.present) > what_if.settings.cpu_limit;
    let thread_share = if is_starved {
        loads.core_share(thread.home)
    } else {
        loads.thread_share(thread, thread.home)
    };
    let judged = what_if.settings.stages.cpu;
    judged.then(|| loads.cpu_share(thread.home) + thread_share)
}
