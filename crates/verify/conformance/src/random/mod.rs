//! Random programs, run in a directory and beside it on a file system that is known to be right.
//!
//! Two threads or two processes take turns ([`lockstep`]), so that every answer is determined: what a call
//! returned, which errno, which data. Or they compete ([`contest`]), each for what is its own.

pub mod actor;
pub mod board;
mod compare;
pub mod contest;
mod limits;
pub mod lockstep;
mod make;
mod names;
pub mod outcome;
pub mod program;
mod shrink;
mod touch;

use self::actor::Mistake;
use self::board::Board;
use self::compare::Stages;
use self::contest::Contest;
use self::lockstep::{Stage, Trace};
use self::outcome::{NOTHING_THERE, Outcome};
use self::program::Program;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fmt, fs, io};

/// After so many differences nobody reads on.
const MAX_DIFFERENCES: usize = 3;

pub struct Options {
    /// The number of the first program; the next has the next.
    pub seed: u64,
    /// How many, if not for a time.
    pub programs: Option<u64>,
    /// For how long, if not a number of them.
    pub time: Option<Duration>,
    /// How long a program may take; most take milliseconds.
    pub limit: Duration,
    /// How long to look for a shorter program that differs as well.
    pub shrinking: Duration,
    /// Only those that take turns, or only those that compete.
    pub kind: Option<Kind>,
    /// What goes wrong on purpose in the directory.
    pub mistake: Option<Mistake>,
}

/// The two kinds of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Two actors take turns, and every answer is compared.
    Turns,
    /// They compete, each for what is its own.
    Contests,
}

impl Kind {
    /// What this number stands for.
    fn of(seed: u64) -> Kind {
        match seed % 10 {
            9 => Kind::Contests,
            _ => Kind::Turns,
        }
    }
}

/// A program that went otherwise.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Its number: `--seed` with it and `--programs 1` runs it again.
    pub seed: u64,
    /// `Threads`, `Processes…`, or that it was a contest.
    pub actors: String,
    /// How many steps it had at first.
    pub steps_at_first: usize,
    /// What is left of it, with what each step answered where it was right.
    pub steps: Vec<String>,
    pub difference: String,
}

/// How it went.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The number of the first program.
    pub seed: u64,
    /// How many were run.
    pub programs: u64,
    /// Their steps, contests not counted.
    pub steps: u64,
    /// How many of these had no descriptor or mapping to use.
    pub idle_steps: u64,
    /// How long it took.
    pub seconds: f64,
    /// What went otherwise; the search ends after three.
    pub differences: Vec<Difference>,
    /// What could not be removed afterwards, and why; nothing when all is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "differs {}, {}", self.seed, self.actors)?;
        for step in &self.steps {
            writeln!(formatter, "    {step}")?;
        }
        write!(formatter, "  {}", self.difference)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} programs from seed {}, {} steps, {:.1} s: {} differ",
            self.programs,
            self.seed,
            self.steps,
            self.seconds,
            self.differences.len()
        )
    }
}

/// Run random programs in a directory and in one that is right, telling of each difference; what they made is
/// removed. It ends early when `goes_on` says so.
pub fn search(
    directory: &Path,
    right: &Path,
    options: &Options,
    mut tell: impl FnMut(&Difference),
    goes_on: impl Fn() -> bool,
) -> io::Result<Report> {
    let begin = Instant::now();
    let board = Board::new();
    let (place, right_place) = (
        make_place(directory, "tested")?,
        make_place(right, "right")?,
    );
    let stage = |place, decides, mistake| Stage {
        place,
        board: &board,
        decides,
        limit: options.limit,
        mistake,
    };
    let stages = Stages {
        tested: stage(&place, false, options.mistake),
        right: stage(&right_place, true, None),
    };
    let mut report = Report {
        seed: options.seed,
        programs: 0,
        steps: 0,
        idle_steps: 0,
        seconds: 0.0,
        differences: Vec::new(),
        left: None,
    };
    let is_over = |report: &Report| {
        options.programs.is_some_and(|most| report.programs >= most)
            || options.time.is_some_and(|time| begin.elapsed() >= time)
            || report.differences.len() >= MAX_DIFFERENCES
            || !goes_on()
    };
    for seed in (0..).map(|count| options.seed.wrapping_add(count)) {
        if is_over(&report) {
            break;
        }
        if options.kind.is_some_and(|kind| kind != Kind::of(seed)) {
            continue;
        }
        report.programs += 1;
        if let Some(difference) = one(&stages, seed, options, &mut report) {
            tell(&difference);
            report.differences.push(difference);
        }
    }
    report.seconds = begin.elapsed().as_secs_f64();
    report.left = [place, right_place]
        .iter()
        .find_map(|place| crate::run::clear(place));
    Ok(report)
}

fn make_place(directory: &Path, name: &str) -> io::Result<PathBuf> {
    let name = format!("random-{name}-{}", std::process::id());
    let place = fs::canonicalize(directory)?.join(name);
    fs::create_dir(&place)?;
    Ok(place)
}

/// Run what this number stands for.
fn one(stages: &Stages, seed: u64, options: &Options, report: &mut Report) -> Option<Difference> {
    if Kind::of(seed) == Kind::Contests {
        return compete(stages, seed);
    }
    let program = make::from_seed(seed);
    let steps_at_first = program.steps.len();
    let pair = stages.compare(&program);
    let is_idle = |outcome: &&Outcome| outcome.error == NOTHING_THERE;
    report.steps += steps_at_first as u64;
    report.idle_steps += pair.right.outcomes.iter().filter(is_idle).count() as u64;
    if !pair.differs() {
        return None;
    }
    let until = Instant::now() + options.shrinking;
    let (least, pair) = shrink::shrink(stages, program, pair, until);
    Some(Difference {
        seed,
        actors: format!("{:?}", least.actors),
        steps_at_first,
        steps: shown(&least, &pair.right),
        difference: pair.words(&least),
    })
}

fn shown(program: &Program, right: &Trace) -> Vec<String> {
    let line = |(at, step): (usize, &program::Step)| {
        let (actor, action) = (step.actor, step.action);
        let answer = right
            .outcomes
            .get(at)
            .map_or_else(String::new, Outcome::to_string);
        format!("{at}: actor {actor} {action:?} = {answer}")
    };
    program.steps.iter().enumerate().map(line).collect()
}

fn compete(stages: &Stages, seed: u64) -> Option<Difference> {
    let contest = Contest::from_seed(seed);
    let play = |stage: &Stage| {
        stage.board.clear();
        stage.apart(|| contest.play(stage.board, stage.mistake))
    };
    let tested = play(&stages.tested);
    let right = play(&stages.right).map(|words| format!("where it is right: {words}"));
    Some(Difference {
        seed,
        actors: format!("{contest:?}"),
        steps_at_first: 0,
        steps: Vec::new(),
        difference: right.or(tested)?,
    })
}
