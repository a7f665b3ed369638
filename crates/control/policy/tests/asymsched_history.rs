//! Whatever happens, nobody spends more on migration than the budget (§4.2, Step 4).

use crate::clusters;
use crate::memory;

use clusters::{GB, linked, process, uneven, window};
use egeria_facts::AccessWindow;
use egeria_machine::Machine;
use egeria_policy::asymsched::{MemoryAction, PlacementPlan, Settings, plan_after};
use memory::obey;
use proptest::prelude::*;

/// What comes in one window: how busy each process is, how much of its memory follows page by page, and how much it
/// allocates where it runs, bytes.
type Weather = [(f64, f64, u64); 3];

fn weather() -> impl Strategy<Value = Weather> {
    let one = || (5.0..9.5f64, 0.0..1.0f64, 0..GB / 4);
    prop::array::uniform3((one(), one(), one())).prop_map(|all| all.map(|each| each.0))
}

/// The next window: a second later, accesses to wherever the memory is.
fn pass(machine: &Machine, window: &mut AccessWindow, weather: &Weather) {
    window.number += 1;
    window.end_ns += GB;
    for (facts, (power, _, growth)) in window.processes.iter_mut().zip(weather) {
        facts.running_ns += GB;
        let total: u64 = facts.nodes.iter().map(|each| each.resident_bytes).sum();
        let mut rates = vec![0.0; machine.nodes.len()];
        for each in &facts.nodes {
            let position = machine.index_of(each.node).expect("a node of the machine");
            rates[position] +=
                10f64.powf(*power) * each.resident_bytes as f64 / total.max(1) as f64;
        }
        for each in facts.nodes.iter_mut().filter(|each| each.threads > 0) {
            each.accesses_s = rates.clone();
            each.resident_bytes += growth / 3;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn no_history_of_windows_and_plans_goes_over_the_budget(
        sky in prop::collection::vec(weather(), 5..60),
        running_s in prop::array::uniform3(0..200u64),
        part in 0.0..1.0f64,
        on_few_nodes: bool,
    ) {
        let settings = Settings::default();
        let (machine, starts): (Machine, Vec<&[usize]>) = if on_few_nodes {
(uneven(), vec![&[0, 1], &[2, 3]])
} else {
(Machine::profile("bulldozer-8n").unwrap(), vec![&[0, 3, 5], &[1, 6], &[2, 7]])
};
        let make = |(number, nodes): (usize, &[usize])| {
            let mut facts = process(&machine, number as u32, nodes, 1e8);
            facts.running_ns = running_s[number] * GB;
            facts
        };
        let mut window = window(starts.into_iter().enumerate().map(make).collect());
        let mut last = PlacementPlan::off(0);
        for weather in &sky {
            window.validate(&machine).unwrap();
            let plan = plan_after(&machine, &window, &settings, &last);
            for (facts, (_, followed, _)) in window.processes.iter_mut().zip(weather) {
                obey(facts, &plan, followed * part, &settings);
                let allowed_ns = facts.running_ns as f64 * settings.budget;
                // Each copy's time is rounded up.
                let rounding_ns = 1000.0;
                prop_assert!(facts.migrating_ns as f64 <= allowed_ns + rounding_ns, "{facts:?}");
            }
            last = plan;
            pass(&machine, &mut window, weather);
        }
    }
}

/// The property above is not about nothing: threads move, memory follows in both ways, and budgets stop some.
#[test]
fn histories_have_moves_copies_and_refusals() {
    let pairs = [(0, 1, 1e9), (2, 3, 10e9), (1, 2, 1e8), (3, 0, 1e8)];
    let both = pairs
        .iter()
        .flat_map(|&(a, b, width)| [(a, b, width), (b, a, width)]);
    let machine = linked(4, &both.collect::<Vec<_>>());
    let settings = Settings::default();
    let mut seen = [0; 4];
    for start_s in [1, 10, 40, 100] {
        let mut facts = process(&machine, 1, &[0, 1], 1e8);
        facts.running_ns = start_s * GB;
        let mut window = window(vec![facts]);
        let mut last = PlacementPlan::off(0);
        for _ in 0..30 {
            let plan = plan_after(&machine, &window, &settings, &last);
            seen[0] += plan.moves.len();
            let refused = matches!(
                plan.decision,
                egeria_policy::asymsched::Decision::OverBudget { .. }
            );
            seen[1] += usize::from(refused);
            for step in &plan.memory {
                seen[2] += usize::from(matches!(step.action, MemoryAction::Full { .. }));
                seen[3] += usize::from(matches!(step.action, MemoryAction::Settled { .. }));
            }
            let part = if start_s == 40 { 0.6 } else { 0.01 };
            obey(&mut window.processes[0], &plan, part, &settings);
            last = plan;
            pass(&machine, &mut window, &[(8.0, 0.0, 0); 3]);
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
