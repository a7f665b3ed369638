//! Files, and memory of programs.

use egeria_machine::{AccessKind, NodeId};

use crate::outcome::Allocation;
use crate::rates::model::Model;
use crate::workload::{FileGroup, Layout, MediumKind};

/// One file, or files that several threads use alike; or memory.
pub(crate) struct File {
    pub(crate) bytes: f64,
    pub(crate) medium: MediumKind,
    pub(crate) layout: Layout,
    /// Share of its data in each memory.
    pub(crate) shares: Vec<f64>,
    /// Memories with a copy of all of it, to read.
    pub(crate) replicas: Vec<bool>,
    /// Threads that use it.
    pub(crate) users: u32,
    /// Bytes since the window began, read by each node from each memory.
    pub(crate) read_bytes: Vec<Vec<f64>>,
    /// Bytes written since the window began.
    pub(crate) written_bytes: f64,
    /// How often each byte was used in the last window, to compare files.
    pub(crate) heat: f64,
}

impl File {
    /// `written` bytes at random offsets now lie as `to` says.
    pub(crate) fn overwrite(&mut self, written: f64, to: &[f64]) {
        // Of what is written at random, some is written twice.
        let fresh = 1.0 - (-written / self.bytes).exp();
        for (share, to) in self.shares.iter_mut().zip(to) {
            *share += (to - *share) * fresh;
        }
    }

    /// Where a thread of this node reads it from: a copy, where that is nearer.
    pub(crate) fn read_shares(&self, model: &Model, home: usize) -> Vec<f64> {
        let distance = |place: usize| {
            let node = model.costs.places[place].node;
            f64::from(model.machine.distances[home][node])
        };
        let copies = (0..self.shares.len()).filter(|place| self.replicas[*place]);
        let nearest = copies.min_by(|one, other| distance(*one).total_cmp(&distance(*other)));
        let original = self.shares.iter().enumerate();
        let original: f64 = original.map(|(place, share)| share * distance(place)).sum();
        match nearest {
            Some(place) if distance(place) < original => at_one(place, self.shares.len()),
            _ => self.shares.clone(),
        }
    }
}

pub(crate) fn at_one(place: usize, places: usize) -> Vec<f64> {
    let share = |each| f64::from(u8::from(each == place));
    (0..places).map(share).collect()
}

pub(crate) fn over(some: &[usize], places: usize) -> Vec<f64> {
    let mut shares = vec![0.0; places];
    for place in some {
        shares[*place] = 1.0 / some.len() as f64;
    }
    shares
}

/// Where stripes lie: by the weights of what memories give.
pub(crate) fn in_stripes(model: &Model, medium: MediumKind) -> Vec<f64> {
    let (places, mut shares) = (model.places_of(medium), vec![0.0; model.costs.places.len()]);
    let gives = |place: &usize| model.costs.places[*place].memory.read_bytes_s;
    let bandwidths: Vec<f64> = places.iter().map(gives).collect();
    let weights = egeria_machine::weights(&bandwidths);
    if weights.is_empty() {
        return over(&places, shares.len());
    }
    let all: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
    for (place, weight) in places.iter().zip(&weights) {
        shares[*place] = f64::from(*weight) / all;
    }
    shares
}

impl File {
    pub(crate) fn count(&mut self, kind: AccessKind, home: usize, place: usize, bytes: f64) {
        match kind {
            AccessKind::Read => self.read_bytes[home][place] += bytes,
            AccessKind::Write => self.written_bytes += bytes,
        }
    }
}

pub(crate) fn new_file(
    model: &Model,
    group: &FileGroup,
    (number, shared): (usize, bool),
    allocation: Allocation,
) -> File {
    let places = model.costs.places.len();
    let named: Vec<NodeId> = group.node.into_iter().collect();
    let mut named = [&named[..], &group.nodes].concat();
    if group.in_turn && !shared && !named.is_empty() {
        named = vec![named[number % named.len()]];
    }
    let is_storage = group.medium == MediumKind::Storage;
    let layout = match allocation {
        Allocation::Striped if is_storage => Layout::Striped,
        _ => group.layout,
    };
    // A system that spreads all data has spread this too.
    let is_spread = is_storage && allocation == Allocation::Spread;
    let shares = if layout == Layout::Striped {
        in_stripes(model, group.medium)
    } else if is_spread || named.is_empty() {
        over(&model.places_of(group.medium), places)
    } else {
        let positions = named.iter().filter_map(|id| model.machine.index_of(*id));
        let there = positions.filter_map(|node| model.place_of(node, group.medium));
        over(&there.collect::<Vec<_>>(), places)
    };
    let all = if shared { group.count } else { 1 };
    File {
        bytes: group.bytes as f64 * all as f64,
        medium: group.medium,
        layout,
        shares,
        replicas: vec![false; places],
        users: 0,
        read_bytes: vec![vec![0.0; places]; model.node_count()],
        written_bytes: 0.0,
        heat: 0.0,
    }
}
