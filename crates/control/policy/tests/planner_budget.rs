//! Whatever happens, no process loses more to moves than the budget: moves of threads, memory and files together.

use crate::clusters;
use crate::memory;
use crate::whole;

use std::collections::BTreeMap;

use clusters::GB;
use egeria_facts::Facts;
use egeria_facts::FileKey;
use egeria_machine::Machine;
use egeria_policy::asymsched;
use egeria_policy::planner::{Decision, Planner, RelocationReason, RelocationStep, System};
use egeria_policy::{KeptBecause, ProcessKept};
use proptest::prelude::*;
use whole::{rigid_act_all, whole};

/// What comes in a window: how busy memory is (a power of ten), what part of the memory that follows does, how busy files
/// are, and by how many nodes what is read where turns.
type Weather = (f64, f64, f64, usize);

fn weather() -> impl Strategy<Value = Weather> {
    (5.0..9.5f64, 0.0..0.5f64, 0.2..2.0f64, 0..3_usize)
}

/// What was ordered so far beside memory, ns, by process.
#[derive(Default)]
struct Till {
    spent_ns: BTreeMap<u32, f64>,
    seen_ns: BTreeMap<u32, u64>,
}

impl Till {
    fn charge(&mut self, facts: &Facts, decision: &Decision, thread_move_ns: f64) {
        let mut threads: BTreeMap<u32, f64> = BTreeMap::new();
        for thread in &facts.window.threads {
            *threads.entry(thread.key.process_id).or_default() += 1.0;
        }
        for process in threads.keys() {
            *self.seen_ns.entry(*process).or_default() += facts.window.duration_ns;
        }
        let mut charge = |process: u32, ns: f64| *self.spent_ns.entry(process).or_default() += ns;
        for step in &decision.threads.moves {
            let process = step.thread.process_id;
            charge(process, thread_move_ns / threads[&process]);
        }
        for process in &facts.accesses.processes {
            let all: u32 = process.nodes.iter().map(|each| each.threads).sum();
            let own = decision.placement.moves.iter();
            for step in own.filter(|step| step.process == process.process) {
                let part = f64::from(step.threads) / f64::from(all);
                charge(process.process.process_id, thread_move_ns * part);
            }
        }
        for step in &decision.relocations {
            for payer in payers(facts, step) {
                charge(payer, step.cost_ns as f64);
            }
        }
    }
}

/// Who uses the file that a step is for.
fn payers(facts: &Facts, step: &RelocationStep) -> Vec<u32> {
    let file: FileKey = match step.why {
        RelocationReason::MakesRoom { wanted, .. } => wanted,
        _ => step.file,
    };
    let of = |is: &dyn Fn(&egeria_facts::ThreadFacts) -> bool| {
        let users = facts.window.threads.iter().filter(|thread| is(thread));
        let mut all: Vec<u32> = users.map(|thread| thread.key.process_id).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    match of(&|thread| thread.files.iter().any(|used| used.file == file)) {
        users if users.is_empty() => of(&|thread| thread.moved_total() > 0),
        users => users,
    }
}

/// All is done as decided, but for files, whose copies never end; then the weather changes.
fn pass(machine: &Machine, facts: &mut Facts, decision: &Decision, weather: Weather) {
    let (power, part, scale, turn) = weather;
    let settings = asymsched::Settings::default();
    rigid_act_all(&mut facts.window, decision, machine);
    facts.window.number += 1;
    facts.window.start_ns += GB;
    for thread in &mut facts.window.threads {
        let most = GB * 3;
        let scaled = |bytes: &mut u64| *bytes = ((*bytes as f64 * scale) as u64).min(most);
        thread.read_bytes.iter_mut().for_each(scaled);
        let nodes = thread.read_bytes.len();
        thread.read_bytes.rotate_left(turn % nodes);
    }
    for file in &mut facts.files {
        let nodes = machine.nodes.len();
        file.bytes_on.rotate_left(turn % nodes);
        file.read_bytes
            .iter_mut()
            .for_each(|row| row.rotate_left(turn % nodes));
    }
    facts.accesses.number += 1;
    facts.accesses.end_ns += GB;
    for process in &mut facts.accesses.processes {
        memory::obey(process, &decision.placement, part, &settings);
        process.running_ns += GB;
        let total: u64 = process.nodes.iter().map(|each| each.resident_bytes).sum();
        let mut rates = vec![0.0; machine.nodes.len()];
        for each in &process.nodes {
            let here = each.resident_bytes as f64 / total.max(1) as f64;
            rates[machine.index_of(each.node).expect("a node")] += 10f64.powf(power) * here;
        }
        for each in process.nodes.iter_mut().filter(|each| each.threads > 0) {
            each.accesses_s.clone_from(&rates);
        }
    }
}

fn history(
    machine: &Machine,
    mut facts: Facts,
    sky: &[Weather],
    thread_move_ns: u64,
    mut look: impl FnMut(&Facts, &Decision, &Till),
) {
    let mut settings = System::All.settings();
    settings.budget.thread_move_ns = thread_move_ns;
    let mut planner = Planner::new(machine, settings);
    let mut till = Till::default();
    for weather in sky {
        let decision = planner.decide(machine, &facts);
        till.charge(&facts, &decision, thread_move_ns as f64);
        let before = facts.clone();
        pass(machine, &mut facts, &decision, *weather);
        look(
            &Facts {
                accesses: facts.accesses.clone(),
                ..before
            },
            &decision,
            &till,
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn no_history_goes_over_the_budget(
        (machine, facts) in whole(),
        sky in prop::collection::vec(weather(), 5..40),
        thread_move_ns in prop::sample::select(vec![0, 100_000, 20_000_000, 1_000_000_000]),
    ) {
        history(&machine, facts, &sky, thread_move_ns, |facts, decision, till| {
            let accesses = &facts.accesses.processes;
            let of = |id: u32| accesses.iter().find(|process| process.process.process_id == id);
            for (id, spent_ns) in &till.spent_ns {
                let migrating_ns = of(*id).map_or(0, |process| process.migrating_ns);
                // Its facts are a second older than this decision.
                let ran_ns = of(*id).map_or(0, |process| process.running_ns - GB);
                let ran_ns = ran_ns.max(till.seen_ns.get(id).copied().unwrap_or_default());
                let rounding_ns = 10_000.0;
                let total_ns = spent_ns + migrating_ns as f64;
                assert!(
                    total_ns <= ran_ns as f64 * 0.05 + rounding_ns,
                    "process {id}: {spent_ns} + {migrating_ns} of {ran_ns}, after {decision:?}"
                );
            }
        });
    }
}

/// The property above is not about nothing: all three move, and all three are refused.
#[test]
fn histories_have_moves_of_everything_and_refusals() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = [0; 5];
    for _ in 0..60 {
        let drawn = (whole(), prop::collection::vec(weather(), 30)).new_tree(&mut runner);
        let ((machine, facts), sky) = drawn.expect("nothing is rejected").current();
        for thread_move_ns in [100_000, 1_000_000_000] {
            history(
                &machine,
                facts.clone(),
                &sky,
                thread_move_ns,
                |_, decision, _| {
                    let kept = decision.threads.kept.iter();
                    let unpaid =
                        kept.filter(|kept| matches!(kept.because, KeptBecause::OverBudget { .. }));
                    let mut processes = decision.placement.kept.iter();
                    let is_over = matches!(
                        decision.placement.decision,
                        asymsched::Decision::OverBudget { .. }
                    ) || processes
                        .any(|kept| kept.because == ProcessKept::OverBudget);
                    let counts = [
                        decision.threads.moves.len(),
                        decision.placement.moves.len(),
                        decision.relocations.len(),
                        unpaid.count(),
                        usize::from(is_over),
                    ];
                    seen.iter_mut()
                        .zip(counts)
                        .for_each(|(sum, count)| *sum += count);
                },
            );
        }
    }
    assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
}
