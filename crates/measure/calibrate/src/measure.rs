//! Every figure in every round.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use egeria_machine::Machine;

use crate::CalibrateError;
use crate::emulated::EmulatedBench;
use crate::figures::Calibration;
use crate::hardware::bench::Bench;
use crate::meter::{Meter, Samples, Subject};
use crate::options::Options;
use crate::schedule::Budget;

/// A sample should last so many times the shortest time in which it says something.
const USUAL: f64 = 3.0;
/// More time than this share beyond what was given brings a warning.
const MAX_OVERTIME: f64 = 0.1;

/// Measures the machine this runs on, as `machine` describes it; or an emulated machine, on which accesses take machine time.
///
/// `progress` is told how many of how many steps are done, and what comes next. When `stop` is set, nothing is left
/// behind.
///
/// # Errors
/// When memory, threads or pools cannot be had, a machine cannot be emulated, or somebody asked to stop.
pub fn measure(
    machine: &Machine,
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64, &str),
) -> Result<Calibration, CalibrateError> {
    let is_stopped = || stop.load(Ordering::Acquire);
    if machine.is_emulated() {
        progress(0, 1, "emulating the machine");
        let (mut bench, subject) = EmulatedBench::set_up(machine, stop)?;
        return take_all(
            (&mut bench, &subject),
            machine,
            options,
            &is_stopped,
            progress,
        );
    }
    progress(0, 1, "getting memory");
    let root = Path::new("/");
    let (mut bench, warnings, buffer_bytes) = Bench::set_up(root, machine, options, &is_stopped)?;
    let subject = bench.subject(root);
    let mut calibration = take_all(
        (&mut bench, &subject),
        machine,
        options,
        &is_stopped,
        progress,
    )?;
    calibration.buffer_bytes = buffer_bytes;
    calibration.warnings.splice(0..0, warnings);
    Ok(calibration)
}

fn take_all(
    (meter, subject): (&mut dyn Meter, &Subject),
    machine: &Machine,
    options: &Options,
    is_stopped: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(u64, u64, &str),
) -> Result<Calibration, CalibrateError> {
    let nearest = subject.nearest(machine);
    let (cells, together) = (subject.cells(&nearest), subject.together(&nearest));
    let each_round = (cells.len() + together.len()) as u64;
    let round_s = each_round as f64 * meter.shortest().as_secs_f64() * USUAL;
    let rounds = ((options.seconds / round_s) as u32).clamp(1, options.rounds.max(1));
    let steps = each_round * u64::from(rounds);
    let mut budget = Budget::new(options.seconds, steps, meter.shortest());
    let mut samples = Samples {
        cells: cells.into_iter().map(|cell| (cell, Vec::new())).collect(),
        together: together
            .into_iter()
            .map(|cell| (cell, [const { Vec::new() }; 2]))
            .collect(),
    };
    let begun = Instant::now();
    let mut done = 0;
    for _ in 0..rounds {
        for (cell, samples) in &mut samples.cells {
            if is_stopped() {
                return Err(CalibrateError::Stopped);
            }
            progress(done, steps, "measuring memory");
            samples.push(meter.take(*cell, budget.next())?);
            done += 1;
        }
        for (cell, samples) in &mut samples.together {
            if is_stopped() {
                return Err(CalibrateError::Stopped);
            }
            progress(done, steps, "measuring two flows at once");
            let figures = meter.take_together(*cell, budget.next())?;
            for (samples, figure) in samples.iter_mut().zip(figures) {
                samples.push(figure);
            }
            done += 1;
        }
    }
    let measured_s = begun.elapsed().as_secs_f64();
    let mut calibration = Calibration {
        rounds,
        measured_s,
        ..subject.figures(&samples)
    };
    calibration.warnings.extend(meter.warnings());
    calibration.warnings.extend(calibration.left_out());
    calibration
        .warnings
        .extend(calibration.unexplained(machine));
    if measured_s > (1.0 + MAX_OVERTIME) * options.seconds + 1.0 {
        calibration.warnings.push(format!(
            "{rounds} samples of each of {each_round} figures took {measured_s:.0} s, not {:.0} as --seconds says",
            options.seconds
        ));
    } else if rounds < options.rounds {
        calibration.warnings.push(format!(
            "figures were taken {rounds} times, not {}: {each_round} of them need {:.0} s for that (--seconds)",
            options.rounds,
            round_s * f64::from(options.rounds)
        ));
    }
    Ok(calibration)
}
