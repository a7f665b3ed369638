//! A placement is an experiment: where the work of programs is counted, it is kept if they get as much done as before,
//! and taken back if they lose more than they do by chance.

use std::collections::BTreeMap;

use egeria_facts::{Facts, ProcessAccesses, ProcessKey, ThreadKey};
use egeria_machine::NodeId;

use super::scene::Scene;
use super::state::State;
use super::works::Works;
use crate::asymsched::PlacementPlan;
use crate::{Move, Reason};

/// Programs that get less done than before by this part, in a geometric mean over their threads, were better off before.
const TOLERATED_LOSS: f64 = 0.03;
/// Windows that are compared: those after memory has arrived.
const JUDGED_WINDOWS: u32 = 2;
/// A placement that memory does not complete is judged after this number of windows all the same.
const PATIENCE: u32 = 40;

/// Two windows of a program are of the same kind of work if its accesses per work differ by less than this part.
const SAME_WORK: f64 = 0.2;
/// Windows for which the same kind of work is waited for.
const LONGEST_WAIT: u32 = 8;
/// A loss that is judged without windows of the same kind of work.
const PLAIN_LOSS: f64 = 0.3;
/// Work is steady if no window since has more of it than another by this part. That it became another kind of work just
/// when the program was placed is then hardly chance: its accesses took another way through caches.
const STEADY: f64 = 0.05;

/// What a program got done before, and since memory arrived.
#[derive(Clone, Copy, Debug)]
struct Record {
    threads: f64,
    work_s: f64,
    /// Accesses per work.
    accesses: f64,
    /// By which logarithm its work may differ by chance.
    chance_ln: f64,
    /// Sum and number of the windows since, and of those of the same kind of work.
    all: (f64, u32),
    same: (f64, u32),
    /// The least and the most of it in a window since.
    range: (f64, f64),
}

/// What memory of a process goes: from, to, bytes.
pub(super) type Copies = Vec<(NodeId, NodeId, u64)>;

/// A placement that is not judged yet.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    programs: BTreeMap<ProcessKey, Record>,
    /// Where threads were.
    threads: Vec<(ThreadKey, NodeId)>,
    /// What memory went where, bytes.
    copies: Vec<(ProcessKey, Copies)>,
    windows: u32,
    settled_windows: u32,
}

/// What came of it.
pub(super) enum Verdict {
    Open,
    Kept,
    /// It goes back: threads, and memory by process. `lost_windows`: what programs lost, in windows of their work.
    TakenBack {
        threads: Vec<Move>,
        memory: Vec<(ProcessKey, Copies)>,
        lost_windows: f64,
    },
}

impl Trial {
    /// A trial of this plan; `None` where the work of what moves is not counted.
    pub(super) fn begin(
        scene: &Scene<'_>,
        facts: &Facts,
        state: &State,
        plan: &PlacementPlan,
        works: &Works,
    ) -> Option<Trial> {
        let programs = facts.accesses.processes.iter();
        let programs = programs.filter_map(|each| Record::before(each, works));
        let (mut threads, mut copies) = (Vec::new(), Vec::new());
        let id = |node: usize| scene.machine.nodes[node].id;
        for (program, own) in scene.programs.iter().enumerate() {
            let process = own.facts.process;
            if !plan.changes_process(process) {
                continue;
            }
            own.facts.work_s.filter(|work_s| *work_s > 0.0)?;
            for group in &own.groups {
                let group = &scene.groups[*group];
                threads.extend(group.keys.iter().map(|key| (*key, id(group.node))));
            }
            let back = state.copies(scene, program).into_iter();
            let back = back.map(|(from, to, bytes)| (id(to), id(from), bytes as u64));
            copies.push((process, back.collect()));
        }
        threads.retain(|(key, _)| facts.window.thread(*key).is_some());
        Some(Trial {
            programs: programs.collect(),
            threads,
            copies,
            windows: 0,
            settled_windows: 0,
        })
    }

    /// Looks at the next window; `is_arriving` says whether memory of a process is on its way.
    pub(super) fn look(
        &mut self,
        facts: &Facts,
        is_arriving: impl Fn(ProcessKey) -> bool,
    ) -> Verdict {
        self.windows += 1;
        let arrives = self.copies.iter().any(|(process, _)| is_arriving(*process));
        if arrives && self.windows < PATIENCE {
            return Verdict::Open;
        }
        self.settled_windows += 1;
        for process in &facts.accesses.processes {
            let record = self.programs.get_mut(&process.process);
            let work_s = process.work_s.filter(|work_s| *work_s > 0.0);
            if let Some((record, work_s)) = record.zip(work_s) {
                record.add(work_s, accesses_s(process) / work_s);
            }
        }
        let is_known = |record: &Record| record.same.1 >= JUDGED_WINDOWS;
        let is_complete = self.programs.values().all(is_known);
        let (gain, chance) = self.gain();
        // A large loss of all programs together is no other work of one of them.
        let is_clear = is_complete || gain < -PLAIN_LOSS;
        if self.settled_windows < JUDGED_WINDOWS
            || (!is_clear && self.settled_windows < LONGEST_WAIT)
        {
            return Verdict::Open;
        }
        if gain >= -TOLERATED_LOSS.max(chance) {
            return Verdict::Kept;
        }
        let back = |(key, node): &(ThreadKey, NodeId)| {
            let thread = facts.window.thread(*key)?;
            (thread.node != *node).then_some(Move {
                thread: *key,
                from: thread.node,
                to: *node,
                reason: Reason::Together { taken_back: true },
            })
        };
        let mut moves: Vec<Move> = self.threads.iter().filter_map(back).collect();
        moves.sort_by_key(|step| step.thread);
        Verdict::TakenBack {
            threads: moves,
            memory: std::mem::take(&mut self.copies),
            lost_windows: -gain * f64::from(self.windows),
        }
    }

    /// What programs gained, in a geometric mean over their threads; and what they may lose by chance, as a part.
    fn gain(&self) -> (f64, f64) {
        let (mut sum, mut chance, mut threads) = (0.0, 0.0, 0.0);
        for record in self.programs.values() {
            if let Some(ratio) = record.ratio() {
                sum += record.threads * ratio.ln();
                chance += record.threads * record.chance_ln;
                threads += record.threads;
            }
        }
        if threads > 0.0 {
            ((sum / threads).exp_m1(), -(-chance / threads).exp_m1())
        } else {
            (0.0, 0.0)
        }
    }
}

impl Record {
    /// What a process did before; `None` where its work is not counted.
    fn before(facts: &ProcessAccesses, works: &Works) -> Option<(ProcessKey, Record)> {
        let work_s = facts.work_s.filter(|work_s| *work_s > 0.0)?;
        let threads = facts.nodes.iter().map(|each| f64::from(each.threads));
        let record = Record {
            threads: threads.sum(),
            work_s,
            accesses: accesses_s(facts) / work_s,
            chance_ln: works.chance_ln(facts.process),
            all: (0.0, 0),
            same: (0.0, 0),
            range: (f64::INFINITY, 0.0),
        };
        Some((facts.process, record))
    }

    /// Its work after, divided by that before: in windows of the same kind of work. Without such windows it counts if
    /// work is steady since, else only a large loss does.
    fn ratio(&self) -> Option<f64> {
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        if let Some(same) = mean(self.same) {
            return Some(same / self.work_s);
        }
        let ratio = mean(self.all)? / self.work_s;
        let is_steady = self.all.1 >= LONGEST_WAIT && self.range.1 <= (1.0 + STEADY) * self.range.0;
        (is_steady || ratio < 1.0 - PLAIN_LOSS).then_some(ratio.max(1e-6))
    }

    fn add(&mut self, work_s: f64, accesses: f64) {
        self.all = (self.all.0 + work_s, self.all.1 + 1);
        self.range = (self.range.0.min(work_s), self.range.1.max(work_s));
        if (accesses - self.accesses).abs() <= SAME_WORK * self.accesses {
            self.same = (self.same.0 + work_s, self.same.1 + 1);
        }
    }
}

fn accesses_s(facts: &ProcessAccesses) -> f64 {
    let rates = facts.nodes.iter().flat_map(|each| &each.accesses_s);
    rates.sum()
}
