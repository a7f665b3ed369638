//! Trials of a command: a run is the command from start to end, with one of the sides.

use std::ffi::OsString;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use egeria_files::{Error, Result};
use serde::Serialize;

use crate::host::CpuTimes;
use crate::metric::{Metric, Samples};
use crate::number::Number;
use crate::program::{self, Terms};
use crate::trial::Subject;

/// What one of the sides does to the command.
pub struct Side<'a> {
    pub name: String,
    pub words: Vec<OsString>,
    /// Begins what accompanies each run; `None`: nothing does.
    pub begin: Option<Begin<'a>>,
}

/// Begins what accompanies one run.
pub type Begin<'a> = Box<dyn Fn() -> Result<Box<dyn Treatment>> + 'a>;

/// What accompanies a run. Dropping it undoes what it did, too.
pub trait Treatment {
    /// Ends it, undoes what it did, and says what that was.
    fn end(self: Box<Self>) -> Done;
}

/// What was done during runs of a side.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Done {
    /// Threads migrated, each time counted.
    pub threads_moved: u64,
    /// Processes migrated as a whole, each time counted.
    pub processes_moved: u64,
    /// Memory of processes that was migrated, bytes.
    pub memory_moved_bytes: u64,
    /// Other actions, with how often.
    pub others: Vec<(String, u64)>,
    /// Why no thread was migrated, of the last run.
    pub nothing_because: Option<String>,
    /// What cannot be seen or done here, each once.
    pub limits: Vec<String>,
}

impl Done {
    fn add(&mut self, more: Done) {
        self.threads_moved += more.threads_moved;
        self.processes_moved += more.processes_moved;
        self.memory_moved_bytes += more.memory_moved_bytes;
        for (name, count) in more.others {
            match self.others.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => self.others.push((name, count)),
            }
        }
        self.nothing_because = more.nothing_because;
        let new = more.limits.into_iter();
        let new: Vec<String> = new.filter(|line| !self.limits.contains(line)).collect();
        self.limits.extend(new);
    }

    /// What was done, in words.
    pub fn words(&self) -> String {
        let counts = [
            (self.threads_moved, "threads moved"),
            (self.processes_moved, "processes moved"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let mut words: Vec<String> = counts
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if self.memory_moved_bytes > 0 {
            let bytes = egeria_stats::text::bytes(self.memory_moved_bytes as f64);
            words.push(format!("{bytes} of memory moved"));
        }
        let others = self.others.iter();
        words.extend(others.map(|(name, count)| format!("{} ({count})", name.replace('_', " "))));
        match (words.is_empty(), &self.nothing_because) {
            (true, Some(because)) => format!("nothing: {because}"),
            (true, None) => "nothing".to_owned(),
            (false, _) => words.join(", "),
        }
    }
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

/// One counted run.
#[derive(Clone, Debug)]
pub struct RunRecord {
    pub side: usize,
    pub elapsed_s: f64,
    /// CPU time of this process and its threads, as of a steward, s.
    pub own_s: Option<f64>,
    /// Share of the machine's CPU time that others had.
    pub others_share: Option<f64>,
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
    /// Of all counted runs, in the order of time.
    pub records: Vec<RunRecord>,
    /// What each side did.
    pub done: Vec<Done>,
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
        let done = vec![Done::default(); sides.len()];
        Commands {
            sides,
            measure,
            before: None,
            terms,
            progress,
            begin: Instant::now(),
            records: Vec::new(),
            done,
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
        self.records.clear();
        self.done.fill(Done::default());
        self.begin = Instant::now();
        Ok(begin.elapsed())
    }

    fn measured(&mut self, side: usize, name: &str) -> Result<f64> {
        (self.progress)(self.records.len(), name);
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
            self.done[side].add(treatment.end());
        }
        let (ran, samples) = run.map_err(in_run)?;
        let value = match &self.measure {
            Measure::WallTime => Ok(ran.elapsed_s),
            Measure::Number(number) => number.find(&ran),
            Measure::Metric(metric) => metric.value(&samples, ran.elapsed_s),
        };
        let value = value.and_then(positive).map_err(in_run)?;
        self.records.push(RunRecord {
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
fn positive(value: f64) -> Result<f64> {
    if value > 0.0 && value.is_finite() {
        return Ok(value);
    }
    Err(Error::failed(format!(
        "the value is {value}, and a trial compares ratios; measure something that is above 0"
    )))
}
