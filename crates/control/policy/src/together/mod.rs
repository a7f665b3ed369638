//! Threads and the memory that they use come together, before links, limits and stripes are looked at (ours; AsymSched
//! §4.1 for memory, which takes it for granted that threads of a process are collocated).
//!
//! ```text
//!   1. groups of threads, parts of memory, which uses which               scene.rs
//!   2. how fast each group would be elsewhere                                estimate.rs
//!   3. the cheaper side moves, one step after the other                      search.rs, steps.rs
//!   4. memory on its way is followed until it has arrived                    orders.rs
//!   5. what brought less than there was before is taken back                 trial.rs
//!   6. what is used least goes to slower nodes, and comes back               tiers.rs
//!   7. why the others are left as they are                                   kept_process.rs
//! ```
//!
//! Machines of two nodes and machines without declared links are ordinary cases: without figures, latencies follow
//! the kernel's distances.
//!
//! * *Which side.* A step is a group of threads on another node, two groups exchanged, a part of memory elsewhere, or a
//!   whole process with its memory. The step is taken that gains most for all programs, less what moving the memory
//!   takes. Threads cost next to nothing, so they move where CPUs and owners let them.
//! * *Memory.* What one node uses goes there. What several use is spread over them, by how much they use it or by what
//!   their memories give. If a memory is busy, memory may also go to nodes without threads.
//! * *Unknown accessors.* Page tables do not say which thread accessed a page. Memory of such a process moves only from
//!   nodes where it has no threads, and when a memory is busy.

mod basis;
mod estimate;
mod memory;
mod orders;
mod scene;
mod search;
mod settings;
mod state;
mod steps;
mod tier_orders;
mod tiers;
mod trial;
mod works;

use egeria_facts::ProcessKey;
use egeria_machine::NodeId;

use crate::{KeptProcess, Move, ProcessKept, Reason};
pub use settings::Settings;

use crate::asymsched::{Decision, NodeMove, PlacementPlan, TierMove};
pub(crate) use basis::Basis;
use estimate::Estimate;
use memory::{SMALL_BYTES, bytes_of, gather};
pub(crate) use orders::Orders;
use scene::{Part, Program, Scene, Stays};
use search::Found;
pub(crate) use search::LOCAL;
use state::State;
use trial::{Trial, Verdict};

/// Accesses per second from which the reason is said why a process is left as it is: 64 MB/s.
const HEAVY_ACCESSES_S: f64 = 1e6;

impl Orders {
    /// The decision about one window: moves, orders for memory, and why the rest stays. Other stages leave the processes
    /// alone that [`Orders::holds`].
    pub(crate) fn next(&mut self, basis: &Basis<'_>) -> PlacementPlan {
        self.pass(basis);
        self.pass_tiers(basis.settings.tier_rest_windows);
        let scene = scene(basis);
        let mut plan = PlacementPlan::off(basis.window.number);
        if self.judge(basis, &scene, &mut plan) {
            return plan;
        }
        plan.moves = self.bring_back(basis);
        if !plan.moves.is_empty() {
            plan.decision = Decision::ThreadsBack;
        }
        let is_on_trial = self.trial.is_some() || !plan.moves.is_empty();
        let held: Vec<bool> = scene
            .programs
            .iter()
            .map(|program| {
                let process = program.facts.process;
                let is_moving = (basis.is_resting)(process) || (basis.is_following)(process);
                if is_moving && !self.is_placed(process) {
                    self.placed_by_others(basis, process);
                }
                is_on_trial
                    || is_moving
                    || self.is_placed(process)
                    || self.tiers.holds(process)
                    || (basis.is_over_budget)(process)
                    || is_left_to_kernel(basis, &scene, program)
            })
            .collect();
        if scene.machine.nodes.len() < 2 || scene.programs.is_empty() {
            return plan;
        }
        let estimate = Estimate::new(&scene);
        let byte_s = basis.cost.s_per_gb / 1e9;
        let found = search::find(&scene, &estimate, basis.settings, byte_s, &held);
        // Threads go first: where they run says which memory is near.
        if plan.moves.is_empty() && found.state.nodes == State::now(&scene).nodes {
            self.change_tiers(basis, &estimate, &mut plan);
        }
        if plan.moves.is_empty() && plan.memory.is_empty() {
            for program in 0..scene.programs.len() {
                self.order(basis, (&scene, &estimate), &found, program, &mut plan);
            }
            if plan.changes() {
                self.trial = Trial::begin(&scene, basis.facts, &found.state, &plan, &self.works);
                plan.decision = decision(&scene, &found, &plan);
                self.rest_together(basis, &scene, &held, &plan);
            }
        }
        for (program, is_held) in held.iter().enumerate() {
            let process = scene.programs[program].facts.process;
            if !plan.changes_process(process)
                && scene.programs[program].accesses_s >= HEAVY_ACCESSES_S
            {
                let is_held = (is_on_trial || self.trial.is_some(), *is_held);
                let because = self.why(basis, &scene, &found, program, is_held);
                plan.kept.push(kept(&scene, program, because));
            }
        }
        plan
    }

    /// What moves changes what the others get, so programs that were looked at together rest together.
    fn rest_together(
        &mut self,
        basis: &Basis<'_>,
        scene: &Scene<'_>,
        held: &[bool],
        plan: &PlacementPlan,
    ) {
        for (own, is_held) in scene.programs.iter().zip(held) {
            let process = own.facts.process;
            if *is_held || plan.changes_process(process) {
                continue;
            }
            let nodes = own.groups.iter().map(|group| scene.groups[*group].node);
            let nodes = nodes.map(|node| scene.machine.nodes[node].id);
            self.begin_rest(basis, process, nodes.collect());
        }
    }

    /// Judges the last placement, and takes it back if programs get less done since: whether that changes something.
    fn judge(&mut self, basis: &Basis<'_>, scene: &Scene<'_>, plan: &mut PlacementPlan) -> bool {
        let Some(mut trial) = self.trial.take() else {
            return false;
        };
        let verdict = trial.look(basis.facts, |process| self.left_bytes(process).is_some());
        let (threads, memory, lost_windows) = match verdict {
            Verdict::Open => {
                self.trial = Some(trial);
                return false;
            }
            Verdict::Kept => return false,
            Verdict::TakenBack {
                threads,
                memory,
                lost_windows,
            } => (threads, memory, lost_windows),
        };
        plan.single = threads;
        for (process, copies) in memory {
            let found = |own: &Program<'_>| own.facts.process == process;
            let Some(program) = scene.programs.iter().position(found) else {
                continue;
            };
            let advance_ns = basis.advance_ns(0.0);
            let least_windows = self.whole_rest(process);
            self.begin(basis, process, &copies, Vec::new(), advance_ns);
            self.rest(process, least_windows, lost_windows);
            let moved = plan
                .single
                .iter()
                .any(|step| step.thread.process_id == process.process_id);
            if !copies.is_empty() {
                let share = State::now(scene).remote_memory_share(scene, program);
                let shares = (share, share);
                plan.memory.push(gather(
                    basis,
                    scene.programs[program].facts,
                    copies,
                    None,
                    shares,
                    (moved, advance_ns),
                ));
            }
        }
        plan.decision = Decision::TakenBack;
        plan.changes()
    }

    /// What changes of one program.
    fn order(
        &mut self,
        basis: &Basis<'_>,
        (scene, estimate): (&Scene<'_>, &Estimate),
        found: &Found,
        program: usize,
        plan: &mut PlacementPlan,
    ) {
        let own = &scene.programs[program];
        let process = own.facts.process;
        let id = |node: usize| scene.machine.nodes[node].id;
        let before = plan.moves.len() + plan.single.len();
        move_threads(scene, found, program, plan);
        let moved = plan.moves.len() + plan.single.len() - before;
        let copies: Vec<(NodeId, NodeId, u64)> = found
            .state
            .copies(scene, program)
            .into_iter()
            .map(|(from, to, bytes)| (id(from), id(to), bytes as u64))
            .collect();
        let is_small = bytes_of(&copies) < SMALL_BYTES;
        let copies = if is_small { Vec::new() } else { copies };
        if copies.is_empty() && moved == 0 {
            return;
        }
        let nodes = own.groups.iter().map(|group| id(found.state.nodes[*group]));
        let gain = found.gain(scene, program);
        plan.gains.push((process, gain));
        let advance_ns = basis.advance_ns(gain);
        self.begin(basis, process, &copies, nodes.collect(), advance_ns);
        if copies.is_empty() {
            return;
        }
        let tier = estimate.tier_move(scene, &copies);
        if let Some(tier) = tier {
            let is_down = !matches!(tier, TierMove::Promoted { .. });
            self.tiers.note(process, is_down);
        }
        // What comes to its threads is no more than that.
        let tier = tier.filter(|tier| matches!(tier, TierMove::Balanced { .. }));
        let now = State::now(scene);
        let [now, then] =
            [&now, &found.state].map(|state| state.remote_memory_share(scene, program));

        plan.memory.push(gather(
            basis,
            own.facts,
            copies,
            tier,
            (now, then),
            (moved > 0, advance_ns),
        ));
    }

    /// Why a program is left as it is.
    fn why(
        &self,
        basis: &Basis<'_>,
        scene: &Scene<'_>,
        found: &Found,
        program: usize,
        (is_on_trial, is_held): (bool, bool),
    ) -> ProcessKept {
        let own = &scene.programs[program];
        let process = own.facts.process;
        if let Some(left_bytes) = self.left_bytes(process) {
            return ProcessKept::Arriving { left_bytes };
        }
        if own.remote_share <= search::LOCAL {
            return ProcessKept::Local;
        }
        if (basis.is_over_budget)(process) {
            return ProcessKept::OverBudget;
        }
        if is_left_to_kernel(basis, scene, own) {
            return ProcessKept::LeftToKernel;
        }
        if is_on_trial {
            return ProcessKept::OnTrial;
        }
        if is_held {
            return ProcessKept::Resting;
        }
        if let Some((node, needed, free)) = found.no_room[program] {
            return ProcessKept::NoRoom {
                node: scene.machine.nodes[node].id,
                needed_bytes: needed as u64,
                free_bytes: free as u64,
            };
        }
        if !own.is_known {
            return ProcessKept::AccessorsUnknown;
        }
        let (gain, bytes) = found.refused[program].unwrap_or((0.0, 0.0));
        let is_shared = own
            .parts
            .iter()
            .any(|part| scene.parts[*part].uses.len() > 1);
        let is_bound = own.groups.iter().all(|group| {
            let may_run = &scene.groups[*group].may_run;
            may_run.iter().filter(|may| **may).count() < 2
        });
        let rate = |part: &&Part| part.uses.iter().map(|(_, rate)| rate).sum::<f64>();
        let parts = own.parts.iter().map(|part| &scene.parts[*part]);
        let fixed = parts.filter(|part| part.stays == Some(Stays::Fixed));
        let is_fixed = fixed.map(|part| rate(&part)).sum::<f64>() > own.accesses_s / 2.0;
        if is_fixed && gain < basis.settings.min_gain {
            return ProcessKept::Fixed;
        }
        if gain <= 0.0 && is_shared {
            return ProcessKept::Shared;
        }
        if gain <= 0.0 && is_bound {
            return ProcessKept::Bound;
        }
        let cost_ns = basis.cost.ns(bytes as u64);
        ProcessKept::CheaperToStay { gain, cost_ns }
    }
}

/// Whether the kernel's NUMA balancing places a process better: it sees which threads use which memory. Threads on one
/// node are no reason to know it, if the process has to use several: its memory fits on none.
fn is_left_to_kernel(basis: &Basis<'_>, scene: &Scene<'_>, program: &Program<'_>) -> bool {
    let is_unseen = !program.is_known
        || (!program.facts.accessors_known && is_larger_than_a_node(scene, program));
    basis.window.kernel_balances && is_unseen
}

/// Whether no node with CPUs can hold all memory of a program.
fn is_larger_than_a_node(scene: &Scene<'_>, program: &Program<'_>) -> bool {
    let machine = scene.machine;
    let resident = |node: NodeId| {
        let there = program.facts.nodes.iter().find(|each| each.node == node);
        there.map_or(0.0, |each| each.resident_bytes as f64)
    };
    let all: f64 = machine.nodes.iter().map(|node| resident(node.id)).sum();
    let mut nodes = machine.nodes.iter().zip(&scene.room);
    nodes.all(|(node, room)| machine.core_count(node) == 0 || resident(node.id) + room < all)
}

/// The window's scene. Threads of programs whose memories, links or CPUs are busy are looked at in pieces.
fn scene<'a>(basis: &Basis<'a>) -> Scene<'a> {
    let of = |divided: &dyn Fn(ProcessKey) -> bool| {
        let mut scene = Scene::new(basis.machine, basis.facts, basis.window, divided);
        for tier in tiers::of(basis) {
            scene.room[tier.near] = (scene.room[tier.near] - tier.keep()).max(0.0);
        }
        scene
    };
    let scene = of(&|_| false);
    if scene.machine.nodes.len() < 2 || scene.programs.is_empty() {
        return scene;
    }
    let (estimate, now) = (Estimate::new(&scene), State::now(&scene));
    let busy: Vec<ProcessKey> = (0..scene.programs.len())
        .filter(|program| estimate.is_busy(&scene, &now, *program))
        .map(|program| scene.programs[program].facts.process)
        .collect();
    if busy.is_empty() {
        return scene;
    }
    of(&|process| busy.contains(&process))
}

/// The threads of a program that go elsewhere: all of a node, or single ones.
fn move_threads(scene: &Scene<'_>, found: &Found, program: usize, plan: &mut PlacementPlan) {
    let own = &scene.programs[program];
    let id = |node: usize| scene.machine.nodes[node].id;
    let of_node = |one: &usize, other: &usize| scene.groups[*one].node == scene.groups[*other].node;
    for pieces in own.groups.chunk_by(of_node) {
        let from = scene.groups[pieces[0]].node;
        let to = |group: &usize| found.state.nodes[*group];
        let first = to(&pieces[0]);
        if pieces.iter().all(|group| to(group) == first) {
            let threads: f64 = pieces
                .iter()
                .map(|group| scene.groups[*group].threads)
                .sum();
            plan.moves.extend((from != first).then(|| NodeMove {
                process: own.facts.process,
                threads: threads.round() as u32,
                from: id(from),
                to: id(first),
                resident_bytes: 0,
            }));
            continue;
        }
        for group in pieces.iter().filter(|group| to(group) != from) {
            let keys = scene.groups[*group].keys.iter();
            plan.single.extend(keys.map(|thread| Move {
                thread: *thread,
                from: id(from),
                to: id(to(group)),
                reason: Reason::Together { taken_back: false },
            }));
        }
    }
    plan.single.sort_by_key(|step| step.thread);
}

fn kept(scene: &Scene<'_>, program: usize, because: ProcessKept) -> KeptProcess {
    let own = &scene.programs[program];
    KeptProcess {
        process: own.facts.process,
        remote_share: own.remote_share,
        accesses_s: own.accesses_s,
        because,
    }
}

/// What all programs that change should gain together.
fn decision(scene: &Scene<'_>, found: &Found, plan: &PlacementPlan) -> Decision {
    let (mut now, mut then, mut all) = (0.0, 0.0, 0.0);
    let (mut gain, mut threads) = (0.0, 0.0);
    for (program, own) in scene.programs.iter().enumerate() {
        let process = own.facts.process;
        if !plan.changes_process(process) {
            continue;
        }
        now += own.remote_share * own.accesses_s;
        then += found.state.remote_share(scene, program) * own.accesses_s;
        all += own.accesses_s;
        let own_threads = search::threads_of(scene, program);
        gain += own_threads * found.gain(scene, program).ln_1p();
        threads += own_threads;
    }
    Decision::Together {
        remote_now: now / f64::max(all, 1e-9),
        remote_then: then / f64::max(all, 1e-9),
        gain: (gain / f64::max(threads, 1.0)).exp_m1(),
    }
}
