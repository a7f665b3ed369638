//! What becomes of decisions: threads move, memory and files follow, limits and delegation hold.

use egeria_admission::Request;
use egeria_facts::{Facts, MigrationCost};
use egeria_machine::costs::Pattern;
use egeria_machine::{AccessKind, NodeId};
use egeria_policy::asymsched::{MAX_DYNAMIC_BYTES, MemoryAction, MemoryStep, TierMove};
use egeria_policy::control::Actuator;
use egeria_policy::mba::MbaPlan;
use egeria_policy::planner::{DelegationPlan, Relocate, RelocationStep};
use egeria_policy::{Action, ActionKind, ActionOutcome};

use crate::facts::{Migrated, file_index, group_index};
use crate::file::at_one;
use crate::memory::{First, follow, gather, gather_as_ordered};
use crate::outcome::{MoveOutcome, Options};
use crate::rates::demand::{Control, Demand};
use crate::rates::model::{Model, NS_PER_S};
use crate::state::{State, Thread, Thresholds};
use crate::workload::MediumKind;

/// Pieces in which files are copied, bytes.
const COPY_BYTES: u64 = 64 << 10;

/// What holds now, and what is on its way.
pub(crate) struct Acts {
    pub(crate) control: Control,
    pub(crate) thresholds: Thresholds,
    /// Of each group of threads.
    follows: Vec<Follows>,
    copies: Vec<Copy>,
    pub(crate) migrated: Migrated,
    /// Steps that were reported and are not reported again.
    reported: Vec<String>,
}

/// How the memory of a group of threads follows them.
#[derive(Clone, PartialEq)]
enum Follows {
    No,
    /// As it is accessed.
    AsUsed,
    /// All of it, from the one node of each pair to the other.
    All(Vec<(usize, usize)>),
    /// This number of bytes from the one node to the other, the memory that threads there use first.
    Gather {
        copies: Vec<(usize, usize, f64)>,
        /// Running time of which the budget may be spent in advance, s.
        advance_s: f64,
        first: First,
    },
}

/// A file, or what of it lies in one memory, on its way to another.
struct Copy {
    file: usize,
    from: usize,
    to: usize,
    is_replica: bool,
    /// How much of the file that is.
    bytes: f64,
    left_bytes: f64,
    bytes_s: f64,
}

/// Does actions in the model: at once, and they always succeed.
pub(crate) struct ModelActuator<'a> {
    pub(crate) acts: &'a mut Acts,
    pub(crate) model: &'a Model,
    pub(crate) state: &'a mut State,
    pub(crate) options: &'a Options,
    /// Threads that moved.
    pub(crate) moves: Vec<MoveOutcome>,
    /// What else was done, one line each.
    pub(crate) steps: Vec<String>,
}

impl Actuator for ModelActuator<'_> {
    fn kinds(&self) -> &[ActionKind] {
        &ActionKind::ALL
    }

    fn apply(&mut self, action: &Action, facts: &Facts) -> ActionOutcome {
        match action {
            Action::MigrateThread(step) => {
                let why = step.reason.to_string();
                self.move_threads(step.to, &why, |_, thread| thread.key == step.thread);
            }
            Action::MigrateProcess { step, because } => {
                let why = because.to_string();
                let on_node = |thread: &Thread| {
                    let before = facts.window.thread(thread.key);
                    before.is_some_and(|before| before.node == step.from)
                };
                let group = group_index(step.process);
                self.move_threads(step.to, &why, |_, thread| {
                    group == Some(thread.group) && on_node(thread)
                });
            }
            Action::MigrateMemory(step) => {
                let line = self.acts.memory(self.model, step);
                self.steps.extend(line);
            }
            Action::SetLimit(limit) => {
                self.acts.limit(self.model, limit.node, Some(limit.threads));
                let key = format!("node {}: {} at once", limit.node.0, limit.threads);
                self.report_once(key, limit.to_string());
            }
            Action::LiftLimit { node } => self.acts.limit(self.model, *node, None),
            Action::SetDelegation { plan } => {
                self.acts.delegate(plan);
                if matches!(plan, DelegationPlan::On { .. }) {
                    self.report_once("delegation".to_owned(), plan.to_string());
                }
            }
            Action::SetMba { plan } => {
                self.bound(plan);
                self.steps.push(plan.to_string());
            }
            Action::Relocate(step) => {
                self.acts.relocate(self.model, self.state, step);
                self.steps.push(step.to_string());
            }
        }
        ActionOutcome::Done
    }
}

impl ModelActuator<'_> {
    fn move_threads(&mut self, to: NodeId, why: &str, is_meant: impl Fn(usize, &Thread) -> bool) {
        let Some(node) = self.model.machine.index_of(to) else {
            return;
        };
        let pause_s = self.options.move_pause_ns / NS_PER_S;
        for (index, thread) in self.state.threads.iter_mut().enumerate() {
            if thread.pinned || !is_meant(index, thread) {
                continue;
            }
            let from = self.model.machine.nodes[thread.node].id;
            thread.node = node;
            thread.moves += 1;
            thread.pause_left_s = thread.pause_left_s.max(pause_s);
            self.moves.push(MoveOutcome {
                thread: format!("{} {index}", thread.name),
                from,
                to,
                why: why.to_owned(),
            });
        }
    }

    /// Lets only these groups of threads have only these shares.
    fn bound(&mut self, plan: &MbaPlan) {
        self.state.bounds.clear();
        let MbaPlan::On {
            processes, shares, ..
        } = plan
        else {
            return;
        };
        for group in processes.iter().filter_map(|process| group_index(*process)) {
            for each in shares {
                if let Some(node) = self.model.machine.index_of(each.node) {
                    self.state.bounds.insert((group, node), each.share);
                }
            }
        }
    }

    fn report_once(&mut self, key: String, line: String) {
        if !self.acts.reported.contains(&key) {
            self.acts.reported.push(key);
            self.steps.push(line);
        }
    }
}

impl Acts {
    /// Nothing is decided yet.
    pub(crate) fn new(model: &Model, options: &Options, groups: usize) -> Acts {
        let bypass = |bytes: &u64| {
            let request = Request {
                kind: AccessKind::Write,
                bytes: *bytes,
            };
            options.planner.pats.bypass().applies_to(request)
        };
        let pats = &options.planner.pats;
        let longest = [pats.bypass_bytes, pats.bypass_bytes.saturating_sub(1)];
        Acts {
            control: Control {
                delegates: 0,
                handover_ns: options.handover_ns,
                stripe_bytes: options.planner.delegation.stripe_bytes.max(1),
                turns: vec![None; model.costs.places.len()],
                turn_ns: options.turn_ns,
            },
            thresholds: Thresholds {
                min_read_bytes: u64::MAX,
                min_write_bytes: u64::MAX,
                bypass_bytes: longest.into_iter().find(bypass).unwrap_or(0),
            },
            follows: vec![Follows::No; groups],
            copies: Vec::new(),
            migrated: Migrated {
                spent_s: vec![0.0; groups],
                cost: None,
            },
            reported: Vec::new(),
        }
    }

    fn memory(&mut self, model: &Model, step: &MemoryStep) -> Option<String> {
        let group = group_index(step.process).filter(|group| *group < self.follows.len())?;
        let follows = match &step.action {
            MemoryAction::Full { copies, .. } => {
                let index = |id: &NodeId| model.machine.index_of(*id);
                let pairs = copies.iter();
                let pairs = pairs.filter_map(|(from, to, _)| Some((index(from)?, index(to)?)));
                Follows::All(pairs.collect())
            }
            MemoryAction::Gather {
                copies,
                advance_ns,
                tier,
                ..
            } => {
                let index = |id: &NodeId| model.machine.index_of(*id);
                let copies = copies.iter().filter_map(|(from, to, bytes)| {
                    Some((index(from)?, index(to)?, *bytes as f64))
                });
                Follows::Gather {
                    copies: copies.collect(),
                    advance_s: *advance_ns as f64 / NS_PER_S,
                    first: match tier {
                        Some(TierMove::Demoted { .. }) => First::LeastUsed,
                        Some(TierMove::Promoted { .. }) => First::MostUsed,
                        Some(TierMove::Balanced { .. }) | None => First::Own,
                    },
                }
            }
            // What is used still follows where all of it would cost too much now, or the most has followed.
            MemoryAction::Dynamic | MemoryAction::Short { .. } | MemoryAction::Settled { .. } => {
                Follows::AsUsed
            }
        };
        let is_new = std::mem::replace(&mut self.follows[group], follows) != Follows::AsUsed;
        let is_dynamic = step.action == MemoryAction::Dynamic;
        (is_new || !is_dynamic).then(|| step.to_string())
    }

    /// Limits a node's persistent memory, or lifts its limit.
    fn limit(&mut self, model: &Model, node: NodeId, threads: Option<u32>) {
        let node = model.machine.index_of(node);
        let place = node.and_then(|node| model.place_of(node, MediumKind::Storage));
        if let Some(place) = place {
            self.control.turns[place] = threads.map(f64::from);
        }
    }

    fn delegate(&mut self, plan: &DelegationPlan) {
        match plan {
            DelegationPlan::Off { .. } => {
                self.control.delegates = 0;
                self.thresholds.min_read_bytes = u64::MAX;
                self.thresholds.min_write_bytes = u64::MAX;
            }
            DelegationPlan::On {
                stripe_bytes,
                min_read_bytes,
                min_write_bytes,
                delegates_per_node,
                ..
            } => {
                self.control.delegates = *delegates_per_node;
                self.control.stripe_bytes = (*stripe_bytes).max(1);
                self.thresholds.min_read_bytes = *min_read_bytes;
                self.thresholds.min_write_bytes = *min_write_bytes;
            }
        }
    }

    fn relocate(&mut self, model: &Model, state: &mut State, step: &RelocationStep) {
        let Some(file) = file_index(step.file).filter(|file| *file < state.files.len()) else {
            return;
        };
        let place = |id: NodeId| {
            let node = model.machine.index_of(id)?;
            model.place_of(node, MediumKind::Storage)
        };
        let (from, to, is_replica) = match step.action {
            Relocate::Drop { on } => {
                if let Some(place) = place(on) {
                    state.files[file].replicas[place] = false;
                }
                return;
            }
            Relocate::Move { from, to } => (from, to, false),
            Relocate::Replicate { from, to } => (from, to, true),
        };
        if let (Some(from), Some(to)) = (place(from), place(to)) {
            self.copies.push(Copy {
                file,
                from,
                to,
                is_replica,
                bytes: step.bytes as f64,
                left_bytes: step.bytes as f64,
                bytes_s: step.bytes_s.max(1.0),
            });
        }
    }

    /// The demands of copies, in addition to those of threads.
    pub(crate) fn demands(&self, model: &Model) -> Vec<Demand> {
        let places = model.costs.places.len();
        let demand = |copy: &Copy| {
            let (from, to) = (
                model.costs.places[copy.from].node,
                model.costs.places[copy.to].node,
            );
            // A node without cores is copied to by the other.
            let nodes = [to, from, 0];
            let home = nodes.into_iter().find(|node| model.cores(*node) > 0.0);
            Demand {
                home: home.unwrap_or(0),
                lockstep: None,
                request_bytes: COPY_BYTES,
                pattern: Pattern::Sequential,
                at_once: false,
                think_ns: 0.0,
                idle_ns: COPY_BYTES as f64 / copy.bytes_s * NS_PER_S,
                lock: None,
                serial_ns: 0.0,
                write_overhead: 0.0,
                reads: at_one(copy.from, places),
                writes: at_one(copy.to, places),
                working_set_bytes: 0.0,
                delegates_reads: false,
                delegates_writes: false,
                bound: 1.0,
                takes_turns: false,
            }
        };
        self.copies.iter().map(demand).collect()
    }

    /// Until a copy is done at these rates, s.
    pub(crate) fn next_change_s(&self, copies_s: &[f64]) -> f64 {
        let each = self.copies.iter().zip(copies_s);
        let left = each.map(|(copy, rate)| copy.left_bytes / (rate * COPY_BYTES as f64).max(1e-9));
        left.fold(f64::INFINITY, f64::min)
    }

    /// So much time passes; `copies_s` are the pieces copied per second.
    pub(crate) fn pass(
        &mut self,
        model: &Model,
        state: &mut State,
        options: &Options,
        copies_s: &[f64],
        (now_s, seconds): (f64, f64),
    ) {
        for (copy, rate) in self.copies.iter_mut().zip(copies_s) {
            copy.left_bytes -= rate * COPY_BYTES as f64 * seconds;
            if copy.left_bytes > 1.0 {
                continue;
            }
            copy.left_bytes = 0.0;
            let file = &mut state.files[copy.file];
            if copy.is_replica {
                file.replicas[copy.to] = true;
            } else {
                let there = file.shares[copy.from];
                let moved = (copy.bytes / file.bytes.max(1.0)).min(there);
                file.shares[copy.from] -= moved;
                file.shares[copy.to] += moved;
            }
        }
        self.copies.retain(|copy| copy.left_bytes > 0.0);
        for group in 0..self.follows.len() {
            self.migrate(model, state, options, group, (now_s, seconds));
        }
    }

    /// Memory of a group follows for so long, but not over its budget.
    fn migrate(
        &mut self,
        model: &Model,
        state: &mut State,
        options: &Options,
        group: usize,
        (now_s, seconds): (f64, f64),
    ) {
        let advance_s = match &self.follows[group] {
            Follows::Gather { advance_s, .. } => *advance_s,
            _ => 0.0,
        };
        let allowed_s = (now_s + advance_s) * options.planner.migration_share();
        let left_s = (allowed_s - self.migrated.spent_s[group]).clamp(0.0, seconds);
        let s_per_byte = options.migration_s_per_gb / 1e9;
        let most_bytes = left_s / s_per_byte;
        let moved_bytes = match &self.follows[group] {
            Follows::No => return,
            Follows::AsUsed => {
                let window_s = options.window_ns as f64 / NS_PER_S;
                let dynamic_bytes = MAX_DYNAMIC_BYTES as f64 * seconds / window_s;
                gather(model, state, group, most_bytes.min(dynamic_bytes))
            }
            Follows::All(pairs) => follow(model, state, group, pairs, most_bytes),
            Follows::Gather { copies, first, .. } => {
                let (mut copies, first) = (copies.clone(), *first);
                let moved =
                    gather_as_ordered(model, state, group, (&mut copies, first), most_bytes);
                self.follows[group] = Follows::Gather {
                    copies,
                    advance_s,
                    first,
                };
                moved
            }
        };
        if moved_bytes == 0.0 {
            return;
        }
        self.migrated.spent_s[group] += moved_bytes * s_per_byte;
        let cost = self.migrated.cost.get_or_insert(MigrationCost {
            s_per_gb: options.migration_s_per_gb,
            bytes: 0,
            migrations: 0,
        });
        cost.bytes = cost.bytes.saturating_add(moved_bytes as u64);
        cost.migrations = cost.migrations.saturating_add(1);
    }
}
