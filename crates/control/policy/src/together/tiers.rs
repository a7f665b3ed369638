//! Tiers: a node without CPUs, no faster than the others, is a place for what the nodes of its group use least.
//!
//! ```text
//!   short of memory   the least used goes to the slower node, until enough is free
//!   room              the most used comes back, as long as enough stays free
//!   no room           what is used much there changes places with what is used little here
//!   under load        if the near memory is the slower one, pages are balanced by weight      steps.rs
//! ```
//!
//! How slow a memory is under load follows from its latency and from its bytes/s, as hardware counts them or as they were
//! seen (Colloid, SOSP'24: latencies under load are compared, not names of tiers).
//!
//! Page cache that can be dropped counts as free: the kernel drops it, and it needs no slower node.

use std::collections::BTreeMap;

use egeria_facts::{ProcessAccesses, ProcessKey};

use super::basis::Basis;
use super::estimate::Estimate;
use super::memory::SMALL_BYTES;
use crate::asymsched::TierMove;

/// What comes back is used at least this many times as much as what makes room for it.
const HOTTER: f64 = 4.0;
/// This part of a slower node stays free.
const FAR_RESERVE: f64 = 0.02;

/// Memory of processes that went from tier to tier.
#[derive(Clone, Debug, Default)]
pub(super) struct Tiers {
    last: BTreeMap<ProcessKey, Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    is_down: bool,
    /// Since it had arrived.
    windows: u32,
}

impl Tiers {
    /// A window has passed; `is_arriving` says whether memory of a process is on its way.
    pub(super) fn pass(&mut self, rest_windows: u32, is_arriving: impl Fn(ProcessKey) -> bool) {
        self.last.retain(|process, last| {
            last.windows = if is_arriving(*process) {
                0
            } else {
                last.windows + 1
            };
            last.windows <= rest_windows
        });
    }

    pub(super) fn note(&mut self, process: ProcessKey, is_down: bool) {
        let last = Last {
            is_down,
            windows: 0,
        };
        self.last.insert(process, last);
    }

    /// Whether memory of a process went from tier to tier a short while ago.
    pub(super) fn holds(&self, process: ProcessKey) -> bool {
        self.last.contains_key(&process)
    }

    /// Whether it went the other way.
    fn went(&self, process: ProcessKey, is_down: bool) -> bool {
        self.last
            .get(&process)
            .is_some_and(|last| last.is_down == is_down)
    }
}

/// A node and the slower ones of its group.
pub(super) struct Tier {
    pub(super) near: usize,
    pub(super) far: Vec<usize>,
    /// Below this number of bytes, the node is short of memory; so much is free afterwards.
    low: f64,
    high: f64,
}

impl Tier {
    /// What stays free when memory comes.
    pub(super) fn keep(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }
}

/// The tiers of a machine: of nodes with a known amount of memory.
pub(super) fn of(basis: &Basis<'_>) -> Vec<Tier> {
    let (machine, settings) = (basis.machine, basis.settings);
    if !settings.tiers || machine.nodes.iter().all(|node| !node.cpus.is_empty()) {
        return Vec::new();
    }
    let near = (0..machine.nodes.len()).filter(|node| !machine.nodes[*node].cpus.is_empty());
    let tier = |near: usize| {
        let bytes = machine.nodes[near].memory().filter(|bytes| *bytes > 0)? as f64;
        let far = machine.slower_nodes(near);
        let low = bytes * settings.tier_low;
        (!far.is_empty()).then(|| Tier {
            near,
            far,
            low,
            high: low.max(bytes * settings.tier_high),
        })
    };
    near.filter_map(tier).collect()
}

/// Memory of a process that is used alike.
struct Heat<'a> {
    facts: &'a ProcessAccesses,
    /// Accesses per second of a byte.
    density: f64,
    /// Where it lies, bytes by node.
    bytes: Vec<f64>,
    /// The node that uses it most.
    user: Option<usize>,
}

/// What goes, by process: from, to, bytes.
pub(super) type Copies = BTreeMap<ProcessKey, Vec<(usize, usize, f64)>>;

/// One node and its slower ones, with all memory of processes there, the least used first.
struct Stage<'a, 'b> {
    basis: &'a Basis<'b>,
    tier: &'a Tier,
    heats: &'a [Heat<'b>],
    estimate: &'a Estimate,
    history: &'a Tiers,
    /// From this number of accesses per second of a byte, it is worth a move there and back.
    worth: f64,
}

/// What goes from tier to tier, by node, and why. `room` is what nodes can give, bytes.
pub(super) fn moves(
    basis: &Basis<'_>,
    estimate: &Estimate,
    history: &Tiers,
    may_move: impl Fn(ProcessKey) -> bool,
) -> Vec<(Copies, TierMove)> {
    let tiers = of(basis);
    let room = basis.window.free_bytes.iter();
    let mut room: Vec<f64> = room.map(|free| *free as f64).collect();
    if tiers.is_empty() || room.len() < basis.machine.nodes.len() {
        return Vec::new();
    }
    let heats = heats(basis, may_move);
    let of_tier = |tier: &Tier| {
        let stage = Stage {
            basis,
            tier,
            heats: &heats,
            estimate,
            history,
            worth: worth(basis, estimate, tier),
        };
        stage.moves(&mut room)
    };
    tiers.iter().map(of_tier).collect()
}

impl Stage<'_, '_> {
    fn moves(&self, room: &mut [f64]) -> (Copies, TierMove) {
        let free = room[self.tier.near];
        let (free_bytes, wanted) = (free as u64, self.wanted(free));
        let down = self.demoted(wanted, room);
        if !down.is_empty() {
            let wanted_bytes = wanted as u64;
            return (
                down,
                TierMove::Demoted {
                    free_bytes,
                    wanted_bytes,
                },
            );
        }
        (self.promoted(room), TierMove::Promoted { free_bytes })
    }

    /// What should leave the node: what it is short of, or what would make room for what is used more.
    fn wanted(&self, free: f64) -> f64 {
        let tier = self.tier;
        if free < tier.low {
            return tier.high - free;
        }
        let mut cold = self
            .cold()
            .map(|heat| (heat.density, heat.bytes[tier.near]));
        let (mut here, mut wanted) = (cold.next(), 0.0);
        let mut given = (free - tier.keep()).max(0.0);
        for hot in self.hot() {
            let mut comes = self.far_bytes(hot);
            let fits = comes.min(given);
            (comes, given) = (comes - fits, given - fits);
            while let Some((density, bytes)) = here.filter(|_| comes >= 1.0) {
                if density * HOTTER > hot.density || hot.density - density < self.worth {
                    break;
                }
                let goes = bytes.min(comes);
                (comes, wanted) = (comes - goes, wanted + goes);
                here = if goes < bytes {
                    Some((density, bytes - goes))
                } else {
                    cold.next()
                };
            }
        }
        if wanted > 0.0 {
            wanted + (tier.keep() - free).max(0.0)
        } else {
            0.0
        }
    }

    /// The least used goes to the slower nodes, as far as they have room.
    fn demoted(&self, wanted: f64, room: &mut [f64]) -> Copies {
        let (near, mut left) = (self.tier.near, wanted);
        let mut copies = Copies::new();
        if left < SMALL_BYTES as f64 {
            return copies;
        }
        let is_short = room[near] < self.tier.low;
        for heat in self.cold() {
            // What would come back at once stays.
            if is_short && heat.density >= self.worth {
                break;
            }
            let mut bytes = heat.bytes[near];
            for far in &self.tier.far {
                let memory = self.basis.machine.nodes[*far].memory().unwrap_or(0);
                let most = room[*far] - memory as f64 * FAR_RESERVE;
                let goes = bytes.min(left).min(most.max(0.0)).floor();
                if goes >= 1.0 {
                    (left, bytes) = (left - goes, bytes - goes);
                    (room[*far], room[near]) = (room[*far] - goes, room[near] + goes);
                    add(&mut copies, heat.facts.process, (near, *far, goes));
                }
            }
        }
        copies
    }

    /// The most used comes back, as long as enough stays free and the near memory is the faster one.
    fn promoted(&self, room: &mut [f64]) -> Copies {
        let near = self.tier.near;
        let mut copies = Copies::new();
        let mut comes_s = 0.0;
        for heat in self.hot() {
            for far in &self.tier.far {
                let most = (room[near] - self.tier.keep()).max(0.0);
                let goes = heat.bytes[*far].min(most).floor();
                let more_s = comes_s + goes * heat.density;
                if goes < 1.0 || !self.estimate.is_faster(near, *far, more_s) {
                    continue;
                }
                comes_s = more_s;
                (room[near], room[*far]) = (room[near] - goes, room[*far] + goes);
                add(&mut copies, heat.facts.process, (*far, near, goes));
            }
        }
        copies
    }

    /// What may go down, the least used first.
    fn cold<'s>(&'s self) -> impl Iterator<Item = &'s Heat<'s>> {
        let near = self.tier.near;
        let here = self
            .heats
            .iter()
            .filter(move |heat| heat.bytes[near] >= 1.0);
        here.filter(move |heat| !self.history.went(heat.facts.process, false))
    }

    /// What may come back and is worth that, the most used first.
    fn hot<'s>(&'s self) -> impl Iterator<Item = &'s Heat<'s>> {
        let there = self.heats.iter().rev();
        let there = there.take_while(|heat| heat.density >= self.worth);
        let own = there.filter(|heat| heat.user == Some(self.tier.near));
        own.filter(move |heat| {
            self.far_bytes(heat) >= 1.0 && !self.history.went(heat.facts.process, true)
        })
    }

    fn far_bytes(&self, heat: &Heat<'_>) -> f64 {
        self.tier.far.iter().map(|far| heat.bytes[*far]).sum()
    }
}

/// Accesses per second of a byte whose shorter way repays a move to the slower nodes and back in time.
fn worth(basis: &Basis<'_>, estimate: &Estimate, tier: &Tier) -> f64 {
    let far_ns = |far: &usize| estimate.idle_ns(tier.near, *far);
    let far_ns = tier.far.iter().map(far_ns).fold(f64::INFINITY, f64::min);
    let longer_s = (far_ns - estimate.idle_ns(tier.near, tier.near)).max(1.0) / 1e9;
    let horizon_s = basis.settings.repaid_ms as f64 / 1e3;
    2.0 * basis.cost.s_per_gb / 1e9 / (longer_s * horizon_s)
}

fn add(copies: &mut Copies, process: ProcessKey, (from, to, bytes): (usize, usize, f64)) {
    let own = copies.entry(process).or_default();
    match own.iter_mut().find(|copy| (copy.0, copy.1) == (from, to)) {
        Some(copy) => copy.2 += bytes,
        None => own.push((from, to, bytes)),
    }
}

/// All memory of processes by use, the least used first. What no access was seen to counts as not used.
fn heats<'a>(basis: &Basis<'a>, may_move: impl Fn(ProcessKey) -> bool) -> Vec<Heat<'a>> {
    let mut heats = Vec::new();
    for facts in basis.window.processes.iter() {
        if may_move(facts.process) {
            add_heats(basis, facts, &mut heats);
        }
    }
    heats.sort_by(|one, other| {
        let by_use = one.density.total_cmp(&other.density);
        by_use.then(one.facts.process.cmp(&other.facts.process))
    });
    heats
}

fn add_heats<'a>(basis: &Basis<'a>, facts: &'a ProcessAccesses, heats: &mut Vec<Heat<'a>>) {
    let nodes = basis.machine.nodes.len();
    let user = |rates: &dyn Fn(usize) -> f64| {
        let used = (0..nodes).filter(|node| rates(*node) > 0.0);
        used.max_by(|one, other| rates(*one).total_cmp(&rates(*other)))
    };
    let mut rest = vec![0.0; nodes];
    for each in &facts.nodes {
        if let Some(node) = basis.machine.index_of(each.node) {
            rest[node] += each.resident_bytes as f64;
        }
    }
    for region in &facts.regions {
        let bytes = |node: usize| {
            region
                .resident_bytes
                .get(node)
                .map_or(0.0, |bytes| *bytes as f64)
        };
        let bytes: Vec<f64> = (0..nodes).map(bytes).collect();
        let rate = |node: usize| region.accesses_s.get(node).copied().unwrap_or(0.0);
        let all: f64 = bytes.iter().sum();
        if all < 1.0 {
            continue;
        }
        rest.iter_mut()
            .zip(&bytes)
            .for_each(|(rest, own)| *rest = (*rest - own).max(0.0));
        heats.push(Heat {
            facts,
            density: (0..nodes).map(rate).sum::<f64>() / all,
            bytes,
            user: user(&rate),
        });
    }
    if !facts.regions.is_empty() {
        heats.push(Heat {
            facts,
            density: 0.0,
            bytes: rest,
            user: None,
        });
        return;
    }
    // Without regions, the memory of a node is used alike.
    for (memory, all) in rest.iter().enumerate().filter(|(_, all)| **all >= 1.0) {
        let rate = |node: usize| {
            let on = facts.nodes.iter();
            let on = on.filter(|each| basis.machine.index_of(each.node) == Some(node));
            on.map(|each| each.rate_to(memory)).sum()
        };
        let mut bytes = vec![0.0; nodes];
        bytes[memory] = *all;
        heats.push(Heat {
            facts,
            density: (0..nodes).map(rate).sum::<f64>() / all,
            bytes,
            user: user(&rate),
        });
    }
}
