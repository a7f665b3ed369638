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
    /// Begins what accompanies each run; `None`: nothing does.
    pub begin: Option<Begin<'a>>,
}

/// What is measured of a run.
#[derive(Clone, Debug)]
pub enum Measure {
    /// From start to end, s.
    WallTime,
    /// What the command prints.
    Number(Number),
    /// What is sampled during the run.
    Metric(Metric),
}

/// A command with its sides.
pub struct Commands<'a> {
    pub sides: Vec<Side<'a>>,
    pub measure: Measure,
    /// Run before each run, and not measured.
    pub before: Option<Vec<OsString>>,
    pub terms: Terms<'a>,
    /// Called before each run with the number of runs so far and the name of the side.
    pub progress: &'a dyn Fn(usize, &str),
    begin: Instant,
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
        let ledger = Ledger::new(sides.len());
        Commands {
            sides,
            measure,
            before: None,
            terms,
            progress,
            begin: Instant::now(),
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
            Measure::Number(number) => (number.to_string(), ""),
            Measure::Metric(metric) => (metric.text().to_owned(), ""),
        };
        Described {
            subject: words.join(" "),
            sides: self.sides.iter().map(|side| side.name.as_str()).collect(),
            measure,
            unit,
            ledger: &self.ledger,
        }
    }

    /// One run of the first side that does not count, and begins the time of the trial. How long it took.
    ///
    /// # Errors
    /// When the command fails, or gives no value.
    pub fn warm_up(&mut self) -> Result<Duration> {
        let begin = Instant::now();
        let name = format!("{}, the warm-up", self.sides[0].name);
        self.measured(0, &name)?;
        self.ledger = Ledger::new(self.sides.len());
        self.begin = Instant::now();
        Ok(begin.elapsed())
    }

    fn measured(&mut self, side: usize, name: &str) -> Result<f64> {
        (self.progress)(self.ledger.records.len(), name);
        let in_run = |error| match error {
            Error::Failed(cause) => Error::Failed(format!("in a run with {name}: {cause}")),
            other => other,
        };
        if let Some(before) = &self.before {
            program::run(before, &self.terms, || ()).map_err(in_run)?;
        }
        let treatment = self.sides[side].begin.as_ref().map(|begin| begin());
        let treatment = treatment.transpose()?;
        let then = CpuTimes::now();
        let run = self.run_sampled(side);
        let passed = then.zip(CpuTimes::now()).map(|(then, now)| now.since(then));
        if let Some(treatment) = treatment {
            self.ledger.done[side].add(treatment.end());
        }
        let (ran, samples) = run.map_err(in_run)?;
        let value = match &self.measure {
            Measure::WallTime => Ok(ran.elapsed_s),
            Measure::Number(number) => number.find(&ran),
            Measure::Metric(metric) => metric.value(&samples, ran.elapsed_s),
        };
        let value = value.and_then(positive).map_err(in_run)?;
        self.ledger.records.push(RunRecord {
            side,
            elapsed_s: ran.elapsed_s,
            own_s: passed.map(|passed| passed.own_s),
            others_share: passed.map(|passed| passed.others_share),
        });
        Ok(value)
    }

    /// One run, during which the metric is sampled if there is one.
    fn run_sampled(&self, side: usize) -> Result<(program::Ran, Samples)> {
        let words = &self.sides[side].words;
        let Measure::Metric(metric) = &self.measure else {
            let ran = program::run(words, &self.terms, || ())?;
            return Ok((ran, Samples::default()));
        };
        std::thread::scope(|scope| {
            let (stop, stopped) = channel();
            let sampler = scope.spawn(move || metric.sample_until(&stopped));
            let mut samples = Samples::default();
            let ran = program::run(words, &self.terms, || {
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
