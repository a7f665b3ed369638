//! What-if analysis (NThread §III): threads in a place other than the one they are in.

use egeria_facts::{CpuSet, ThreadFacts, Window};
use egeria_machine::{Machine, NodeId};

use super::guide::{Guide, Roads};
use super::loads::Loads;
use super::maximum;
use super::settings::Settings;
use super::thread::Thread;
use crate::{Contention, KeptBecause, Note, Reason};

/// Ways that differ by less are alike: each thread that is put on one narrows it a little, and load would never count.
const ABOUT_AS_WIDE: f64 = 0.9;

/// The state of a plan in the making. Nodes are positions in `Machine::nodes`.
pub(super) struct WhatIf<'a> {
    pub(super) machine: &'a Machine,
    pub(super) settings: &'a Settings,
    sites: Vec<Site>,
    /// Ascending by key, so that the order they came in does not matter.
    pub(super) threads: Vec<Thread<'a>>,
    pub(super) loads: Loads<'a>,
    /// The traffic between nodes, if displaced threads are put by it.
    roads: Option<Roads<'a>>,
    strays: Vec<Note>,
}

/// What decides whether threads can be on a node.
struct Site {
    id: NodeId,
    cpus: CpuSet,
    has_pool: bool,
    /// An emulated node that stands on no CPUs yet: any thread may go there.
    takes_any: bool,
}

impl<'a> WhatIf<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        window: &'a Window,
        settings: &'a Settings,
    ) -> WhatIf<'a> {
        let mut strays = Vec::new();
        let mut threads = Vec::with_capacity(window.threads.len());
        for facts in &window.threads {
            match machine.index_of(facts.node) {
                Some(present) => threads.push(Thread::new(facts, present, window, settings)),
                None => strays.push(facts),
            }
        }
        threads.sort_by_key(|thread| thread.facts.key);
        strays.sort_by_key(|facts| facts.key);
        WhatIf {
            machine,
            settings,
            sites: sites(machine, window),
            loads: Loads::new(machine, window, settings, &threads),
            threads,
            roads: None,
            strays: strays.into_iter().map(nowhere).collect(),
        }
    }

    /// Puts held threads where they will be, and all others' reads on the ways between nodes.
    pub(super) fn heed(&mut self, guide: Guide<'a>) {
        for thread in &mut self.threads {
            thread.displaced_from = guide.displaced.get(&thread.facts.key).copied();
        }
        for index in 0..self.threads.len() {
            let Some(id) = guide.held.get(&self.threads[index].facts.key) else {
                continue;
            };
            let node = self.machine.index_of(*id);
            let node = node.unwrap_or(self.threads[index].present);
            self.put(index, node);
            let thread = &mut self.threads[index];
            (thread.home, thread.is_held, thread.has_io) = (node, true, false);
        }
        self.roads = guide.roads;
        if let Some(roads) = &mut self.roads {
            self.threads.iter().for_each(|thread| roads.put_on(thread));
        }
    }

    /// Puts a thread somewhere, with its writes and its running time.
    pub(super) fn put(&mut self, thread: usize, node: usize) {
        let thread = &mut self.threads[thread];
        self.loads.take_off(thread);
        self.roads
            .iter_mut()
            .for_each(|roads| roads.take_off(thread));
        thread.at = node;
        self.loads.put_on(thread);
        self.roads.iter_mut().for_each(|roads| roads.put_on(thread));
    }

    /// What the way from a thread's data to each node carries for it, bytes/s, if threads are put by that.
    pub(super) fn widths_bytes_s(&self, index: usize) -> Option<Vec<f64>> {
        let roads = self.roads.as_ref()?;
        let seconds = self.loads.seconds();
        Some(roads.widths_bytes_s(&self.threads[index], seconds))
    }

    /// Why a thread cannot run on a node, if it cannot.
    pub(super) fn obstacle(&self, thread: usize, node: usize) -> Option<KeptBecause> {
        let (facts, site) = (self.threads[thread].facts, &self.sites[node]);
        if facts.pinned {
            Some(KeptBecause::Pinned)
        } else if site.takes_any {
            None
        } else if site.cpus.is_empty() {
            Some(KeptBecause::NoCpus)
        } else if !facts.allowed_cpus.intersects(&site.cpus) {
            Some(KeptBecause::CpusExclude)
        } else {
            None
        }
    }

    /// Whether a thread may be sent to a node for contention: never back to its data (that is
    /// decided in `returns`), and a writer never to a node where it cannot write.
    pub(super) fn may_leave_for(&self, index: usize, node: usize) -> bool {
        let thread = &self.threads[index];
        node != thread.at
            && (node != thread.home || thread.lead.is_none())
            && (thread.written == 0 || self.sites[node].has_pool)
            && self.obstacle(index, node).is_none()
    }

    /// Whether a thread on a contended node stays there because it shares a file (NThread
    /// §III-D); notes it.
    pub(super) fn stays_with_sharers(&mut self, index: usize, contention: Contention) -> bool {
        let thread = &mut self.threads[index];
        let stays = self.settings.stages.sharing && thread.facts.is_shared;
        if stays && thread.at == thread.present {
            thread.kept = Some(KeptBecause::Shared { contention });
        }
        stays
    }

    /// Leaves a thread where it is now instead of sending it to its data.
    pub(super) fn leave_away(&mut self, index: usize, contention: Contention) {
        self.put(index, self.threads[index].present);
        let thread = &mut self.threads[index];
        thread.away = Some(contention);
        thread.reason = None;
        thread.kept = Some(KeptBecause::HomeContended { contention });
    }

    /// Sends a thread away because of contention.
    pub(super) fn send_away(&mut self, index: usize, node: usize, reason: Reason) {
        self.put(index, node);
        let thread = &mut self.threads[index];
        thread.away = reason.contention();
        thread.reason = Some(reason);
        thread.kept = None;
    }

    /// Of the nodes a thread may leave for, where ways count, those to which the way from its data is about the
    /// widest; of these the least loaded, then the nearest to the node it leaves, then the first. With the width of
    /// that way, bytes/s.
    pub(super) fn best_of(
        &self,
        index: usize,
        nodes: impl Iterator<Item = usize>,
        load: impl Fn(usize) -> f64,
    ) -> Option<(usize, Option<f64>)> {
        let widths = self.widths_bytes_s(index);
        let width = |node: usize| widths.as_ref().map(|widths| widths[node]);
        let nodes: Vec<usize> = nodes.collect();
        let all = nodes.iter().filter_map(|node| width(*node));
        let widest = all.fold(0.0, f64::max);
        let is_wide = |node: &usize| width(*node).unwrap_or(0.0) >= ABOUT_AS_WIDE * widest;
        let order = |&one: &usize, &other: &usize| {
            let distance = |node| self.distance(self.threads[index].at, node);
            let by_load = load(one).total_cmp(&load(other));
            by_load.then(distance(one).cmp(&distance(other)))
        };
        let node = nodes.into_iter().filter(is_wide).min_by(order)?;
        Some((node, width(node)))
    }

    /// Distance from one node to another; the shorter, the wider the link.
    pub(super) fn distance(&self, from: usize, to: usize) -> u32 {
        let row = self.machine.distances.get(from);
        row.and_then(|row| row.get(to)).copied().unwrap_or(u32::MAX)
    }

    /// What is missing to judge everything.
    pub(super) fn notes(&self) -> Vec<Note> {
        let unknown = |site: &(usize, &Site)| {
            let can_write_there = site.1.has_pool && self.loads.has_cores(site.0);
            can_write_there && self.loads.pm_maximum_bytes_s(site.0).is_none()
        };
        let note = |(_, site): (usize, &Site)| Note::PmMaximumUnknown { node: site.id };
        let sites = self.sites.iter().enumerate();
        let unknown = sites.filter(unknown).map(note);
        let wanted = unknown.filter(|_| self.settings.stages.pm);
        wanted.chain(self.strays.iter().copied()).collect()
    }
}

fn sites(machine: &Machine, window: &Window) -> Vec<Site> {
    let site = |(index, node): (usize, &egeria_machine::Node)| Site {
        id: node.id,
        cpus: node.cpus.iter().copied().collect(),
        has_pool: maximum::has_pool(window, index),
        takes_any: machine.is_emulated() && node.cpus.is_empty(),
    };
    machine.nodes.iter().enumerate().map(site).collect()
}

fn nowhere(facts: &ThreadFacts) -> Note {
    Note::ThreadNowhere {
        thread: facts.key,
        node: facts.node,
    }
}
