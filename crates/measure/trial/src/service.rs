//! Trials of a service that runs on: a run is a block of time, with one of the sides.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use egeria_child::{Cancel, check_cancel};
use egeria_files::{Error, Result};
use egeria_machine::Machine;
use egeria_proc::Scope;

use crate::activity::{Activity, Begun};
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
    /// `None`: what the host counts, see [`Usual`].
    pub metric: Option<Metric>,
    /// Says where the nodes are.
    pub machine: Option<Machine>,
    pub block: Duration,
    /// How long a side is in force before its block is measured.
    pub rest: Duration,
    pub cancel: Cancel<'a>,
    /// Called before each block with the number of blocks so far and the name of the side.
    pub progress: &'a dyn Fn(usize, &str),
    /// What is compared without a metric, once the first block has shown what there is.
    usual: Option<Usual>,
    begin: Instant,
    pub ledger: Ledger,
}

/// What is compared when no metric is named. More of it is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Usual {
    Bytes,
    Instructions,
}

impl Usual {
    fn name(self) -> &'static str {
        match self {
            Usual::Bytes => "bytes read and written per second",
            Usual::Instructions => "instructions per second",
        }
    }

    fn of(self, activity: &Activity) -> Option<f64> {
        match self {
            Usual::Bytes => activity.bytes_s,
            Usual::Instructions => activity.instructions_s,
        }
    }

    /// A service that moves data is measured by that. Of one that writes no more than messages, instructions say more,
    /// if the host counts them.
    fn choose(activity: &Activity) -> Option<Usual> {
        const MIN_BYTES_S: f64 = 1e6;
        let bytes_s = activity.bytes_s.unwrap_or(0.0);
        let counts = activity.instructions_s.is_some_and(|count| count > 0.0);
        match (bytes_s, counts) {
            (MIN_BYTES_S.., _) => Some(Usual::Bytes),
            (_, true) => Some(Usual::Instructions),
            (bytes_s, false) => (bytes_s > 0.0).then_some(Usual::Bytes),
        }
    }
}

impl<'a> Service<'a> {
    /// A service with these sides, whose trial begins now.
    pub fn new(
        (name, scope): (String, Scope),
        sides: Vec<(String, Option<Begin<'a>>)>,
        (block, rest): (Duration, Duration),
        progress: &'a dyn Fn(usize, &str),
    ) -> Service<'a> {
        let ledger = Ledger::new(sides.iter().map(|side| side.1.is_none()).collect());
        Service {
            name,
            scope,
            sides,
            metric: None,
            machine: None,
            usual: None,
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
        self.ledger = self.ledger.cleared();
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
                .map_or(self.usual.unwrap_or(Usual::Bytes).name(), Metric::text)
                .to_owned(),
            unit: "",
            warm_ups: 1,
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
    fn block(&mut self) -> Result<(f64, RunRecord)> {
        self.wait(self.rest)?;
        let begun = Begun::now(&self.scope).ok_or_else(|| self.gone())?;
        let not_counted = begun.not_counted().map(str::to_owned);
        let (then, begin) = (CpuTimes::now(), Instant::now());
        let samples = self.samples()?;
        let elapsed_s = begin.elapsed().as_secs_f64();
        let passed = then.zip(CpuTimes::now()).map(|(then, now)| now.since(then));
        let activity = begun.end(&self.scope, self.machine.as_ref());
        let activity = activity.ok_or_else(|| self.gone())?;
        let value = match &self.metric {
            Some(metric) => metric.value(&samples, elapsed_s)?,
            None => self.usual_value(&activity, not_counted.as_deref())?,
        };
        let record = RunRecord {
            side: 0,
            elapsed_s,
            own_s: passed.map(|passed| passed.own_s),
            command_s: activity.cpus.map(|cpus| cpus * elapsed_s),
            others_share: None,
            activity: Some(activity),
        };
        Ok((positive(value)?, record))
    }

    fn usual_value(&mut self, activity: &Activity, not_counted: Option<&str>) -> Result<f64> {
        self.usual = self.usual.or_else(|| Usual::choose(activity));
        let value = self.usual.and_then(|usual| usual.of(activity));
        value.filter(|value| *value > 0.0).ok_or_else(|| {
            let instructions = not_counted.map_or_else(String::new, |cause| {
                format!("; its instructions are not counted: {cause}")
            });
            Error::failed(format!(
                "{} neither reads nor writes, as far as the kernel counts for this user{instructions}; name what it does with --metric",
                self.name
            ))
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_compared_where_there_is_some_else_instructions() {
        let chosen = |bytes_s: f64, instructions_s: Option<f64>| {
            Usual::choose(&Activity {
                bytes_s: Some(bytes_s),
                instructions_s,
                ..Activity::default()
            })
        };
        assert_eq!(chosen(5e6, Some(1e9)), Some(Usual::Bytes));
        assert_eq!(chosen(5e3, Some(1e9)), Some(Usual::Instructions));
        assert_eq!(chosen(5e3, None), Some(Usual::Bytes));
        assert_eq!(chosen(0.0, Some(1e9)), Some(Usual::Instructions));
        assert_eq!(chosen(0.0, None), None);
    }
}
