//! From where threads ended up to a plan.

use super::whatif::{Thread, WhatIf};
use crate::{Displaced, Kept, Move, Plan, Target};

/// Fills the rest of the plan.
pub(super) fn finish(what_if: WhatIf<'_>, mut plan: Plan) -> Plan {
    plan.expected = what_if.loads.report();
    for thread in &what_if.threads {
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

/// A thread away from its data for contention; and one that was, and says nothing about its
/// data in this window, because it paused.
fn displaced(what_if: &WhatIf<'_>, thread: &Thread<'_>) -> Option<Displaced> {
    let entry = |home, contention| Displaced {
        thread: thread.facts.key,
        home,
        contention,
    };
    let at = what_if.loads.id(thread.at);
    let stages = what_if.settings.stages;
    match thread.lead {
        _ if !stages.pm && !stages.cpu => None,
        None => {
            let home = thread.facts.displaced_from.filter(|&home| home != at)?;
            Some(entry(home, thread.away))
        }
        Some(lead) if lead.node == thread.home && thread.at != thread.home => {
            Some(entry(what_if.loads.id(lead.node), thread.away))
        }
        Some(_) => None,
    }
}
