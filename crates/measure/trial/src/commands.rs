//! Trials of a command: a run is the command from start to end, with one of the sides.

use std::ffi::OsString;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use egeria_files::{Error, Result};

use crate::host::CpuTimes;
use crate::metric::{Metric, Samples};
use crate::number::Number;
use crate::program::{self, Terms};
use crate::report::Described;
use crate::side::{Begin, Ledger, RunRecord};
use crate::trial::Subject;

/// What one of the sides does to the command.
pub struct Side<'a> {
    pub name: String,
    pub words: Vec<OsString>,
    /// Run before each run, and not measured.
    pub before: Option<Vec<OsString>>,
    /// Variables that the command gets in addition.
    pub environment: Vec<(OsString, OsString)>,
    /// Begins what accompanies each run; `None`: nothing does.
    pub begin: Option<Begin<'a>>,
}

/// What is measured of a run.
#[derive(Clone, Debug)]
pub enum Measure {
    /// From start to end, s.
    WallTime,
    /// The same by the clock of the emulated machine that every side uses, which stands still while the host cannot keep
    /// up, s.
    MachineTime,
    /// What the command prints.
    Number(Number),
    /// What is sampled during the run.
    Metric(Metric),
}

/// A command with its sides.
pub struct Commands<'a> {
    pub sides: Vec<Side<'a>>,
    pub measure: Measure,
    pub terms: Terms<'a>,
    /// Called before each run with the number of runs so far and the name of the side.
    pub progress: &'a dyn Fn(usize, &str),
    begin: Instant,
    warm_ups: usize,
    pub ledger: Ledger,
}

impl<'a> Commands<'a> {
    /// Of these sides.
    pub fn new(
        sides: Vec<Side<'a>>,
        measure: Measure,
        terms: Terms<'a>,
        progress: &'a dyn Fn(usize, &str),
    ) -> Commands<'a> {
        program::adopt_orphans();
        let ledger = Ledger::new(sides.iter().map(|side| side.begin.is_none()).collect());
        Commands {
            sides,
            measure,
            terms,
            progress,
            begin: Instant::now(),
            warm_ups: 0,
            ledger,
        }
    }

    /// For the report.
    pub fn described(&self) -> Described<'_> {
        let words = self.sides[0].words.iter();
        let words: Vec<String> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let (measure, unit) = match &self.measure {
            Measure::WallTime => ("wall time".to_owned(), "s"),
            Measure::MachineTime => ("time of the emulated machine".to_owned(), "s"),
            Measure::Number(number) => (number.to_string(), ""),
            Measure::Metric(metric) => (metric.text().to_owned(), ""),
        };
        Described {
            subject: words.join(" "),
            sides: self.sides.iter().map(|side| side.name.as_str()).collect(),
            measure,
            unit,
            warm_ups: self.warm_ups,
            ledger: &self.ledger,
        }
    }

    /// One run of each of these sides that does not count, and begins the time of the trial. How long the longest took.
    ///
    /// # Errors
    /// When the command fails, or gives no value.
    pub fn warm_up(&mut self, sides: &[usize]) -> Result<Duration> {
        let mut longest = Duration::ZERO;
        for side in sides {
            let begin = Instant::now();
            let name = format!("{}, the warm-up", self.sides[*side].name);
            self.measured(*side, &name)?;
            longest = longest.max(begin.elapsed());
        }
        self.warm_ups += sides.len();
        self.ledger = self.ledger.cleared();
        self.begin = Instant::now();
        Ok(longest)
    }

    fn measured(&mut self, side: usize, name: &str) -> Result<f64> {
        (self.progress)(self.ledger.records.len(), name);
        let in_run = |error| match error {
            Error::Failed(cause) => Error::Failed(format!("in a run with {name}: {cause}")),
            other => other,
        };
        let Side {
            before,
            environment,
            ..
        } = &self.sides[side];
        if let Some(before) = before {
            program::run(before, environment, &self.terms, || ()).map_err(in_run)?;
        }
        let treatment = self.sides[side].begin.as_ref().map(|begin| begin());
        let treatment = treatment.transpose()?;
        let machine_s = || treatment.as_ref()?.machine_s();
        let (then, machine_then_s) = (CpuTimes::now(), machine_s());
        let run = self.run_sampled(side);
        let machine_s = machine_s().zip(machine_then_s);
        let passed = then.zip(CpuTimes::now()).map(|(then, now)| now.since(then));
        if let Some(treatment) = treatment {
            self.ledger.done[side].add(treatment.end());
        }
        let (ran, samples) = run.map_err(in_run)?;
        let value = match &self.measure {
            Measure::WallTime => Ok(ran.elapsed_s),
            Measure::MachineTime => machine_s
                .map(|(now, then)| now - then)
                .ok_or_else(|| Error::failed("no emulated machine is there; measure wall time")),
            Measure::Number(number) => number.find(&ran),
            Measure::Metric(metric) => metric.value(&samples, ran.elapsed_s),
        };
        let value = value.and_then(positive).map_err(in_run)?;
        self.ledger.records.push(RunRecord {
            side,
            elapsed_s: ran.elapsed_s,
            own_s: passed.map(|passed| passed.own_s),
            command_s: passed.map(|passed| passed.children_s),
            others_share: passed.map(|passed| passed.others_share),
            activity: None,
        });
        Ok(value)
    }

    /// One run, during which the metric is sampled if there is one.
    fn run_sampled(&self, side: usize) -> Result<(program::Ran, Samples)> {
        let Side {
            words, environment, ..
        } = &self.sides[side];
        let Measure::Metric(metric) = &self.measure else {
            let ran = program::run(words, environment, &self.terms, || ())?;
            return Ok((ran, Samples::default()));
        };
        std::thread::scope(|scope| {
            let (stop, stopped) = channel();
            let sampler = scope.spawn(move || metric.sample_until(&stopped));
            let mut samples = Samples::default();
            let ran = program::run(words, environment, &self.terms, || {
                drop(stop);
                samples = sampler.join().unwrap_or_default();
            });
            Ok((ran?, samples))
        })
    }
}

impl Subject for Commands<'_> {
    type Error = Error;

    fn run(&mut self, side: usize) -> Result<f64> {
        let name = self.sides[side].name.clone();
        self.measured(side, &name)
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// Trials compare ratios.
pub(crate) fn positive(value: f64) -> Result<f64> {
    if value > 0.0 && value.is_finite() {
        return Ok(value);
    }
    Err(Error::failed(format!(
        "the value is {value}, and a trial compares ratios; measure something that is above 0"
    )))
}
