//! Groups of nodes that are placed together, and the clusters over them.

use std::collections::BTreeMap;

use super::clusters::{NodeSet, Scene, positions};

/// The movable groups of a scene. Nodes whose threads need no link, because no cluster there spans nodes, only give
/// way.
pub(super) struct Layout {
    /// The heaviest first.
    pub(super) groups: Vec<Group>,
    pub(super) bundles: Vec<Bundle>,
    /// Positions in `bundles`, the worthiest first.
    pub(super) by_worth: Vec<usize>,
    /// Nodes that give way, by how many cores they have.
    quiet: BTreeMap<usize, NodeSet>,
    /// Nodes where threads can go, by how many cores they have.
    pools: BTreeMap<usize, NodeSet>,
    /// Memory that moves together with the threads of each node, bytes.
    bytes_along: Vec<u64>,
}

/// Nodes that belong to the same clusters and have as many cores; which of them is which does not matter.
pub(super) struct Group {
    pub(super) nodes: NodeSet,
    /// Where they can go: their like, or nowhere else if threads there must stay.
    pub(super) pool: NodeSet,
    /// Bundles whose other groups come before this one.
    pub(super) completes: Vec<usize>,
}

/// Clusters on the same nodes.
pub(super) struct Bundle {
    pub(super) nodes: NodeSet,
    /// Positions of its groups.
    pub(super) groups: Vec<usize>,
    /// Positions of its clusters in the scene.
    pub(super) clusters: Vec<usize>,
    /// What a byte/s of it adds to the weighted bandwidth: the mean weight of its clusters.
    pub(super) worth: f64,
}

/// The key of a group: clusters, cores, and the node itself if it must stay.
type Signature = (Vec<usize>, usize, Option<usize>);

impl Layout {
    pub(super) fn new(scene: &Scene<'_>) -> Layout {
        let cores = |node: usize| scene.machine.core_count(&scene.machine.nodes[node]);
        let mut bundles = bundles(scene);
        let mut grouped: BTreeMap<Signature, NodeSet> = BTreeMap::new();
        let (mut quiet, mut pools) = (BTreeMap::new(), BTreeMap::new());
        for node in 0..scene.machine.nodes.len() {
            let is_fixed = scene.fixed >> node & 1 == 1;
            if !is_fixed && cores(node) > 0 {
                *pools.entry(cores(node)).or_default() |= 1 << node;
            }
            let has_node = |index: &usize| bundles[*index].nodes >> node & 1 == 1;
            let of: Vec<usize> = (0..bundles.len()).filter(has_node).collect();
            if !of.is_empty() {
                let signature = (of, cores(node), is_fixed.then_some(node));
                *grouped.entry(signature).or_default() |= 1 << node;
            } else if scene.occupied >> node & 1 == 1 && !is_fixed {
                *quiet.entry(cores(node)).or_default() |= 1 << node;
            }
        }
        let groups = groups(grouped, &pools, &mut bundles);
        let mut by_worth: Vec<usize> = (0..bundles.len()).collect();
        by_worth.sort_by(|a, b| bundles[*b].worth.total_cmp(&bundles[*a].worth));
        let along = (0..scene.machine.nodes.len()).map(|node| scene.bytes_along(node));
        Layout {
            groups,
            bundles,
            by_worth,
            quiet,
            pools,
            bytes_along: along.collect(),
        }
    }

    /// The cost of a placement: memory to move, bytes, and nodes.
    pub(super) fn cost(&self, targets: &[NodeSet]) -> (u64, u32) {
        let moved = self
            .groups
            .iter()
            .zip(targets)
            .map(|(group, set)| group.nodes & !set);
        let displaced = self.all_quiet() & targets.iter().fold(0, |all, set| all | set);
        let moved = moved.fold(displaced, |all, set| all | set);
        let bytes = positions(moved).map(|node| self.bytes_along[node]);
        (bytes.fold(0, u64::saturating_add), moved.count_ones())
    }

    /// The number of placements, saturating.
    pub(super) fn placements(&self) -> u64 {
        let mut placed = 0;
        let choices = |group: &Group| {
            // Groups with other cores have other pools, and these do not overlap.
            let left = group.pool.count_ones() - (placed & group.pool).count_ones();
            let taken = positions(group.pool & !placed).take(group.nodes.count_ones() as usize);
            placed = taken.fold(placed, |placed, node| placed | 1 << node);
            Combinations::count(left, group.nodes.count_ones())
        };
        self.groups.iter().map(choices).fold(1, u64::saturating_mul)
    }

    fn all_quiet(&self) -> NodeSet {
        self.quiet.values().fold(0, |all, set| all | set)
    }

    /// From which node to which: within a group and among those that give way the first to the first.
    pub(super) fn node_moves(&self, targets: &[NodeSet]) -> Vec<(usize, usize)> {
        let mut moves = Vec::new();
        for (group, set) in self.groups.iter().zip(targets) {
            moves.extend(positions(group.nodes & !set).zip(positions(set & !group.nodes)));
        }
        let taken = targets.iter().fold(0, |all, set| all | set);
        for (cores, quiet) in &self.quiet {
            let free = self.pools.get(cores).copied().unwrap_or_default() & !taken & !quiet;
            moves.extend(positions(quiet & taken).zip(positions(free)));
        }
        moves.sort_unstable();
        moves
    }

    /// Each cluster's part of the share of its bundle; 0 for clusters that span no nodes.
    pub(super) fn per_cluster(&self, shares: &[f64], clusters: usize) -> Vec<f64> {
        let mut each = vec![0.0; clusters];
        for (bundle, share) in self.bundles.iter().zip(shares) {
            for cluster in &bundle.clusters {
                each[*cluster] = share / bundle.clusters.len() as f64;
            }
        }
        each
    }
}

impl Bundle {
    /// Its nodes in a placement of (at least) its groups.
    pub(super) fn nodes_in(&self, targets: &[NodeSet]) -> NodeSet {
        self.groups
            .iter()
            .fold(0, |all, group| all | targets[*group])
    }
}

/// Clusters over several nodes, by their nodes.
fn bundles(scene: &Scene<'_>) -> Vec<Bundle> {
    let mut by_nodes: BTreeMap<NodeSet, Vec<usize>> = BTreeMap::new();
    for (index, cluster) in scene.clusters.iter().enumerate() {
        if cluster.nodes.count_ones() > 1 {
            by_nodes.entry(cluster.nodes).or_default().push(index);
        }
    }
    let bundle = |(nodes, clusters): (NodeSet, Vec<usize>)| {
        let weights = clusters
            .iter()
            .map(|cluster| scene.clusters[*cluster].weight);
        let worth = weights.sum::<f64>() / clusters.len() as f64;
        Bundle {
            nodes,
            groups: Vec::new(),
            clusters,
            worth,
        }
    };
    by_nodes.into_iter().map(bundle).collect()
}

/// The groups, those that carry most first. It also records in the bundles where their groups are.
fn groups(
    grouped: BTreeMap<Signature, NodeSet>,
    pools: &BTreeMap<usize, NodeSet>,
    bundles: &mut [Bundle],
) -> Vec<Group> {
    let mut found: Vec<(Signature, NodeSet)> = grouped.into_iter().collect();
    let load = |signature: &Signature| -> f64 {
        let of = signature.0.iter().map(|index| &bundles[*index]);
        of.map(|bundle| bundle.worth * f64::from(bundle.nodes.count_ones()))
            .sum()
    };
    // Groups that must stay come first: they leave no choice.
    found.sort_by(|(a, _), (b, _)| {
        b.2.is_some()
            .cmp(&a.2.is_some())
            .then(load(b).total_cmp(&load(a)))
    });
    for (position, ((of, ..), _)) in found.iter().enumerate() {
        of.iter()
            .for_each(|index| bundles[*index].groups.push(position));
    }
    let group = |(position, ((of, cores, stays), nodes)): (usize, (Signature, NodeSet))| Group {
        nodes,
        pool: match stays {
            Some(_) => nodes,
            None => pools.get(&cores).copied().unwrap_or_default(),
        },
        completes: of
            .into_iter()
            .filter(|index| bundles[*index].groups.last() == Some(&position))
            .collect(),
    };
    found.into_iter().enumerate().map(group).collect()
}

/// The subsets of a set that have a given size, in order of their members.
pub(super) struct Combinations {
    members: Vec<usize>,
    /// Positions in `members`, ascending; `None` when all have been.
    next: Option<Vec<usize>>,
}

impl Combinations {
    pub(super) fn new(set: NodeSet, size: u32) -> Combinations {
        let next = (size <= set.count_ones()).then(|| (0..size as usize).collect());
        Combinations {
            members: positions(set).collect(),
            next,
        }
    }

    /// The number of subsets, saturating.
    pub(super) fn count(members: u32, size: u32) -> u64 {
        let size = u64::from(size.min(members.saturating_sub(size)));
        (1..=size).fold(1u64, |count, step| {
            count.saturating_mul(u64::from(members) - size + step) / step
        })
    }
}

impl Iterator for Combinations {
    type Item = NodeSet;

    fn next(&mut self) -> Option<NodeSet> {
        let indices = self.next.as_mut()?;
        let set = indices
            .iter()
            .fold(0, |set, index| set | 1 << self.members[*index]);
        let (size, count) = (indices.len(), self.members.len());
        match (0..size)
            .rev()
            .find(|place| indices[*place] < count - size + place)
        {
            Some(place) => {
                let first = indices[place] + 1;
                (place..size).for_each(|each| indices[each] = first + each - place);
            }
            None => self.next = None,
        }
        Some(set)
    }
}
