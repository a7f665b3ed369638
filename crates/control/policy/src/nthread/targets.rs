//! Initial targets: each thread to the node it reads from (NThread §III-A).

use super::thread::Lead;
use super::whatif::WhatIf;
use crate::{KeptBecause, Reason};

/// Finds every thread's initial target and puts the thread there, if it can go there.
pub(super) fn decide(what_if: &mut WhatIf<'_>) {
    for index in 0..what_if.threads.len() {
        if what_if.threads[index].has_io {
            decide_one(what_if, index);
        }
    }
}

fn decide_one(what_if: &mut WhatIf<'_>, index: usize) {
    let Some((best, leads)) = most_read_node(what_if, index) else {
        return;
    };
    let margin_bytes_s = what_if.settings.read_margin_bytes_s;
    if !leads {
        let thread = &mut what_if.threads[index];
        let is_local = thread.read_from(thread.present) == thread.read;
        thread.kept = (!is_local).then(|| KeptBecause::NoLead {
            best: what_if.loads.id(best.node),
            best_bytes_s: best.read_bytes_s,
            next_bytes_s: best.next_bytes_s,
            margin_bytes_s,
        });
        return;
    }
    what_if.threads[index].lead = Some(best);
    if best.node == what_if.threads[index].present {
        return;
    }
    if let Some(obstacle) = what_if.obstacle(index, best.node) {
        what_if.threads[index].kept = Some(obstacle);
        return;
    }
    what_if.put(index, best.node);
    let thread = &mut what_if.threads[index];
    thread.home = best.node;
    thread.reason = Some(Reason::RemoteReads {
        target: what_if.loads.id(best.node),
        target_bytes_s: best.read_bytes_s,
        next_bytes_s: best.next_bytes_s,
        margin_bytes_s,
    });
}

/// The node a thread reads from most, and whether it exceeds every other node by the margin.
fn most_read_node(what_if: &WhatIf<'_>, index: usize) -> Option<(Lead, bool)> {
    let thread = &what_if.threads[index];
    let nodes = 0..what_if.machine.nodes.len();
    // The first of equals; equals have no lead anyway.
    let node = nodes.rev().max_by_key(|&node| thread.read_from(node))?;
    let others = (0..what_if.machine.nodes.len()).filter(|&other| other != node);
    let next = others
        .map(|other| thread.read_from(other))
        .max()
        .unwrap_or_default();
    let read = thread.read_from(node);
    let lead = Lead {
        node,
        read_bytes_s: what_if.loads.per_second(read as f64),
        next_bytes_s: what_if.loads.per_second(next as f64),
    };
    let margin_bytes_s = what_if.loads.per_second((read - next) as f64);
    let leads = read > next && margin_bytes_s >= what_if.settings.read_margin_bytes_s;
    (read > 0).then_some((lead, leads))
}
