//! A metric that is sampled while something runs: what a program prints, or a series on a page of metrics.

use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use egeria_child::Group;
use egeria_files::{Error, Result};
use egeria_stats::statistics::median;

use crate::kind::Kind;
use crate::page_of_metrics::Series;

/// How often it is sampled.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long a program may take for one sample.
const PROGRAM_PATIENCE: Duration = Duration::from_secs(5);
/// A metric that gave nothing for the last part of a run has stopped.
const MAX_SILENCE: f64 = 0.3;
/// Shorter than that, a silence is the end of the program that served it.
const MIN_SILENCE_S: f64 = 2.0;

/// Where a metric comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    /// A command of a shell that prints a number.
    Program(String),
    Page(Series),
}

/// A metric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    source: Source,
    /// As the user says.
    kind: Option<Kind>,
    /// As the user wrote it.
    text: String,
}

/// When it was sampled, s since the begin, and the value.
type Sample = (f64, f64);

/// The samples of one run.
#[derive(Debug, Default)]
pub struct Samples {
    samples: Vec<Sample>,
    kind: Option<Kind>,
    /// The last that failed.
    failure: Option<String>,
}

impl Metric {
    /// Reads a URL (`http://…#NAME`) or a command.
    ///
    /// # Errors
    /// One line that says what is wrong.
    pub fn parse(text: &str, kind: Option<Kind>) -> Result<Metric, String> {
        let source = if text.contains("://") && !text.contains(char::is_whitespace) {
            Source::Page(Series::parse(text)?)
        } else {
            Source::Program(text.to_owned())
        };
        let text = text.to_owned();
        Ok(Metric { source, kind, text })
    }

    /// As the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Samples until `stop` is closed, and once more then.
    pub fn sample_until(&self, stop: &Receiver<()>) -> Samples {
        let begin = Instant::now();
        let mut samples = Samples::default();
        loop {
            let goes_on = stop.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout);
            // Without a first look here: what serves the metric may be starting.
            match self.take() {
                Ok((value, kind)) => {
                    samples.samples.push((begin.elapsed().as_secs_f64(), value));
                    samples.kind = samples.kind.or(kind);
                }
                Err(failure) => samples.failure = Some(failure),
            }
            if !goes_on {
                return samples;
            }
        }
    }

    fn take(&self) -> Result<(f64, Option<Kind>), String> {
        match &self.source {
            Source::Page(series) => series.fetch(),
            Source::Program(command) => Ok((printed(command)?, None)),
        }
    }

    /// The value of samples that were taken during this number of seconds.
    ///
    /// # Errors
    /// When there are too few, it stopped, or a counter went backwards.
    pub fn value(&self, samples: &Samples, during_s: f64) -> Result<f64> {
        let kind = self.kind.or(samples.kind).unwrap_or(Kind::Gauge);
        let value = value(&samples.samples, kind, during_s);
        value.map_err(|cause| {
            let failure = samples.failure.as_deref().unwrap_or_default();
            let because = if failure.is_empty() { "" } else { ": " };
            Error::failed(format!("metric {}: {cause}{because}{failure}", self.text))
        })
    }
}

fn value(samples: &[Sample], kind: Kind, during_s: f64) -> Result<f64, String> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Err("it gave no value during the run".to_owned());
    };
    let silent_s = during_s - last.0;
    if silent_s > MIN_SILENCE_S && silent_s > MAX_SILENCE * during_s {
        return Err(format!("it stopped {silent_s:.0} s before the end"));
    }
    let values: Vec<f64> = samples.iter().map(|sample| sample.1).collect();
    if kind == Kind::Gauge {
        return median(&values).ok_or_else(|| "its values are no numbers".to_owned());
    }
    if let Some(back) = values.windows(2).find(|pair| pair[1] < pair[0]) {
        return Err(format!(
            "it went backwards, from {} to {}: what it counts started again, or it is a gauge (--metric-kind gauge)",
            back[0], back[1]
        ));
    }
    if samples.len() < 2 || last.0 <= first.0 {
        return Err("the run is too short to see a counter grow; choose a longer one".to_owned());
    }
    Ok((last.1 - first.1) / (last.0 - first.0))
}

/// The number that a command of a shell prints.
fn printed(script: &str) -> Result<f64, String> {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null());
    let mut file = tempfile::tempfile().map_err(|error| error.to_string())?;
    let stdout = file.try_clone().map_err(|error| error.to_string())?;
    command.stdout(stdout).stderr(Stdio::null());
    let mut group = Group::start(&mut command).map_err(|error| error.to_string())?;
    let status = group
        .wait(PROGRAM_PATIENCE, None)
        .map_err(|error| error.to_string())?;
    match status {
        None => {
            return Err(format!(
                "it took more than {} s",
                PROGRAM_PATIENCE.as_secs()
            ));
        }
        Some(status) if !status.success() => return Err(format!("it failed ({status})")),
        Some(_) => {}
    }
    number_in(&mut file)
}

fn number_in(file: &mut std::fs::File) -> Result<f64, String> {
    use std::io::{Read, Seek};
    const LONGEST: u64 = 1000;
    let mut text = String::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(LONGEST).read_to_string(&mut text));
    read.map_err(|_| "it prints no text".to_owned())?;
    let value = text
        .trim()
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite());
    value.ok_or_else(|| {
        let line: String = text.chars().take(40).collect();
        format!("it printed {line:?}, which is not one number")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_per_second_and_gauges_have_a_median() {
        let samples = [(1.0, 100.0), (2.0, 150.0), (3.0, 500.0)];
        assert_eq!(value(&samples, Kind::Counter, 3.1), Ok(200.0));
        assert_eq!(value(&samples, Kind::Gauge, 3.1), Ok(150.0));
    }

    #[test]
    fn what_gives_no_value_is_said() {
        let refused = |samples: &[Sample], kind, during_s, words: &str| {
            let line = value(samples, kind, during_s).unwrap_err();
            assert!(line.contains(words), "{line}");
        };
        refused(&[], Kind::Gauge, 9.0, "no value");
        refused(
            &[(0.5, 1.0), (1.0, 2.0)],
            Kind::Gauge,
            9.0,
            "stopped 8 s before",
        );
        refused(
            &[(0.5, 9.0), (1.0, 2.0)],
            Kind::Counter,
            1.0,
            "backwards, from 9 to 2",
        );
        refused(&[(0.5, 9.0)], Kind::Counter, 1.0, "too short");
    }

    #[test]
    fn programs_print_one_number_in_time() {
        assert_eq!(printed("echo ' 4.5 '"), Ok(4.5));
        for (script, words) in [
            ("echo a lot", "\"a lot\\n\""),
            ("true", "not one number"),
            ("echo 1 2", "not one number"),
            ("exit 3", "failed"),
        ] {
            let line = printed(script).unwrap_err();
            assert!(line.contains(words), "{line}");
        }
    }
}
