//! One planner: what four papers decide apart, as one decision.
//!
//! ```text
//!   0. whose is a process?         file I/O moves single threads, memory moves whole nodes      owners.rs
//!   1. sharing clusters            AsymSched: where links carry most                           asymsched
//!   2. initial targets             NThread §III-A, who moved in 1 is where it will be           nthread
//!   3. contention for PM           NThread §III-C1
//!   4. contention for CPUs         NThread §III-C2
//!   5. where to put who leaves     by the way from their data (ours)                            nthread::roads
//!   6. hot data that is read       moves or is copied where that is repaid (ours)               relocation
//!   7. admission limits            PATS                                                         limits.rs
//!   8. delegation                  OdinFS; no limit is below the delegates                      delegation.rs
//!   9. the budget                  what all of it costs, in one account per process             ledger.rs
//! ```
//!
//! DESIGN.md says why in this order. Each stage can be switched, so that each paper's own system is one setting:
//! [`System`].

mod decision;
mod delegation;
mod facts;
mod limits;
mod media;
mod set;
mod settings;

use egeria_machine::Machine;
use egeria_window::Window;

pub use decision::{
    Decision, DelegatedBecause, DelegationPlan, DirectBecause, Limit, Relocate, RelocationReason,
    RelocationStep,
};
pub use facts::{Facts, FileFacts, MediumFacts};
pub use settings::{Budget, Delegation, Relocation, Settings, Stages, System};

use crate::asymsched::{self, AccessWindow, PlacementPlan};
use crate::{Plan, nthread};
use delegation::{Delegates, Scene};
use limits::{Limits, admit_delegates};

/// Decides window after window, and remembers what it must: who was displaced, whose memory follows, limits, copies on
/// their way, what was spent. No clock, no I/O: the same facts in the same order give the same decisions.
#[derive(Clone, Debug)]
pub struct Planner {
    settings: Settings,
    threads: Option<Plan>,
    placement: Option<PlacementPlan>,
    limits: Limits,
    delegates: Delegates,
}

impl Planner {
    /// Nothing has happened yet. Settings from outside should be [validated](Settings::validate) first.
    pub fn new(_machine: &Machine, settings: Settings) -> Planner {
        Planner {
            settings,
            threads: None,
            placement: None,
            limits: Limits::default(),
            delegates: Delegates::default(),
        }
    }

    /// How it is set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What should be done about one window; the next call is told the next window, in which that was done.
    pub fn next(&mut self, machine: &Machine, facts: &Facts) -> Decision {
        let placement = self.place(machine, &facts.accesses);
        let threads = self.move_threads(machine, &facts.window);
        let remote_share = remote_share(machine, &facts.window, &threads);
        let mut limits = match self.settings.stages.limits {
            true => self.limits.next(machine, &facts.media, &self.settings.pats),
            false => Vec::new(),
        };
        let scene = Scene {
            machine,
            media: &facts.media,
            limits: &limits,
            remote_share,
        };
        let delegation = match self.settings.stages.delegation {
            true => self.delegates.next(&scene, &self.settings.delegation),
            false => DelegationPlan::Off {
                because: DirectBecause::Stage,
            },
        };
        admit_delegates(&mut limits, &delegation);
        self.threads = Some(threads.clone());
        self.placement = Some(placement.clone());
        Decision {
            threads,
            placement,
            limits,
            delegation,
            relocations: Vec::new(),
        }
    }

    fn place(&self, machine: &Machine, accesses: &AccessWindow) -> PlacementPlan {
        if !self.settings.stages.clusters {
            return PlacementPlan::off(accesses.number);
        }
        let mut accesses = accesses.clone();
        if let Some(last) = &self.placement {
            last.carry_to(&mut accesses);
        }
        asymsched::plan(machine, &accesses, &self.settings.asymsched)
    }

    fn move_threads(&self, machine: &Machine, window: &Window) -> Plan {
        let mut window = window.clone();
        if let Some(last) = &self.threads {
            last.carry_to(&mut window);
        }
        nthread::plan(machine, &window, &self.settings.nthread)
    }
}

/// Share of the bytes of file I/O that go to other nodes, if threads are where the plan puts them and their writes go
/// where they are; 0 without any.
fn remote_share(machine: &Machine, window: &Window, plan: &Plan) -> f64 {
    let (mut remote, mut all) = (0.0, 0.0);
    for facts in &window.threads {
        let node = plan.move_of(facts.key).map_or(facts.node, |step| step.to);
        let (read, total) = (facts.read_total() as f64, facts.moved_total() as f64);
        let here = machine
            .index_of(node)
            .and_then(|index| facts.read_bytes.get(index));
        remote += read - here.copied().unwrap_or_default() as f64;
        all += total;
    }
    if all > 0.0 { remote / all } else { 0.0 }
}
