//! Upper bounds of what clusters get of the links, without computing shares.
//!
//! Each flow gets at most the width of its way, and counts on only one of its lanes: the lane that would be fullest if
//! all flows got their most. The flows of a lane get no more than it carries, and the worthiest are served first. So
//! the bound is never below the worth of any shares, whichever lane a flow counts on.

use egeria_machine::Paths;

use super::clusters::{NodeSet, positions};

/// Computes bounds, with reused memory.
pub(super) struct Bounds<'a> {
    paths: &'a Paths,
    nodes: usize,
    /// The width of the way between two nodes, by position of both.
    widths: Vec<f64>,
    /// What flows would put on each lane.
    wanted: Vec<f64>,
    /// What each lane can still carry.
    left: Vec<f64>,
}

impl<'a> Bounds<'a> {
    pub(super) fn new(paths: &'a Paths, nodes: usize) -> Bounds<'a> {
        let ways = (0..nodes * nodes).map(|way| paths.widest_bytes_s(way / nodes, way % nodes));
        Bounds {
            paths,
            nodes,
            widths: ways.collect(),
            wanted: vec![0.0; paths.lanes.len()],
            left: vec![0.0; paths.lanes.len()],
        }
    }

    /// Not less than the sum of what these sets of nodes get times what it is worth. The worthiest come first.
    pub(super) fn of(&mut self, sets: &[(NodeSet, f64)]) -> f64 {
        self.wanted.fill(0.0);
        for (left, lane) in self.left.iter_mut().zip(&self.paths.lanes) {
            *left = lane.bytes_s;
        }
        for (from, to) in sets.iter().flat_map(|(set, _)| pairs(*set)) {
            let most = self.widths[from * self.nodes + to];
            for lane in self.paths.way(from, to) {
                self.wanted[*lane] += most;
            }
        }
        let mut sum = 0.0;
        for (set, worth) in sets {
            for (from, to) in pairs(*set) {
                sum += self.take(from, to) * worth;
            }
        }
        sum
    }

    /// What one flow takes on its lane.
    fn take(&mut self, from: usize, to: usize) -> f64 {
        let most = self.widths[from * self.nodes + to];
        let mut fullest = None;
        let mut crowding = 1.0;
        for lane in self.paths.way(from, to) {
            let here = self.wanted[*lane] / self.paths.lanes[*lane].bytes_s;
            if here > crowding {
                (fullest, crowding) = (Some(*lane), here);
            }
        }
        // If no lane can be filled, the flow gets its most.
        let Some(lane) = fullest else { return most };
        let taken = most.min(self.left[lane]);
        self.left[lane] -= taken;
        taken
    }
}

/// Every two nodes of a set, both ways.
pub(super) fn pairs(set: NodeSet) -> impl Iterator<Item = (usize, usize)> {
    positions(set).flat_map(move |from| positions(set & !(1 << from)).map(move |to| (from, to)))
}
