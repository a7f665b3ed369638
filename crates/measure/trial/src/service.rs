//! Trials of a service that runs on: a run is a block of time, with one of the sides.

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use egeria_child::{Cancel, check_cancel};
use egeria_facts::ProcessKey;
use egeria_files::{Error, Result};
use egeria_proc::{Scope, living, task};
use procfs::process::Process;

use crate::commands::positive;
use crate::host::CpuTimes;
use crate::metric::{Metric, Samples};
use crate::report::Described;
use crate::side::{Begin, Ledger, RunRecord};
use crate::trial::Subject;

/// How often a wait looks whether it should stop.
const LOOK: Duration = Duration::from_millis(100);

/// How a service is measured.
pub struct Service<'a> {
    /// In words.
    pub name: String,
    /// Its processes.
    pub scope: Scope,
    /// Names of the sides, and what accompanies a block of each.
    pub sides: Vec<(String, Option<Begin<'a>>)>,
    /// `None`: the bytes that its processes read and write, per second.
    pub metric: Option<Metric>,
    pub block: Duration,
    /// How long a side is in force before its block is measured.
    pub rest: Duration,
    pub cancel: Cancel<'a>,
    /// Called before each block with the number of blocks so far and the name of the side.
    pub progress: &'a dyn Fn(usize, &str),
    begin: Instant,
    pub ledger: Ledger,
}

impl<'a> Service<'a> {
    /// A service with these sides, whose trial begins now.
    pub fn new(
        (name, scope): (String, Scope),
        sides: Vec<(String, Option<Begin<'a>>)>,
        (block, rest): (Duration, Duration),
        progress: &'a dyn Fn(usize, &str),
    ) -> Service<'a> {
        let ledger = Ledger::new(sides.len());
        Service {
            name,
            scope,
            sides,
            metric: None,
            block,
            rest,
            cancel: None,
            progress,
            begin: Instant::now(),
            ledger,
        }
    }

    /// One block of the first side that does not count, and begins the time of the trial.
    ///
    /// # Errors
    /// When it gives no value.
    pub fn warm_up(&mut self) -> Result<()> {
        let name = format!("{}, the warm-up", self.sides[0].0);
        self.measured(0, &name)?;
        self.ledger = Ledger::new(self.sides.len());
        self.begin = Instant::now();
        Ok(())
    }

    /// For the report.
    pub fn described(&self) -> Described<'_> {
        let metric = self.metric.as_ref();
        Described {
            subject: self.name.clone(),
            sides: self.sides.iter().map(|(name, _)| name.as_str()).collect(),
            measure: metric
                .map_or("bytes read and written per second", Metric::text)
                .to_owned(),
            unit: "",
            ledger: &self.ledger,
        }
    }

    fn measured(&mut self, side: usize, name: &str) -> Result<f64> {
        (self.progress)(self.ledger.records.len(), name);
        let treatment = self.sides[side].1.as_ref().map(|begin| begin());
        let treatment = treatment.transpose()?;
        let block = self.block();
        if let Some(treatment) = treatment {
            self.ledger.done[side].add(treatment.end());
        }
        let in_block = |error| match error {
            Error::Failed(cause) => Error::Failed(format!("in a block with {name}: {cause}")),
            other => other,
        };
        let (value, record) = block.map_err(in_block)?;
        self.ledger.records.push(RunRecord { side, ..record });
        Ok(value)
    }

    /// Waits for the side to settle, and measures.
    fn block(&self) -> Result<(f64, RunRecord)> {
        self.wait(self.rest)?;
        let before = Counted::of(&self.scope);
        if before.0.is_empty() {
            return Err(self.gone());
        }
        let (then, begin) = (CpuTimes::now(), Instant::now());
        let samples = self.samples()?;
        let elapsed_s = begin.elapsed().as_secs_f64();
        let passed = then.zip(CpuTimes::now()).map(|(then, now)| now.since(then));
        let after = Counted::of(&self.scope);
        if !before.0.keys().any(|key| after.0.contains_key(key)) {
            return Err(self.gone());
        }
        let value = match &self.metric {
            Some(metric) => metric.value(&samples, elapsed_s)?,
            None => self.bytes_s(&before, &after, elapsed_s)?,
        };
        let record = RunRecord {
            side: 0,
            elapsed_s,
            own_s: passed.map(|passed| passed.own_s),
            others_share: None,
        };
        Ok((positive(value)?, record))
    }

    /// Lets the block pass, and samples the metric during that, if there is one.
    fn samples(&self) -> Result<Samples> {
        let Some(metric) = &self.metric else {
            self.wait(self.block)?;
            return Ok(Samples::default());
        };
        std::thread::scope(|scope| {
            let (stop, stopped) = channel();
            let sampler = scope.spawn(move || metric.sample_until(&stopped));
            let waited = self.wait(self.block);
            drop(stop);
            let samples = sampler.join().unwrap_or_default();
            waited.map(|()| samples)
        })
    }

    fn bytes_s(&self, before: &Counted, after: &Counted, elapsed_s: f64) -> Result<f64> {
        match after.since(before) {
            0 => Err(Error::failed(format!(
                "{} neither reads nor writes, as far as the kernel counts for this user; name what it does with --metric",
                self.name
            ))),
            bytes => Ok(bytes as f64 / elapsed_s),
        }
    }

    fn gone(&self) -> Error {
        Error::failed(format!(
            "{} ended or was started again; repeat the trial when it runs on",
            self.name
        ))
    }

    fn wait(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            check_cancel(self.cancel)?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

impl Subject for Service<'_> {
    type Error = Error;

    fn run(&mut self, side: usize) -> Result<f64> {
        let name = self.sides[side].0.clone();
        self.measured(side, &name)
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// Bytes that processes have read and written so far; 0 where the kernel does not say.
struct Counted(HashMap<ProcessKey, u64>);

impl Counted {
    fn of(scope: &Scope) -> Counted {
        let mut processes = task::processes();
        processes.retain(|process| scope.holds(*process));
        // A process that has ended keeps its number until its parent asks.
        processes.retain(|process| living::has_thread(*process));
        let keys = processes.into_iter().filter_map(task::process);
        let bytes = |key: ProcessKey| {
            let process = i32::try_from(key.process_id).ok();
            let counts = process.and_then(|number| Process::new(number).ok()?.io().ok());
            (key, counts.map_or(0, |counts| counts.rchar + counts.wchar))
        };
        Counted(keys.map(bytes).collect())
    }

    /// What those of now did since then; processes that ended between are not known.
    fn since(&self, then: &Counted) -> u64 {
        let each = self.0.iter();
        each.map(|(key, bytes)| bytes.saturating_sub(then.0.get(key).copied().unwrap_or(0)))
            .sum()
    }
}
