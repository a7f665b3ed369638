//! `egeria trial` of real programs, next to a truth that does not depend on its answer.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use egeria_harness::process;
use egeria_harness::{Error, Result};
use egeria_stats::rng::mix_all;
use egeria_trial::answer::Answer;
use serde::Deserialize;

use super::programs::RealProgram;
use super::rows::{TrialRow, Truth, is_right};
use crate::experiment::Watch;
use crate::programs::host::require;

/// A trial that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(1800);
/// Statuses of `egeria trial` that are answers.
const ANSWERS: [i32; 4] = [0, 3, 4, 5];

/// How real programs are tried.
#[derive(Clone)]
pub struct RealOptions {
    /// The command `egeria`.
    pub egeria: PathBuf,
    /// Which of the programs.
    pub programs: Vec<RealProgram>,
    /// Pairs of a batch by which the truth is measured.
    pub truth_pairs: usize,
    /// Most batches.
    pub truth_batches: u16,
    /// Most pairs of each trial.
    pub pairs: u16,
    /// Most minutes of each trial.
    pub minutes: u64,
}

/// What of the document of `egeria trial` is needed.
#[derive(Deserialize)]
struct Tried {
    better: String,
    comparisons: Vec<Compared>,
    rounds: Vec<Vec<f64>>,
    overhead: Option<f64>,
}

#[derive(Deserialize)]
struct Compared {
    answer: Answer,
    low: Option<f64>,
    high: Option<f64>,
    pairs: usize,
}

/// Fails for programs that are not installed, all in one line.
///
/// # Errors
/// With the packages that have them.
pub(super) fn check(options: &RealOptions) -> Result<()> {
    let needs = options
        .programs
        .iter()
        .flat_map(|program| program.software.needs);
    let mut needs: Vec<(&str, &str)> = needs.copied().collect();
    needs.sort_unstable_by_key(|(program, package)| (*package, *program));
    needs.dedup();
    require(&needs)
}

/// Prepares a program, measures the truth where it is not known, and tries.
///
/// # Errors
/// When a program fails, or a signal ends it.
pub(super) fn row(
    program: &RealProgram,
    options: &RealOptions,
    seed: u64,
    watch: Watch<'_>,
) -> Result<TrialRow> {
    // On a device: pages of tmpfs are never dropped.
    let directory = tempfile::tempdir_in("/var/tmp")
        .map_err(|error| Error::io("cannot make a directory in /var/tmp", error, "make room"))?;
    let made = std::fs::create_dir(directory.path().join("data"));
    made.map_err(|error| Error::io("cannot make a directory in /var/tmp", error, "make room"))?;
    let mut prepare = shell(program.software.prepare, directory.path());
    process::run_well(&mut prepare, LIMIT, watch.cancel)?;
    let truth = if program.sides.are_same() {
        Truth::known(0.0)
    } else {
        truth(program, options, directory.path(), seed, watch)?
    };
    let begin = Instant::now();
    let (at_most, pairs) = (format!("{}m", options.minutes), options.pairs.to_string());
    let limits = ["--at-most", &at_most, "--pairs", &pairs];
    let tried = trial(program, options, directory.path(), (&limits, seed), watch)?;
    let [found] = &tried.comparisons[..] else {
        return Err(Error::failed("egeria trial printed no comparison"));
    };
    let gain = match tried.better.as_str() {
        "higher" => truth.change,
        _ => -truth.change,
    };
    Ok(TrialRow {
        program: program.name,
        kind: program.kind,
        truth,
        answer: found.answer,
        low: found.low,
        high: found.high,
        pairs: found.pairs,
        minutes: begin.elapsed().as_secs_f64() / 60.0,
        overhead: tried.overhead,
        emulated: program.sides.emulated(),
        right: is_right(gain, found.answer),
    })
}

/// Runs batches of pairs until the median of their ratios is known on which side of the bound it is, without the judgement
/// of a trial. All pairs of a batch run, whatever they show.
fn truth(
    program: &RealProgram,
    options: &RealOptions,
    directory: &Path,
    seed: u64,
    watch: Watch<'_>,
) -> Result<Truth> {
    let pairs = options.truth_pairs.to_string();
    let limits = ["--all-pairs", "--pairs", &pairs, "--at-most", "1h"];
    let mut ratios: Vec<f64> = Vec::new();
    for batch in 1..=options.truth_batches {
        let other_seed = mix_all(&[seed, u64::from(batch)]) % 1_000_000;
        let tried = trial(program, options, directory, (&limits, other_seed), watch)?;
        ratios.extend(tried.rounds.iter().filter_map(|values| match values[..] {
            [first, second] if first > 0.0 && second > 0.0 => Some((second / first).ln()),
            _ => None,
        }));
        if Truth::of(&ratios).is_some_and(|truth| truth.is_sharp()) {
            break;
        }
    }
    Truth::of(&ratios).ok_or_else(|| Error::failed("egeria trial printed no pairs"))
}

fn trial(
    program: &RealProgram,
    options: &RealOptions,
    directory: &Path,
    (limits, seed): (&[&str], u64),
    watch: Watch<'_>,
) -> Result<Tried> {
    let mut command = Command::new(&options.egeria);
    // Without a volume nothing replaces the braces.
    let script = match program.sides.emulated() {
        Some(_) => program.command.to_owned(),
        None => program.command.replace("{}", "data"),
    };
    command
        .args(["trial", "--json", "--seed", &seed.to_string()])
        .args(limits)
        .args(program.sides.options())
        .args(["--", "sh", "-c", &script])
        .current_dir(directory);
    let finished = process::run(&mut command, LIMIT, watch.cancel)?;
    if !finished
        .status
        .code()
        .is_some_and(|code| ANSWERS.contains(&code))
    {
        let said = process::last_words(&finished.stderr);
        return Err(Error::failed(format!(
            "{}: egeria trial failed{said}",
            program.name
        )));
    }
    serde_json::from_str(&finished.stdout).map_err(|error| {
        Error::failed(format!(
            "{}: egeria trial printed no document: {error}",
            program.name
        ))
    })
}

fn shell(script: &str, directory: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(directory);
    command
}
