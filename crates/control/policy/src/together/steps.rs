//! The placements that are one step away from another.

use std::collections::BTreeMap;

use super::estimate::Estimate;
use super::scene::Scene;
use super::state::State;

/// If the accessors of a process are not known, memory comes when this share of it is on nodes without its threads.
const WITHOUT_THREADS: f64 = 0.05;

/// What steps are made from.
#[derive(Clone, Copy)]
pub(super) struct Steps<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) estimate: &'a Estimate,
}

impl Steps<'_> {
    /// The placements one step away that concern a program.
    pub(super) fn around(&self, from: &State, program: usize, held: &[bool]) -> Vec<State> {
        let mut steps = Vec::new();
        self.move_groups(from, program, held, &mut steps);
        self.move_memory(from, program, &mut steps);
        self.move_both(from, program, &mut steps);
        self.share_out(from, program, &mut steps);
        steps
    }

    /// Threads of which it is not known what they use come together or stay: what one of them would gain elsewhere is
    /// not known either.
    fn move_groups(&self, from: &State, program: usize, held: &[bool], steps: &mut Vec<State>) {
        let own = self.units(program, from);
        if !self.scene.programs[program].is_known {
            let nodes = 0..self.scene.machine.nodes.len();
            steps.extend(nodes.filter_map(|node| self.all_on(from, program, node)));
            return;
        }
        for unit in &own {
            for node in self.places(unit[0], from) {
                let mut state = from.clone();
                state.nodes[unit[0]] = node;
                steps.push(state.clone());
                if unit.len() > 1 {
                    unit.iter().for_each(|group| state.nodes[*group] = node);
                    steps.push(state);
                }
            }
            for other in (0..self.scene.programs.len()).filter(|other| !held[*other]) {
                for partner in self.units(other, from) {
                    let (here, there) = (from.nodes[unit[0]], from.nodes[partner[0]]);
                    let may = self.scene.groups[unit[0]].may_run[there]
                        && self.scene.groups[partner[0]].may_run[here];
                    if here == there || !may {
                        continue;
                    }
                    let mut state = from.clone();
                    unit.iter().for_each(|group| state.nodes[*group] = there);
                    partner.iter().for_each(|group| state.nodes[*group] = here);
                    steps.push(state);
                }
            }
        }
        if own.len() > 1 {
            let nodes = 0..self.scene.machine.nodes.len();
            steps.extend(nodes.filter_map(|node| self.all_on(from, program, node)));
        }
    }

    /// The groups of a program that began on one node and are on one node: all alike.
    fn units(&self, program: usize, state: &State) -> Vec<Vec<usize>> {
        let mut units: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for group in &self.scene.programs[program].groups {
            let place = (self.scene.groups[*group].node, state.nodes[*group]);
            units.entry(place).or_default().push(*group);
        }
        units.into_values().collect()
    }

    /// Other nodes that a group may run on.
    fn places<'s>(&'s self, group: usize, from: &'s State) -> impl Iterator<Item = usize> + 's {
        let may_run = &self.scene.groups[group].may_run;
        let nodes = 0..may_run.len();
        nodes.filter(move |node| may_run[*node] && from.nodes[group] != *node)
    }

    /// All threads of a program on a node.
    pub(super) fn all_on(&self, from: &State, program: usize, node: usize) -> Option<State> {
        let own = &self.scene.programs[program].groups;
        let may = own
            .iter()
            .all(|group| self.scene.groups[*group].may_run[node]);
        may.then(|| {
            let mut state = from.clone();
            own.iter().for_each(|group| state.nodes[*group] = node);
            state
        })
    }

    fn move_memory(&self, from: &State, program: usize, steps: &mut Vec<State>) {
        let own = &self.scene.programs[program];
        for wanted in Wanted::ALL {
            let mut all = from.clone();
            for part in &own.parts {
                let mut state = from.clone();
                if let Some(shares) = self.wanted(from, *part, wanted) {
                    state.parts[*part] = Some(shares.clone());
                    all.parts[*part] = Some(shares);
                    steps.push(state);
                }
            }
            if own.parts.len() > 1 && all != *from {
                steps.push(all);
            }
        }
    }

    /// Where a part of memory should be; `None` where nothing is known that speaks for it.
    pub(super) fn wanted(&self, state: &State, part: usize, wanted: Wanted) -> Option<Vec<f64>> {
        let nodes = self.scene.machine.nodes.len();
        let own = &self.scene.parts[part];
        if own.stays.is_some() {
            return None;
        }
        let mut uses = vec![0.0; nodes];
        for (group, rate) in &own.uses {
            uses[state.nodes[*group]] += rate;
        }
        let program = &self.scene.programs[own.program];
        let is_sharp = program.is_known || uses.iter().filter(|rate| **rate > 0.0).count() == 1;
        let shares = state.shares(self.scene, part);
        let without_threads: f64 = shares
            .iter()
            .zip(&uses)
            .filter(|(_, uses)| **uses == 0.0)
            .map(|(share, _)| share)
            .sum();
        let weights: Vec<f64> = match wanted {
            Wanted::Users if !is_sharp && without_threads < WITHOUT_THREADS => return None,
            Wanted::Users => uses,
            Wanted::UsersByBandwidth => (0..nodes)
                .map(|node| {
                    if uses[node] > 0.0 {
                        self.estimate.weight_of(node)
                    } else {
                        0.0
                    }
                })
                .collect(),
            Wanted::TiersByBandwidth => self.tiers(&uses)?,
            Wanted::AllByBandwidth => (0..nodes)
                .filter(|node| self.scene.machine.nodes[*node].memory() != Some(0))
                .filter(|node| !self.estimate.is_slower(*node))
                .fold(vec![0.0; nodes], |mut all, node| {
                    all[node] = self.estimate.weight_of(node);
                    all
                }),
        };
        let all: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|weight| weight / all).collect();
        (all > 0.0).then_some(shares)
    }

    /// Weights of the nodes that use memory, and of slower ones of their groups that are faster now.
    fn tiers(&self, uses: &[f64]) -> Option<Vec<f64>> {
        let mut weights = vec![0.0; uses.len()];
        for near in (0..uses.len()).filter(|node| uses[*node] > 0.0) {
            weights[near] = self.estimate.weight_of(near);
            for far in self.estimate.relief(near) {
                weights[far] = self.estimate.weight_of(far);
            }
        }
        let is_balanced = weights.iter().zip(uses);
        let mut is_balanced = is_balanced.map(|(weight, uses)| *weight > 0.0 && *uses == 0.0);
        is_balanced.any(|is| is).then_some(weights)
    }

    /// A whole program on one node with its memory.
    fn move_both(&self, from: &State, program: usize, steps: &mut Vec<State>) {
        let own = &self.scene.programs[program];
        if !own.is_known {
            return;
        }
        for node in 0..self.scene.machine.nodes.len() {
            let Some(mut state) = self.all_on(from, program, node) else {
                continue;
            };
            state.gather(self.scene, program, node);
            steps.push(state);
        }
    }

    /// A program over several nodes: its threads in turn, its memory with them. The nodes with the least other work
    /// first.
    fn share_out(&self, from: &State, program: usize, steps: &mut Vec<State>) {
        let own = &self.scene.programs[program];
        let load = self.estimate.load_of_others(self.scene, from, program);
        let may_run = |node: usize| {
            let groups = own.groups.iter();
            let mut groups = groups.map(|group| &self.scene.groups[*group].may_run);
            groups.all(|may_run| may_run[node])
        };
        let mut nodes: Vec<usize> = (0..load.len()).filter(|node| may_run(*node)).collect();
        nodes.sort_by(|one, other| load[*one].total_cmp(&load[*other]).then(one.cmp(other)));
        for count in [2, 3, 4, 6, 8, 16] {
            if own.groups.len() < count || nodes.len() < count {
                break;
            }
            let mut state = from.clone();
            for (index, group) in own.groups.iter().enumerate() {
                state.nodes[*group] = nodes[index % count];
            }
            steps.push(state.clone());
            for wanted in [Wanted::Users, Wanted::UsersByBandwidth] {
                let mut state = state.clone();
                for part in &own.parts {
                    if let Some(shares) = self.wanted(&state, *part, wanted) {
                        state.parts[*part] = Some(shares);
                    }
                }
                steps.push(state);
            }
        }
    }
}

/// Where memory could go.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// To the nodes whose threads use it, in proportion.
    Users,
    /// The same, in proportion to what their memories give.
    UsersByBandwidth,
    /// To these and to slower nodes of their groups that are faster under the present load.
    TiersByBandwidth,
    /// Over all nodes, in proportion to what they give.
    AllByBandwidth,
}

impl Wanted {
    pub(super) const ALL: [Wanted; 4] = [
        Wanted::Users,
        Wanted::UsersByBandwidth,
        Wanted::TiersByBandwidth,
        Wanted::AllByBandwidth,
    ];
}
