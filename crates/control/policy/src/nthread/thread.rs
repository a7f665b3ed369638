//! A thread in the making of a plan.

use egeria_facts::{ThreadFacts, Window};
use egeria_machine::NodeId;

use super::settings::Settings;
use crate::{Contention, KeptBecause, Reason};

/// One thread in the making of a plan.
pub(super) struct Thread<'a> {
    pub(super) facts: &'a ThreadFacts,
    pub(super) present: usize,
    /// Where its data is, if it can go there; else where it is.
    pub(super) home: usize,
    /// Where it would be, as far as decided.
    pub(super) at: usize,
    /// Its data is on one node (NThread §III-A).
    pub(super) lead: Option<Lead>,
    /// Bytes written in the window (`D_write`).
    pub(super) written: u64,
    /// Bytes read in the window (`D_read`).
    pub(super) read: u64,
    /// Whether it reads and writes enough to be looked at.
    pub(super) has_io: bool,
    /// Others decide about it.
    pub(super) is_held: bool,
    /// The node that the plan before made it leave, or not go to, because of contention.
    pub(super) displaced_from: Option<NodeId>,
    /// For what it is away from home.
    pub(super) away: Option<Contention>,
    /// Why it is not where it is now.
    pub(super) reason: Option<Reason>,
    /// Why it is where it is now.
    pub(super) kept: Option<KeptBecause>,
}

/// The node a thread reads from most, and by how much; bytes/s.
#[derive(Clone, Copy)]
pub(super) struct Lead {
    pub(super) node: usize,
    pub(super) read_bytes_s: f64,
    pub(super) next_bytes_s: f64,
}

impl<'a> Thread<'a> {
    pub(super) fn new(
        facts: &'a ThreadFacts,
        present: usize,
        window: &Window,
        settings: &Settings,
    ) -> Thread<'a> {
        let moved = facts.moved_total();
        Thread {
            facts,
            present,
            home: present,
            at: present,
            lead: None,
            written: facts.written_total(),
            read: facts.read_total(),
            has_io: moved > 0 && window.rate_bytes_s(moved) >= settings.min_io_bytes_s,
            is_held: false,
            displaced_from: None,
            away: None,
            reason: None,
            kept: None,
        }
    }

    /// Bytes read from a node in the window.
    pub(super) fn read_from(&self, node: usize) -> u64 {
        self.facts.read_bytes.get(node).copied().unwrap_or_default()
    }
}
