//! Groups of nodes that are near each other: sockets.
//!
//! The kernel or the file says which socket a node's CPUs are in. Where neither does, distances tell: nodes are a group if
//! each is nearer to all others of it than to any other node, with the widest step between the two. Nodes without CPUs
//! belong to the group of the nearest node that has some.

use serde::Serialize;

use crate::{Machine, NodeId};

/// A step between distances that separates groups is at least this wide (the farther one divided by the nearer).
const MIN_STEP: f64 = 1.25;

/// What says which nodes are a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupSource {
    /// The sockets that the CPUs are in.
    Sockets,
    /// Distances between the nodes.
    Distances,
}

/// Nodes that are near each other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Group {
    /// The socket, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<u32>,
    /// The nodes, ascending.
    pub nodes: Vec<NodeId>,
}

/// The groups of a machine: each node is in one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Groups {
    /// The group of each node, by position.
    of: Vec<usize>,
    /// The socket of each group.
    sockets: Vec<Option<u32>>,
    pub source: GroupSource,
}

impl Groups {
    pub fn count(&self) -> usize {
        self.sockets.len()
    }

    /// The group of the node at this position.
    pub fn of(&self, node: usize) -> Option<usize> {
        self.of.get(node).copied()
    }

    /// Whether the nodes at these positions are in the same group.
    pub fn are_near(&self, one: usize, other: usize) -> bool {
        one == other
            || self
                .of(one)
                .is_some_and(|group| self.of(other) == Some(group))
    }

    /// The positions of a group's nodes.
    pub fn members(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        let nodes = self.of.iter().enumerate();
        nodes.filter_map(move |(node, of)| (*of == group).then_some(node))
    }
}

impl Machine {
    /// Which nodes are near each other.
    pub fn groups(&self) -> Groups {
        let has_cores = |node: &usize| self.core_count(&self.nodes[*node]) > 0;
        let with_cores: Vec<usize> = (0..self.nodes.len()).filter(has_cores).collect();
        let sockets: Option<Vec<u32>> = with_cores
            .iter()
            .map(|node| self.nodes[*node].socket)
            .collect();
        let (keys, source) = match sockets.filter(|sockets| !sockets.is_empty()) {
            Some(sockets) => (sockets, GroupSource::Sockets),
            None => (self.by_distances(&with_cores), GroupSource::Distances),
        };
        let mut names = keys.clone();
        names.sort_unstable();
        names.dedup();
        let number = |key: u32| names.iter().position(|name| *name == key).unwrap_or(0);
        let mut of = vec![0; self.nodes.len()];
        for (node, key) in with_cores.iter().zip(&keys) {
            of[*node] = number(*key);
        }
        for node in (0..self.nodes.len()).filter(|node| !has_cores(node)) {
            let own = self.nodes[node].socket.filter(|own| names.contains(own));
            of[node] = match own.filter(|_| source == GroupSource::Sockets) {
                Some(own) => number(own),
                None => self.nearest(node, &with_cores).map_or(0, |near| of[near]),
            };
        }
        let socket = |name: u32| (source == GroupSource::Sockets).then_some(name);
        Groups {
            of,
            sockets: names.iter().map(|name| socket(*name)).collect(),
            source,
        }
    }

    /// The nodes of a node's group that are no more than a place for its memory: without CPUs, and as far as that is
    /// known no faster than its own memory. By position; none for a node without CPUs.
    pub fn slower_nodes(&self, near: usize) -> Vec<usize> {
        if self.nodes.get(near).is_none_or(|node| node.cpus.is_empty()) {
            return Vec::new();
        }
        let groups = self.groups();
        let weights = self.weights().unwrap_or_default();
        let weight = |node: usize| {
            let mut weights = weights.iter();
            let own = weights.find(|(id, _)| *id == self.nodes[node].id);
            own.map_or(0, |(_, weight)| *weight)
        };
        let is_slower = |node: &usize| {
            let each = &self.nodes[*node];
            each.cpus.is_empty()
                && each.memory() != Some(0)
                && groups.are_near(near, *node)
                && weight(*node) <= weight(near)
        };
        (0..self.nodes.len()).filter(is_slower).collect()
    }

    /// The groups with the numbers of their nodes.
    pub fn list_groups(&self) -> Vec<Group> {
        let groups = self.groups();
        let group = |(number, socket): (usize, &Option<u32>)| Group {
            socket: *socket,
            nodes: groups
                .members(number)
                .map(|node| self.nodes[node].id)
                .collect(),
        };
        groups.sockets.iter().enumerate().map(group).collect()
    }

    /// The farther way between two nodes.
    fn apart(&self, one: usize, other: usize) -> u32 {
        let way = |from: usize, to: usize| {
            let row = self.distances.get(from);
            row.and_then(|row| row.get(to)).copied().unwrap_or(u32::MAX)
        };
        way(one, other).max(way(other, one))
    }

    fn nearest(&self, node: usize, among: &[usize]) -> Option<usize> {
        among
            .iter()
            .copied()
            .min_by_key(|near| self.apart(node, *near))
    }

    /// The first node of each node's group.
    fn by_distances(&self, nodes: &[usize]) -> Vec<u32> {
        let mut steps: Vec<u32> = Vec::new();
        for (index, one) in nodes.iter().enumerate() {
            steps.extend(nodes[..index].iter().map(|other| self.apart(*one, *other)));
        }
        steps.sort_unstable();
        steps.dedup();
        let width = |pair: &[u32]| f64::from(pair[1]) / f64::from(pair[0].max(1));
        let mut between: Vec<(f64, u32)> = steps
            .windows(2)
            .map(|pair| (width(pair), pair[0]))
            .filter(|(width, _)| *width >= MIN_STEP)
            .collect();
        between.sort_by(|one, other| other.0.total_cmp(&one.0));
        let grouped = between
            .into_iter()
            .find_map(|(_, far)| self.within(nodes, far));
        let alone = || nodes.iter().map(|node| *node as u32).collect();
        grouped.unwrap_or_else(alone)
    }

    /// The first node of each node's group, if nodes no farther than this from each other are groups.
    fn within(&self, nodes: &[usize], far: u32) -> Option<Vec<u32>> {
        let is_near = |one: usize, other: usize| one == other || self.apart(one, other) <= far;
        let first = |node: &usize| nodes.iter().position(|near| is_near(*node, *near));
        let of: Option<Vec<usize>> = nodes.iter().map(first).collect();
        let of = of?;
        let mut pairs = (0..nodes.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        let are_groups =
            pairs.all(|(one, other)| (of[one] == of[other]) == is_near(nodes[one], nodes[other]));
        are_groups.then(|| of.into_iter().map(|first| nodes[first] as u32).collect())
    }
}
