//! What the guest printed: one run of a case under a system after the other, each with its samples.

use egeria_harness::{Error, Result};
use serde::Deserialize;

/// Most nodes that a flow may name.
const MAX_NODES: usize = 64;
/// The end of a run: what its last seconds show.
const END_S: f64 = 3.0;

/// What a run was.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Head {
    pub fault: String,
    pub kind: Kind,
    /// Nodes with CPUs; one more has memory only.
    pub nodes: usize,
    /// CPUs of each.
    pub cpus: usize,
    pub system: String,
    /// Local share that the case allows; `None` where it is no question.
    pub best_possible: Option<f64>,
    /// Whether the share was at first what the case says.
    #[serde(default = "yes")]
    pub begun: bool,
    #[serde(default)]
    pub what: String,
    /// What Egeria said of it.
    #[serde(default)]
    pub why: String,
}

/// Whether something is wrong with the program's placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Fault,
    Control,
}

/// One look at the programs. Counts never fall; flows are of the time since the last look.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Sample {
    /// Since the system began, s; negative before.
    #[serde(rename = "t")]
    pub time_s: f64,
    /// Pages that the kernel has moved between nodes.
    pub migrated: u64,
    /// Changes of what CPUs a thread may use.
    pub masks: u64,
    /// Threads found on another node than at the last look.
    pub wandered: u64,
    /// CPUs that the programs keep busy.
    pub busy: f64,
    /// Node of the CPU, node of the memory, how much.
    pub flows: Vec<(usize, usize, f64)>,
}

impl Sample {
    /// How much of the accesses is local; `None` without any.
    pub fn share(&self) -> Option<f64> {
        share(self.flows.iter())
    }
}

/// How much of these is local.
pub fn share<'a>(flows: impl Iterator<Item = &'a (usize, usize, f64)>) -> Option<f64> {
    let (mut near, mut all) = (0.0, 0.0);
    for (from, to, amount) in flows {
        all += amount;
        near += if from == to { *amount } else { 0.0 };
    }
    (all > 0.0).then(|| near / all)
}

/// A run.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    pub head: Head,
    pub samples: Vec<Sample>,
}

impl Run {
    /// The samples of the last seconds.
    pub fn end(&self) -> &[Sample] {
        let last = self.samples.last().map_or(0.0, |sample| sample.time_s);
        let is_last = |sample: &Sample| sample.time_s > last - END_S;
        let begin = self.samples.iter().position(is_last);
        &self.samples[begin.unwrap_or(0)..]
    }
}

/// A line of the guest.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Run(Head),
    Sample(Sample),
    /// How many samples there were.
    End(usize),
}

fn yes() -> bool {
    true
}

/// The runs in a guest's console. Of two of the same case and system the later counts.
///
/// # Errors
/// When there is no whole run, or a line of one cannot be read.
pub fn parse(console: &str) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    let mut current: Option<Run> = None;
    for (number, text) in console.lines().enumerate() {
        let Some(text) = text.find("@{").map(|at| &text[at + 1..]) else {
            continue;
        };
        let line: Line = serde_json::from_str(text.trim_end()).map_err(|error| {
            let line = number + 1;
            Error::failed(format!("line {line} of the guest's console: {error}"))
        })?;
        match line {
            Line::Run(head) => {
                let samples = Vec::new();
                current = Some(Run { head, samples });
            }
            Line::Sample(sample) => {
                let run = current.as_mut().filter(|_| is_sound(&sample));
                let problem = || Error::failed(format!("line {}: no sample of a run", number + 1));
                run.ok_or_else(problem)?.samples.push(sample);
            }
            Line::End(count) => {
                if let Some(run) = current.take().filter(|run| run.samples.len() == count) {
                    runs.retain(|other| !is_same(other, &run));
                    runs.push(run);
                }
            }
        }
    }
    if runs.is_empty() {
        return Err(Error::failed("the guest's console has no whole run"));
    }
    Ok(runs)
}

fn is_same(one: &Run, other: &Run) -> bool {
    one.head.fault == other.head.fault && one.head.system == other.head.system
}

fn is_sound(sample: &Sample) -> bool {
    let numbers = [sample.time_s, sample.busy];
    let of_flows = |(from, to, amount): &(usize, usize, f64)| {
        *from < MAX_NODES && *to < MAX_NODES && amount.is_finite() && *amount >= 0.0
    };
    numbers.iter().all(|number| number.is_finite()) && sample.flows.iter().all(of_flows)
}
