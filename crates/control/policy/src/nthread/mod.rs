//! NThread: threads go to their data, and data never moves (NThread §III).
//!
//! One plan, in this order:
//!
//! ```text
//!   1. threads and loads as they are; threads with little I/O are left alone        whatif.rs
//!   2. initial target: the node a thread reads from by a margin         §III-A      targets.rs
//!      what if every thread were there? From here on, loads are those.
//!   3. threads that an earlier plan displaced stay away; some return    (ours)      returns.rs
//!   4. a node contended for persistent memory: writers leave it         §III-C1     pm.rs
//!   5. else a node contended for CPUs: threads leave it                 §III-C2     cpu.rs
//!      in 4 and 5: a thread now elsewhere is tried first and simply stays there; threads that
//!      share a file never leave                                         §III-D
//!   6. where a thread ends up is compared with where it is              report.rs
//! ```
//!
//! A contended medium hides what its threads would do without contention, and one that lost its
//! threads looks as if it could take them back. Steps 2, 4 and 5 alone would therefore move
//! threads to and fro; step 3 is the memory against that: [`plan_after`] is given the plan before.
//!
//! Known gaps, as in the paper: access through `mmap` is only seen if the window has it,
//! contention among readers is not relieved, data never moves. "Cores" are all CPUs of a node,
//! also when the threads may use only some of them.

mod cpu;
mod guide;
mod loads;
mod maximum;
mod pm;
mod report;
mod returns;
mod set;
mod settings;
mod targets;
mod thread;
mod whatif;

use egeria_facts::Window;
use egeria_machine::Machine;

pub(crate) use guide::{Guide, Roads};
pub use settings::{Configuration, PmRule, Settings, Stages};

use crate::Plan;
use whatif::WhatIf;

/// NThread's plan for one window (NThread §III).
///
/// Pure: the same input gives the same plan, and the order of the threads does not matter. A window from outside
/// should be [validated](Window::validate) first. An invalid one still gives a plan, which ignores the invalid parts.
pub fn plan(machine: &Machine, window: &Window, settings: &Settings) -> Plan {
    guided(machine, window, settings, Guide::default())
}

/// NThread's plan for a window after an earlier one: threads that `previous` displaced because of contention are not
/// sent back only to be displaced again.
pub fn plan_after(
    machine: &Machine,
    window: &Window,
    settings: &Settings,
    previous: &Plan,
) -> Plan {
    let guide = Guide {
        displaced: previous.displaced_homes(),
        ..Guide::default()
    };
    guided(machine, window, settings, guide)
}

/// NThread's plan as a part of a larger decision.
pub(crate) fn guided(
    machine: &Machine,
    window: &Window,
    settings: &Settings,
    guide: Guide<'_>,
) -> Plan {
    let mut what_if = WhatIf::new(machine, window, settings);
    let mut plan = Plan {
        window: window.number,
        measured: what_if.loads.report(),
        notes: what_if.notes(),
        ..Plan::default()
    };
    what_if.heed(guide);
    if settings.stages.remote {
        targets::decide(&mut what_if);
    }
    plan.local = what_if.loads.report();
    returns::decide(&mut what_if);
    let wanted = settings.stages.pm.then_some(());
    let crowded = wanted.and_then(|()| pm::contended(&what_if.loads, settings));
    plan.pm_contended = crowded.map(|node| what_if.loads.id(node));
    let relieved = crowded.is_some_and(|node| pm::relieve(&mut what_if, node));
    if settings.stages.cpu && !relieved {
        let short = cpu::contended(&what_if.loads, settings);
        plan.cpu_contended = short.map(|node| what_if.loads.id(node));
        if let Some(node) = short {
            cpu::relieve(&mut what_if, node);
        }
    }
    report::finish(what_if, plan)
}
