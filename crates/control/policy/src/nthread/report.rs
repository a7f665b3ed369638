//! From where threads ended up to a plan.

use super::thread::Thread;
use super::whatif::WhatIf;
use crate::{Displaced, Kept, Move, Plan, Target};

/// Fills the rest of the plan.
pub(super) fn finish(what_if: WhatIf<'_>, mut plan: Plan) -> Plan {
    plan.expected = what_if.loads.report();
    for thread in &what_if.threads {
        if thread.is_held {
            plan.displaced.extend(still_displaced(&what_if, thread));
            continue;
        }
        plan.displaced.extend(displaced(&what_if, thread));
        if !thread.has_io {
            plan.quiet_threads += 1;
            continue;
        }
        plan.targets.extend(target(&what_if, thread));
        if thread.at == thread.present {
            plan.kept.extend(kept(&what_if, thread));
        } else {
            plan.moves.extend(moved(&what_if, thread));
        }
    }
    plan
}

/// A thread that was displaced before another policy decided about it, and is not at home now.
fn still_displaced(what_if: &WhatIf<'_>, thread: &Thread<'_>) -> Option<Displaced> {
    let home = thread.displaced_from?;
    (home != what_if.loads.id(thread.at)).then_some(Displaced {
        thread: thread.facts.key,
        home,
        contention: None,
    })
}

fn target(what_if: &WhatIf<'_>, thread: &Thread<'_>) -> Option<Target> {
    let lead = thread.lead?;
    Some(Target {
        thread: thread.facts.key,
        node: what_if.loads.id(lead.node),
        read_bytes_s: lead.read_bytes_s,
        next_bytes_s: lead.next_bytes_s,
    })
}

fn moved(what_if: &WhatIf<'_>, thread: &Thread<'_>) -> Option<Move> {
    Some(Move {
        thread: thread.facts.key,
        from: what_if.loads.id(thread.present),
        to: what_if.loads.id(thread.at),
        reason: thread.reason.clone()?,
    })
}

fn kept(what_if: &WhatIf<'_>, thread: &Thread<'_>) -> Option<Kept> {
    Some(Kept {
        thread: thread.facts.key,
        node: what_if.loads.id(thread.present),
        wanted: thread.lead.map(|lead| what_if.loads.id(lead.node)),
        because: thread.kept.clone()?,
    })
}

/// A thread that is away from its data because of contention. A thread with its data on no one node also counts, with
/// the node it left: away from the contention it may read enough to have a target, and that may be there. So does a
/// displaced thread that reports no data now, because it paused.
fn displaced(what_if: &WhatIf<'_>, thread: &Thread<'_>) -> Option<Displaced> {
    let id = |node: usize| what_if.loads.id(node);
    let stages = what_if.settings.stages;
    let home = match thread.lead {
        _ if !stages.pm && !stages.cpu => None,
        Some(lead) => Some(id(lead.node)).filter(|_| lead.node == thread.home),
        None => {
            let left = thread.away.map(|_| id(thread.present));
            thread.displaced_from.or(left)
        }
    };
    Some(Displaced {
        thread: thread.facts.key,
        home: home.filter(|&home| home != id(thread.at))?,
        contention: thread.away,
    })
}
