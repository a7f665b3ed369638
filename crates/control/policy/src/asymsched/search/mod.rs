//! The best placement, and the one to take (§4.2, Steps 2 and 3), without computing the shares of all (§4.3).
//!
//! ```text
//!   1. nodes that belong to the same clusters are one group: only which nodes a group gets matters,
//!      not which of its nodes goes where. Every choice of nodes for all groups is a placement.
//!   2. where there are many, a good one is looked for by exchanging nodes as long as bounds rise
//!   3. groups are placed one after another; a cluster gets at most its bound on its nodes; whatever
//!      cannot pass the filter compared with the best known so far is left out with all that follows
//!   4. from the highest bound down shares are computed, until no bound is above the best found;
//!      equivalent placements are computed once
//!   5. what passes the filter is looked at by the memory it moves
//! ```
//!
//! The bounds are never below what they bound, so the best and the one taken are those of a full search.

mod climb;

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use egeria_machine::Paths;

use super::bound::Bounds;
use super::clusters::{NodeSet, Scene};
use super::groups::{Bundle, Combinations, Layout};
use super::plan::Search;
use super::settings::Settings;
use super::traffic::{Part, Traffic};

/// With more sets of nodes than this, only an upper bound of the best is known.
const MAX_SETS: u64 = 5000;
/// A bound on new nodes takes as long as this number of bounds on known ones.
const NEW_SET_TRIES: u64 = 10;
/// What rounding may do to a sum of shares.
const ROUNDING: f64 = 1e-9;

/// What a search found.
pub(super) struct Found {
    /// `P_wbw` of the placement there is.
    pub(super) now_wbw: f64,
    /// The highest `P_wbw`.
    pub(super) best_wbw: f64,
    /// What each cluster gets now, bytes/s.
    pub(super) now_bytes_s: Vec<f64>,
    /// The placement to take, if not the one there is.
    pub(super) chosen: Option<Chosen>,
    pub(super) search: Search,
}

/// A placement to take.
pub(super) struct Chosen {
    pub(super) wbw: f64,
    /// What each cluster gets, bytes/s.
    pub(super) bytes_s: Vec<f64>,
    /// `P_mm`.
    pub(super) bytes: u64,
    /// From which node to which, ascending.
    pub(super) node_moves: Vec<(usize, usize)>,
}

/// One placement: the nodes of each group.
struct Leaf {
    targets: Vec<NodeSet>,
    /// Its `P_wbw` is not above this.
    bound: f64,
    is_tight: bool,
    bytes: u64,
    moved: u32,
}

/// The search in progress.
struct Searcher<'a> {
    paths: &'a Paths,
    bounds: Bounds<'a>,
    layout: &'a Layout,
    settings: &'a Settings,
    /// Bounds of one cluster alone on some nodes.
    alone: HashMap<NodeSet, f64>,
    /// Traffic by parts, and what the parts get once computed.
    known: HashMap<Vec<Part>, (Traffic, Option<Vec<f64>>)>,
    /// Shares by form.
    computed: HashMap<Vec<u64>, Vec<f64>>,
    leaves: Vec<Leaf>,
    /// What each bundle can add at most.
    most: Vec<f64>,
    /// No placement below this can pass the filter.
    least: f64,
    tries_left: u64,
    search: Search,
}

/// Looks for the best placement and the one to take.
pub(super) fn find(paths: &Paths, scene: &Scene<'_>, settings: &Settings) -> Found {
    let layout = Layout::new(scene);
    let mut searcher = Searcher {
        paths,
        bounds: Bounds::new(paths, scene.machine.nodes.len()),
        layout: &layout,
        settings,
        alone: HashMap::new(),
        known: HashMap::new(),
        computed: HashMap::new(),
        leaves: Vec::new(),
        most: Vec::new(),
        least: 0.0,
        tries_left: 0,
        search: Search {
            is_complete: true,
            ..Search::default()
        },
    };
    let present: Vec<NodeSet> = layout.groups.iter().map(|group| group.nodes).collect();
    let (now_wbw, now) = searcher.evaluate(&present);
    let mut found = Found {
        now_wbw,
        best_wbw: now_wbw,
        now_bytes_s: layout.per_cluster(&now, scene.clusters.len()),
        chosen: None,
        search: Search::default(),
    };
    let known_wbw = searcher.climb(&present).max(now_wbw);
    searcher.place_all(known_wbw);
    found.best_wbw = searcher.best(known_wbw);
    let threshold = settings.filter * found.best_wbw * (1.0 - ROUNDING);
    if now_wbw < threshold {
        found.chosen = searcher.choose(scene, threshold, found.best_wbw);
    }
    found.search = searcher.search;
    found
}

impl Searcher<'_> {
    /// A bound on what all clusters get together.
    fn bound_of(&mut self, targets: &[NodeSet]) -> f64 {
        let bundles = self
            .layout
            .by_worth
            .iter()
            .map(|index| &self.layout.bundles[*index]);
        let sets: Vec<_> = bundles
            .map(|bundle| (bundle.nodes_in(targets), bundle.worth))
            .collect();
        self.bounds.of(&sets) * (1.0 + ROUNDING)
    }

    /// Step 3: every placement that may pass the filter, compared with one of this weighted bandwidth.
    fn place_all(&mut self, known_wbw: f64) {
        let layout = self.layout;
        let bundles = layout.bundles.iter();
        self.most = bundles.map(|bundle| self.max_of(bundle)).collect();
        self.least = self.settings.filter * known_wbw * (1.0 - ROUNDING);
        self.tries_left = self.settings.max_placements.saturating_mul(4);
        let mut targets = Vec::with_capacity(layout.groups.len());
        self.place_next(&mut targets, 0, self.most.iter().sum());
    }

    /// Places the next group wherever it can go; `bound` is the sum of what each bundle gets at most.
    fn place_next(&mut self, targets: &mut Vec<NodeSet>, used: NodeSet, bound: f64) {
        let layout = self.layout;
        let Some(group) = layout.groups.get(targets.len()) else {
            return self.note(targets, bound);
        };
        for set in Combinations::new(group.pool & !used, group.nodes.count_ones()) {
            if self.tries_left == 0 || self.search.considered >= self.settings.max_placements {
                self.search.is_complete = false;
                return;
            }
            let sets_known = self.alone.len();
            targets.push(set);
            let mut below = bound;
            for index in &group.completes {
                let bundle = &layout.bundles[*index];
                below += bundle.worth * self.alone(bundle.nodes_in(targets)) - self.most[*index];
            }
            let sets_new = (self.alone.len() - sets_known) as u64;
            self.tries_left = self.tries_left.saturating_sub(1 + NEW_SET_TRIES * sets_new);
            if below >= self.least && self.together(targets) >= self.least {
                self.place_next(targets, used | set, below);
            }
            targets.pop();
        }
    }

    /// What bundles get at most when those placed so far share the links; infinite where little hangs on it.
    fn together(&mut self, targets: &[NodeSet]) -> f64 {
        let layout = self.layout;
        if targets.len() + 2 > layout.groups.len() {
            return f64::INFINITY;
        }
        let (mut sets, mut others) = (Vec::with_capacity(layout.bundles.len()), 0.0);
        for index in &layout.by_worth {
            let bundle = &layout.bundles[*index];
            if bundle.groups.last() < Some(&targets.len()) {
                sets.push((bundle.nodes_in(targets), bundle.worth))
            } else {
                others += self.most[*index]
            }
        }
        match sets.len() {
            0 | 1 => f64::INFINITY,
            _ => self.bounds.of(&sets) * (1.0 + ROUNDING) + others,
        }
    }

    fn note(&mut self, targets: &[NodeSet], bound: f64) {
        let (bytes, moved) = self.layout.cost(targets);
        self.search.considered += 1;
        self.leaves.push(Leaf {
            targets: targets.to_vec(),
            // The sum was taken and given back step by step.
            bound: bound * (1.0 + ROUNDING),
            is_tight: false,
            bytes,
            moved,
        });
    }

    /// The most a bundle can add to any placement.
    fn max_of(&mut self, bundle: &Bundle) -> f64 {
        let groups = &self.layout.groups;
        let pools: NodeSet = bundle
            .groups
            .iter()
            .fold(0, |all, group| all | groups[*group].pool);
        let size = bundle.nodes.count_ones();
        let most = if Combinations::count(pools.count_ones(), size) > MAX_SETS {
            let widest = self
                .paths
                .lanes
                .iter()
                .map(|lane| lane.bytes_s)
                .fold(0.0, f64::max);
            f64::from(size) * f64::from(size - 1) * widest
        } else {
            Combinations::new(pools, size)
                .map(|set| self.alone(set))
                .fold(0.0, f64::max)
        };
        bundle.worth * most
    }

    /// Not less than one cluster gets on these nodes, whatever else there is, bytes/s.
    fn alone(&mut self, nodes: NodeSet) -> f64 {
        let bounds = &mut self.bounds;
        *self
            .alone
            .entry(nodes)
            .or_insert_with(|| bounds.of(&[(nodes, 1.0)]))
    }

    /// The parts of a placement, in an order of their own, each with its bundle.
    fn parts(&self, targets: &[NodeSet]) -> Vec<(Part, usize)> {
        let part = |(index, bundle): (usize, &Bundle)| {
            let nodes = bundle.nodes_in(targets);
            let clusters = bundle.clusters.len() as u32;
            (Part { nodes, clusters }, index)
        };
        let mut parts: Vec<_> = self.layout.bundles.iter().enumerate().map(part).collect();
        parts.sort_unstable();
        parts
    }

    fn traffic(&mut self, parts: &[(Part, usize)]) -> &mut (Traffic, Option<Vec<f64>>) {
        let paths = self.paths;
        let key: Vec<Part> = parts.iter().map(|(part, _)| *part).collect();
        self.known
            .entry(key)
            .or_insert_with_key(|key| (Traffic::new(paths, key), None))
    }

    /// `P_wbw`, and what each bundle gets, bytes/s.
    fn evaluate(&mut self, targets: &[NodeSet]) -> (f64, Vec<f64>) {
        let parts = self.parts(targets);
        let (traffic, shares) = self.traffic(&parts);
        let shares = match shares {
            Some(shares) => shares.clone(),
            None => {
                let form = traffic.form();
                let shares = self.shares_of(form);
                self.traffic(&parts).1 = Some(shares.clone());
                shares
            }
        };
        let mut bytes_s = vec![0.0; parts.len()];
        for ((_, bundle), share) in parts.iter().zip(shares) {
            bytes_s[*bundle] = share;
        }
        let worth = self.layout.bundles.iter().map(|bundle| bundle.worth);
        (
            worth
                .zip(&bytes_s)
                .map(|(worth, share)| worth * share)
                .sum(),
            bytes_s,
        )
    }

    /// What the parts get, by part: computed, or as an equivalent placement's.
    fn shares_of(&mut self, form: super::traffic::Form) -> Vec<f64> {
        let search = &mut self.search;
        let shares = self.computed.entry(form.key.clone()).or_insert_with(|| {
            search.evaluated += 1;
            form.shares()
        });
        let mut by_part = vec![0.0; shares.len()];
        for (part, share) in form.order.iter().zip(shares) {
            by_part[*part] = *share;
        }
        by_part
    }

    /// Brings a leaf's bound down to what its clusters can get together.
    fn tighten(&mut self, leaf: usize) -> f64 {
        if !self.leaves[leaf].is_tight {
            let targets = std::mem::take(&mut self.leaves[leaf].targets);
            let bound = self.bound_of(&targets);
            let leaf = &mut self.leaves[leaf];
            leaf.targets = targets;
            leaf.bound = leaf.bound.min(bound);
            leaf.is_tight = true;
        }
        self.leaves[leaf].bound
    }

    /// Step 4: the highest weighted bandwidth.
    fn best(&mut self, known_wbw: f64) -> f64 {
        let mut best = known_wbw;
        let open = |(index, leaf): (usize, &Leaf)| Open {
            bound: leaf.bound,
            index,
        };
        let mut heap: BinaryHeap<Open> = self.leaves.iter().enumerate().map(open).collect();
        while let Some(Open { bound, index }) = heap.pop() {
            if bound <= best {
                break;
            }
            if self.leaves[index].is_tight {
                let targets = self.leaves[index].targets.clone();
                best = best.max(self.evaluate(&targets).0);
            } else {
                let bound = self.tighten(index);
                heap.push(Open { bound, index });
            }
        }
        best
    }

    /// Step 5: of what passes, the least memory; of these the most bandwidth, then the fewest nodes, then the first.
    fn choose(&mut self, scene: &Scene<'_>, threshold: f64, best: f64) -> Option<Chosen> {
        let mut order: Vec<usize> = (0..self.leaves.len()).collect();
        order.retain(|leaf| self.leaves[*leaf].bound >= threshold);
        order.sort_by(|a, b| {
            let (a, b) = (&self.leaves[*a], &self.leaves[*b]);
            a.bytes.cmp(&b.bytes).then(b.bound.total_cmp(&a.bound))
        });
        let mut chosen: Option<(usize, f64)> = None;
        for index in order {
            let bytes = self.leaves[index].bytes;
            let least = match chosen {
                Some((other, _)) if self.leaves[other].bytes < bytes => break,
                Some((_, wbw)) => wbw * (1.0 - 2.0 * ROUNDING),
                None => threshold,
            };
            if self.leaves[index].bound < least || self.tighten(index) < least {
                continue;
            }
            let targets = self.leaves[index].targets.clone();
            let (wbw, _) = self.evaluate(&targets);
            if wbw < threshold {
                continue;
            }
            let is_better = chosen.is_none_or(|(other, other_wbw)| {
                self.is_better((index, wbw), (other, other_wbw), best)
            });
            if is_better {
                chosen = Some((index, wbw));
            }
        }
        let targets = self.leaves[chosen?.0].targets.clone();
        let (wbw, shares) = self.evaluate(&targets);
        Some(Chosen {
            wbw,
            bytes_s: self.layout.per_cluster(&shares, scene.clusters.len()),
            bytes: self.leaves[chosen?.0].bytes,
            node_moves: self.layout.node_moves(&targets),
        })
    }

    /// Of two that move as much memory; not if they are equals, for then the first is taken.
    fn is_better(&self, one: (usize, f64), other: (usize, f64), best: f64) -> bool {
        let steps = |wbw: f64| (wbw / best / ROUNDING).round();
        let by_wbw = steps(one.1).total_cmp(&steps(other.1));
        let (one, other) = (&self.leaves[one.0], &self.leaves[other.0]);
        let by_nodes = other.moved.cmp(&one.moved);
        by_wbw.then(by_nodes) == Ordering::Greater
    }
}

/// A leaf to look at; the highest bound first, then the first.
#[derive(PartialEq)]
struct Open {
    bound: f64,
    index: usize,
}

impl Eq for Open {}

impl Ord for Open {
    fn cmp(&self, other: &Open) -> Ordering {
        self.bound
            .total_cmp(&other.bound)
            .then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Open) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
