//! The emulation beside the model: real programs on emulated machines, and what `egeria sim` predicts of them.
//!
//! Both compute what one access takes by the same arithmetic ([`egeria_machine::costs`]); what many get at once is where
//! they differ: the model solves for the mean, the emulation lets them meet on clocks.

mod report;
mod scenario;

use std::time::Duration;

use egeria_harness::{Error, Result};
use egeria_sim::{Options, Outcome};

use crate::emulated::{EmulatedOptions, EmulatedRun, Moved, RunPace};
use crate::experiment::over;

pub use report::{EmulationReport, EmulationRow};
use scenario::{Scenario, scenarios};

/// Accesses of each thread that a run is measured for, at least: over one or two it counts where in them threads are when it
/// begins and ends, not how fast they are.
const MIN_ACCESSES: f64 = 8.0;
/// ... but no longer than this.
const MAX_MEASURED_S: f64 = 60.0;
/// Memory that the largest run needs.
const ROOM_BYTES: u64 = 3 << 30;

/// Runs the scenarios whose name contains `only`, or all, and predicts them.
///
/// # Errors
/// When fio is missing, there is no room, a program fails, or it was interrupted.
pub fn run(options: &EmulatedOptions<'_>, only: Option<&str>) -> Result<EmulationReport> {
    let mut chosen = scenarios();
    chosen.retain(|scenario| only.is_none_or(|only| scenario.name.contains(only)));
    if chosen.is_empty() {
        let names: Vec<String> = scenarios().into_iter().map(|each| each.name).collect();
        let names = names.join(", ");
        return Err(Error::failed(format!(
            "there is no such scenario; take a part of one of: {names}"
        )));
    }
    let perform = |scenario: &Scenario| perform(options, scenario);
    let name = |scenario: &Scenario| scenario.name.clone();
    let found = options.rounds(ROOM_BYTES, &chosen, name, perform)?;
    let rows = chosen.iter().zip(&found);
    let rows: Result<Vec<Vec<EmulationRow>>> = rows
        .map(|(scenario, rounds)| compare(scenario, rounds))
        .collect();
    Ok(EmulationReport::of(rows?.concat(), options.rounds))
}

/// One run of one scenario on the emulation.
fn perform(options: &EmulatedOptions<'_>, scenario: &Scenario) -> Result<Vec<Moved>> {
    let run = EmulatedRun::set_up(options, &scenario.machine()?, &scenario.volumes())?;
    let indices = || 0..scenario.programs.len();
    let fills = indices().map(|index| scenario.jobs(index, &run).fill());
    run.prepare(fills.collect())?;
    let program = |index: usize| {
        let threads = scenario.programs[index].threads;
        (scenario.call(index, &run), threads)
    };
    let programs: Vec<_> = indices().map(program).collect();
    if let Some(rule) = scenario.rule() {
        let set = run.volume(0).set_delegation(Some(rule), true);
        set.map_err(|errno| Error::failed(format!("delegation cannot be set: {errno}")))?;
    }
    run.measure(&programs, pace(scenario, options.measured)?)
}

/// How long a scenario is measured, host time: as wanted, and for so many accesses of each thread as the model expects.
fn pace(scenario: &Scenario, wanted: Duration) -> Result<RunPace> {
    let predicted = predict(scenario, &vec![0.0; scenario.programs.len()])?;
    let programs = scenario.programs.iter().zip(&predicted.groups);
    let longest_s = programs
        .map(|(program, group)| {
            let all_bytes = program.request_bytes as f64 * program.threads as f64;
            all_bytes / group.bytes_s.max(1.0) * scenario.dilation
        })
        .fold(0.0, f64::max);
    let least = Duration::from_secs_f64((longest_s * MIN_ACCESSES).min(MAX_MEASURED_S));
    let measured = wanted.max(least);
    Ok(RunPace {
        warm_up: measured / 3,
        measured,
    })
}

/// What the model says of the scenario with the programs' computing as it was, beside the median of the rounds.
fn compare(scenario: &Scenario, rounds: &[Vec<Moved>]) -> Result<Vec<EmulationRow>> {
    let of = |index: usize, what: fn(&Moved) -> f64| over(rounds, |round| what(&round[index]));
    let think_ns: Vec<f64> = (0..scenario.programs.len())
        .map(|index| of(index, |moved| moved.think_ns))
        .collect();
    let predicted = predict(scenario, &think_ns)?;
    let rows = scenario
        .programs
        .iter()
        .enumerate()
        .map(|(index, program)| {
            let (emulated, predicted) =
                (of(index, Moved::bytes_s), predicted.groups[index].bytes_s);
            EmulationRow {
                scenario: scenario.name.clone(),
                program: program.name.to_owned(),
                machine: scenario.profile.to_owned(),
                nodes: scenario.nodes,
                threads: program.threads,
                request_bytes: program.request_bytes,
                read_share: program.read_share,
                think_ns: think_ns[index],
                dilation: of(index, |moved| moved.dilation),
                emulated_bytes_s: emulated,
                predicted_bytes_s: predicted,
                error: emulated / predicted - 1.0,
            }
        });
    Ok(rows.collect())
}

fn predict(scenario: &Scenario, think_ns: &[f64]) -> Result<Outcome> {
    let workload = scenario.workload(think_ns);
    let options = Options {
        allocation: scenario.allocation_in_model(),
        planner: scenario.planner(),
        ..Options::of(egeria_policy::planner::System::Off)
    };
    egeria_sim::run(&scenario.described()?, &workload, &options).map_err(Error::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_differ_and_the_model_answers_each() {
        let all = scenarios();
        assert!(all.len() >= 20, "{}", all.len());
        for (index, scenario) in all.iter().enumerate() {
            let name = &scenario.name;
            assert!(
                all[..index].iter().all(|other| other.name != *name),
                "{name}"
            );
            let machine = scenario.machine().expect(name);
            assert!(machine.is_emulated() && machine.nodes.len() == scenario.nodes);
            let think_ns = vec![2_000.0; scenario.programs.len()];
            let outcome = predict(scenario, &think_ns).expect(name);
            assert!(
                outcome.groups.iter().all(|group| group.bytes_s > 1e6),
                "{name}"
            );
        }
    }

    #[test]
    fn runs_are_measured_for_some_accesses_of_each_thread() {
        let wanted = Duration::from_millis(1500);
        for scenario in scenarios() {
            let name = &scenario.name;
            let measured = pace(&scenario, wanted).expect(name).measured;
            assert!(
                measured >= wanted && measured < Duration::from_secs(8),
                "{name}"
            );
            let predicted = predict(&scenario, &vec![0.0; scenario.programs.len()]).expect(name);
            for (program, group) in scenario.programs.iter().zip(&predicted.groups) {
                let accesses_s =
                    group.bytes_s / (program.threads as u64 * program.request_bytes) as f64;
                let accesses = measured.as_secs_f64() / scenario.dilation * accesses_s;
                assert!(accesses >= 7.9, "{name}: {accesses}");
            }
        }
    }

    #[test]
    fn errors_are_of_both_signs_and_the_worst_is_told() {
        let row = |emulated_bytes_s: f64| EmulationRow {
            scenario: "one".to_owned(),
            program: "persistent".to_owned(),
            machine: "optane-1s".to_owned(),
            nodes: 1,
            threads: 1,
            request_bytes: 4096,
            read_share: 0.0,
            think_ns: 0.0,
            dilation: 1.0,
            emulated_bytes_s,
            predicted_bytes_s: 1e9,
            error: emulated_bytes_s / 1e9 - 1.0,
        };
        let report = EmulationReport::of(vec![row(0.7e9), row(1.1e9), row(1e9)], 1);
        assert!((report.worst - 0.3).abs() < 1e-9 && (report.median - 0.1).abs() < 1e-9);
        assert!(report.page().contains("-30.0 %") && report.table().contains("+10.0 %"));
    }
}
