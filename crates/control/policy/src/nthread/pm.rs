//! Contention for persistent memory: writers leave (NThread §III-C1).
//!
//! Everything is per second: the paper multiplies Eqs. 3 and 4 by the window on both sides.

use std::cmp::Reverse;

use super::loads::Loads;
use super::settings::Settings;
use super::thread::Thread;
use super::whatif::WhatIf;
use crate::{Contention, KeptBecause, Reason};

/// Sums of rates are not exact; what is this close is equal.
const CLOSE: f64 = 1e-9;

/// The contended node: above `pm_limit` of its maximum, and every other node below its
/// `pm_ratio`th part. At most one node is both.
pub(super) fn contended(loads: &Loads<'_>, settings: &Settings) -> Option<usize> {
    let mut nodes = loads.pm_nodes();
    nodes.find(|&node| is_contended(loads, settings, node))
}

fn is_contended(loads: &Loads<'_>, settings: &Settings, node: usize) -> bool {
    let bytes_s = |node| loads.pm_bytes_s(node);
    stands_out(loads, settings, node, settings.pm_limit, bytes_s)
}

/// Whether a node has no room for a thread that comes for its CPUs: with what it writes there,
/// and no longer where it comes from, the node would be contended, or come so close that faster
/// threads would make it so.
pub(super) fn is_crowded_with(
    loads: &Loads<'_>,
    settings: &Settings,
    thread: &Thread<'_>,
    node: usize,
) -> bool {
    let bytes_s = |each: usize| match each {
        each if each == node => loads.pm_bytes_s_with(each, thread, false),
        each if each == thread.at => loads.pm_bytes_s_with(each, thread, true),
        each => loads.pm_bytes_s(each),
    };
    stands_out(loads, settings, node, settings.pm_return, bytes_s)
}

/// Whether a node is above this share of its maximum, and every other below its `pm_ratio`th
/// part, when they carry so much.
fn stands_out(
    loads: &Loads<'_>,
    settings: &Settings,
    node: usize,
    share: f64,
    bytes_s: impl Fn(usize) -> f64,
) -> bool {
    let Some(maximum_bytes_s) = loads.pm_maximum_bytes_s(node) else {
        return false;
    };
    let mut others = loads.pm_nodes().filter(|&other| other != node).peekable();
    bytes_s(node) > share * maximum_bytes_s
        && others.peek().is_some()
        && others.all(|other| bytes_s(other) * settings.pm_ratio < bytes_s(node))
}

/// Takes writers off a contended node until it is not contended any more, or has shed what it
/// must. Whether that could be done for at least one.
pub(super) fn relieve(what_if: &mut WhatIf<'_>, contended: usize) -> bool {
    let average_bytes_s = what_if.loads.pm_average_bytes_s();
    let mut relieved = false;
    for index in candidates(what_if, contended) {
        let shed_bytes_s = what_if.loads.pm_bytes_s(contended) - average_bytes_s;
        let still_contended = is_contended(&what_if.loads, what_if.settings, contended);
        if !still_contended || shed_bytes_s <= 0.0 {
            break;
        }
        if may_stay_away(what_if, index, contended) {
            what_if.leave_away(index, Contention::Pm);
            relieved = true;
        } else if let Some((node, path_bandwidth_bytes_s)) =
            destination(what_if, index, average_bytes_s)
        {
            let reason = reason(
                what_if,
                index,
                (node, path_bandwidth_bytes_s),
                average_bytes_s,
            );
            what_if.send_away(index, node, reason);
            relieved = true;
        } else if what_if.threads[index].at == what_if.threads[index].present {
            let contention = Contention::Pm;
            what_if.threads[index].kept = Some(KeptBecause::NoRoom { contention });
        }
    }
    relieved
}

/// The writers on the node that may leave: first those that are elsewhere now, for they need not
/// move; then by `W_ratio` (Eq. 2), by `D_write`, by thread.
fn candidates(what_if: &mut WhatIf<'_>, contended: usize) -> Vec<usize> {
    let may_go = |index: &usize| {
        let thread = &what_if.threads[*index];
        thread.at == contended && thread.has_io && thread.written > 0 && !thread.facts.pinned
    };
    let writers: Vec<usize> = (0..what_if.threads.len()).filter(may_go).collect();
    let mut candidates: Vec<usize> = writers
        .into_iter()
        .filter(|&index| !what_if.stays_with_sharers(index, Contention::Pm))
        .collect();
    candidates.sort_by(|&one, &other| {
        let key = |index: usize| {
            let thread = &what_if.threads[index];
            (thread.present == contended, Reverse(thread.written))
        };
        let ((one_here, one_written), (other_here, other_written)) = (key(one), key(other));
        let ratios = write_ratio(what_if, other).total_cmp(&write_ratio(what_if, one));
        let by_place = one_here.cmp(&other_here).then(ratios);
        by_place.then(one_written.cmp(&other_written))
    });
    candidates
}

/// `W_ratio` (NThread Eq. 2), in [0, 1].
fn write_ratio(what_if: &WhatIf<'_>, index: usize) -> f64 {
    let thread = &what_if.threads[index];
    thread.written as f64 / (thread.written as f64 + thread.read as f64)
}

/// A thread that is elsewhere now may stay there if that brings the two nodes closer. Eq. 4 is
/// for migrations, and this is none.
fn may_stay_away(what_if: &WhatIf<'_>, index: usize, contended: usize) -> bool {
    let (thread, loads) = (&what_if.threads[index], &what_if.loads);
    let present = thread.present;
    let written_bytes_s = loads.per_second(thread.written as f64);
    present != contended
        && loads.pm_maximum_bytes_s(present).is_some()
        && loads.pm_bytes_s(present) + written_bytes_s < loads.pm_bytes_s(contended)
}

/// Where a thread may go: `D_migrate_N + D_write_i <= 0` (NThread Eqs. 3 and 4); where ways count that to which
/// the way from its data is widest, then the least loaded, then the nearest to the node it leaves, then the first.
fn destination(
    what_if: &WhatIf<'_>,
    index: usize,
    average_bytes_s: f64,
) -> Option<(usize, Option<f64>)> {
    let (thread, loads) = (&what_if.threads[index], &what_if.loads);
    let written_bytes_s = loads.per_second(thread.written as f64);
    let has_room = |&node: &usize| {
        let room_bytes_s = loads.pm_bytes_s(node) - average_bytes_s;
        room_bytes_s + written_bytes_s <= CLOSE * average_bytes_s
    };
    let nodes = loads.pm_nodes().filter(has_room);
    let nodes = nodes.filter(|&node| what_if.may_leave_for(index, node));
    what_if.best_of(index, nodes, |node| loads.pm_bytes_s(node))
}

fn reason(
    what_if: &WhatIf<'_>,
    index: usize,
    (node, path_bandwidth_bytes_s): (usize, Option<f64>),
    average_bytes_s: f64,
) -> Reason {
    let (thread, loads) = (&what_if.threads[index], &what_if.loads);
    let pm_bytes_s = loads.pm_bytes_s(thread.at);
    Reason::PmContention {
        contended: loads.id(thread.at),
        pm_bytes_s,
        maximum_bytes_s: loads.pm_maximum_bytes_s(thread.at).unwrap_or_default(),
        average_bytes_s,
        shed_bytes_s: pm_bytes_s - average_bytes_s,
        room_bytes_s: loads.pm_bytes_s(node) - average_bytes_s,
        written_bytes_s: loads.per_second(thread.written as f64),
        write_ratio: write_ratio(what_if, index),
        path_bandwidth_bytes_s,
    }
}
