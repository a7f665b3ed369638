//! Where groups and memory would be.

use super::scene::{Part, Scene, Stays};

/// A placement of all groups and parts.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct State {
    /// Node of each group.
    pub(super) nodes: Vec<usize>,
    /// Where each part lies, as shares of it by node; `None` where it is now.
    pub(super) parts: Vec<Option<Vec<f64>>>,
}

impl State {
    pub(super) fn now(scene: &Scene<'_>) -> State {
        State {
            nodes: scene.groups.iter().map(|group| group.node).collect(),
            parts: vec![None; scene.parts.len()],
        }
    }

    /// All memory of a process on one node, but for what stays.
    pub(super) fn gather(&mut self, scene: &Scene<'_>, program: usize, node: usize) {
        let parts = scene.programs[program].parts.iter();
        for part in parts.filter(|part| scene.parts[**part].stays.is_none()) {
            let mut shares = vec![0.0; scene.machine.nodes.len()];
            shares[node] = 1.0;
            self.parts[*part] = Some(shares);
        }
    }

    /// Where the accesses to a part go.
    pub(super) fn shares<'s>(&'s self, scene: &'s Scene<'_>, part: usize) -> &'s [f64] {
        self.parts[part]
            .as_deref()
            .unwrap_or(&scene.parts[part].shares)
    }

    /// Part of the accesses of a process that cross nodes, to memory and files.
    pub(super) fn remote_share(&self, scene: &Scene<'_>, program: usize) -> f64 {
        self.remote_share_of(scene, program, |_| true)
    }

    /// The same, of accesses to its memory alone.
    pub(super) fn remote_memory_share(&self, scene: &Scene<'_>, program: usize) -> f64 {
        self.remote_share_of(scene, program, |part| part.stays != Some(Stays::File))
    }

    fn remote_share_of(
        &self,
        scene: &Scene<'_>,
        program: usize,
        counts: impl Fn(&Part) -> bool,
    ) -> f64 {
        let (mut local, mut all) = (0.0, 0.0);
        let parts = scene.programs[program].parts.iter();
        for part in parts.filter(|part| counts(&scene.parts[**part])) {
            let shares = self.shares(scene, *part);
            for (group, rate) in &scene.parts[*part].uses {
                local += rate * shares[self.nodes[*group]];
                all += rate;
            }
        }
        if all > 0.0 {
            (1.0 - local / all).max(0.0)
        } else {
            0.0
        }
    }

    /// What memory of a process moves: from, to, bytes.
    pub(super) fn copies(&self, scene: &Scene<'_>, program: usize) -> Vec<(usize, usize, f64)> {
        let mut copies: Vec<(usize, usize, f64)> = Vec::new();
        for part in &scene.programs[program].parts {
            let Some(wanted) = &self.parts[*part] else {
                continue;
            };
            for (from, to, bytes) in flows(&scene.parts[*part].bytes, wanted) {
                match copies
                    .iter_mut()
                    .find(|copy| (copy.0, copy.1) == (from, to))
                {
                    Some(copy) => copy.2 += bytes,
                    None => copies.push((from, to, bytes)),
                }
            }
        }
        copies.sort_by_key(|copy| (copy.0, copy.1));
        copies
    }

    /// A node that has no room for the memory that comes, what comes, and what it could give, bytes.
    pub(super) fn without_room(&self, scene: &Scene<'_>) -> Option<(usize, f64, f64)> {
        let mut comes = vec![0.0; scene.machine.nodes.len()];
        for program in 0..scene.programs.len() {
            for (from, to, bytes) in self.copies(scene, program) {
                comes[to] += bytes;
                comes[from] -= bytes;
            }
        }
        let mut nodes = comes.iter().zip(&scene.room).enumerate();
        let full = nodes.find(|(_, (comes, room))| **comes > 0.0 && *comes > room)?;
        Some((full.0, *full.1.0, *full.1.1))
    }
}

/// What goes from nodes that have more than they should to those that have less.
fn flows(bytes: &[f64], wanted: &[f64]) -> Vec<(usize, usize, f64)> {
    let all: f64 = bytes.iter().sum();
    let mut over: Vec<f64> = bytes
        .iter()
        .zip(wanted)
        .map(|(is, share)| is - share * all)
        .collect();
    let mut flows = Vec::new();
    for from in 0..over.len() {
        for to in 0..over.len() {
            let bytes = over[from].min(-over[to]);
            if bytes >= 1.0 {
                flows.push((from, to, bytes));
                over[from] -= bytes;
                over[to] += bytes;
            }
        }
    }
    flows
}
