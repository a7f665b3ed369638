//! How often `egeria trial` is right: simulated programs of a known truth, and real commands against themselves and
//! against the same with more or less to do. And real programs, whose truth is measured apart from the answer.

pub mod programs;
mod real;
mod rows;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use egeria_harness::{Error, Result};
use egeria_stats::aims::{Aim, list, share};
use egeria_stats::rng::mix_all;
use egeria_stats::statistics::median;
use egeria_trial::answer::{Answer, Better, Judge};
use egeria_trial::commands::{Commands, Measure, Side};
use egeria_trial::design::{BOUND, Design, ERROR};
use egeria_trial::program::Terms;
use egeria_trial::simulation::{Counts, Program, Shape, count};
use egeria_trial::trial::{Plan, run as run_trial};
use serde::Serialize;

use crate::experiment::{Watch, table};
use programs::Kind;
pub use real::RealOptions;
pub use rows::{TrialRow, Truth};
use rows::{is_of_kind, is_right};

/// Noise of simulated programs, as a share.
const NOISE: f64 = 0.03;
/// True differences of simulated programs.
const CHANGES: [f64; 3] = [0.0, -0.05, 0.05];
/// What real commands do more or less, as a share.
const REAL_CHANGE: f64 = 0.1;
/// A run of a real command takes longer on a host that does something else, but not so much.
const RUN_AT_MOST: Duration = Duration::from_secs(60);
const TRIAL_AT_MOST: Duration = Duration::from_secs(300);

/// How much is tried.
#[derive(Clone, Copy)]
pub struct TrialsOptions<'a> {
    /// Simulated trials of each shape and truth.
    pub simulated: usize,
    /// Real trials of each command and truth.
    pub real: usize,
    /// Most pairs of each trial.
    pub pairs: usize,
    pub seed: u64,
    /// Real programs, too.
    pub programs: Option<&'a RealOptions>,
    pub watch: Watch<'a>,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct TrialsReport {
    /// Of the shape of noise with the most.
    pub false_alarms_of_100: f64,
    /// Of a gain of 5 % at normal noise of 3 %.
    pub found_of_100: f64,
    /// Of the shape and truth with the fewest intervals that hold the truth; a coarse clock does not count.
    pub covered_of_100: f64,
    pub aims: Vec<Aim>,
    pub simulated: Vec<SimulatedRow>,
    /// Real trials.
    pub rows: Vec<TrialRow>,
    /// Programs that could not be tried.
    pub failed: Vec<FailedProgram>,
}

/// A program that could not be tried.
#[derive(Clone, Debug, Serialize)]
pub struct FailedProgram {
    pub program: &'static str,
    pub cause: String,
}

/// Simulated trials of one shape and truth.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedRow {
    pub shape: Shape,
    pub noise: f64,
    pub truth: f64,
    #[serde(flatten)]
    pub counts: Counts,
}

/// Real commands: their names, and scripts that do something `$1` times.
const COMMANDS: [(&str, &str, f64); 3] = [
    (
        "compute",
        "i=0; while [ $i -lt $1 ]; do i=$((i+1)); done",
        30_000.0,
    ),
    (
        "copy",
        "dd if=/dev/zero of=/dev/null bs=16k count=$1 2>/dev/null",
        20_000.0,
    ),
    (
        "processes",
        "i=0; while [ $i -lt $1 ]; do /bin/true; i=$((i+1)); done",
        40.0,
    ),
];

/// Simulates and runs.
///
/// # Errors
/// When a command fails, or a signal ends it.
pub fn run(options: &TrialsOptions<'_>) -> Result<TrialsReport> {
    let design = Design::new(options.pairs, ERROR);
    let kinds: Vec<(Shape, f64)> = (Shape::ALL.into_iter())
        .flat_map(|shape| CHANGES.map(|change| (shape, change)))
        .collect();
    let truths = [
        (Kind::None, 0.0),
        (Kind::Gain, -REAL_CHANGE),
        (Kind::Loss, REAL_CHANGE),
    ];
    options.programs.map(real::check).transpose()?;
    let programs = options.programs.map_or(0, |real| real.programs.len());
    let steps = kinds.len() + options.real * COMMANDS.len() * truths.len() + programs;
    let mut simulated = Vec::new();
    for (step, (shape, truth)) in kinds.into_iter().enumerate() {
        options.watch.step(step, steps, shape.name())?;
        let program = Program {
            shape,
            noise: NOISE,
            change: truth,
        };
        simulated.push(SimulatedRow {
            shape,
            noise: NOISE,
            truth,
            counts: count(program, &design, BOUND, options.simulated),
        });
    }
    let mut rows = Vec::new();
    for round in 0..options.real {
        for (command, truth) in COMMANDS
            .iter()
            .flat_map(|command| truths.map(|truth| (command, truth)))
        {
            options
                .watch
                .step(simulated.len() + rows.len(), steps, command.0)?;
            let seed = mix_all(&[options.seed, round as u64, rows.len() as u64]);
            rows.push(real(command, truth, &design, seed, options.watch)?);
        }
    }
    let mut failed = Vec::new();
    for (real, program) in options
        .programs
        .iter()
        .flat_map(|real| real.programs.iter().map(move |program| (real, program)))
    {
        let done = simulated.len() + rows.len() + failed.len();
        options.watch.step(done, steps, program.name)?;
        let seed = mix_all(&[options.seed, done as u64]) % 1_000_000;
        match real::row(program, real, seed, options.watch) {
            Ok(row) => rows.push(row),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => failed.push(FailedProgram {
                program: program.name,
                cause: error.to_string(),
            }),
        }
    }
    Ok(report(simulated, rows, failed))
}

fn real(
    (program, script, times): &(&'static str, &str, f64),
    (kind, truth): (Kind, f64),
    design: &Design,
    seed: u64,
    watch: Watch<'_>,
) -> Result<TrialRow> {
    let side = |name: &str, truth: f64| {
        let times = (times * (1.0 + truth)).round().to_string();
        Side {
            name: name.to_owned(),
            words: ["sh", "-c", script, "sh", &times]
                .map(OsString::from)
                .to_vec(),
            before: None,
            environment: Vec::new(),
            begin: None,
        }
    };
    let terms = Terms {
        at_most: RUN_AT_MOST,
        cancel: watch.cancel,
        prepare: &|_| (),
    };
    let sides = vec![side("first", 0.0), side("second", truth)];
    let mut commands = Commands::new(sides, Measure::WallTime, terms, &|_, _| ());
    let plan = Plan {
        sides: 2,
        judge: Judge {
            design: design.clone(),
            better: Better::Lower,
            bound: BOUND,
        },
        at_most: TRIAL_AT_MOST,
        seed,
    };
    let begin = Instant::now();
    commands.warm_up(&[0])?;
    let tried = run_trial(&plan, &mut commands)?;
    let found = tried.findings[0];
    Ok(TrialRow {
        program,
        kind,
        truth: Truth::known(truth),
        answer: found.answer,
        low: found.low,
        high: found.high,
        pairs: found.pairs,
        minutes: begin.elapsed().as_secs_f64() / 60.0,
        overhead: commands.ledger.overhead(),
        emulated: None,
        right: is_right(-truth, found.answer),
    })
}

fn report(
    simulated: Vec<SimulatedRow>,
    rows: Vec<TrialRow>,
    failed: Vec<FailedProgram>,
) -> TrialsReport {
    let of_all = |counts: &Counts, part: usize| share(part, counts.trials);
    let same = simulated.iter().filter(|row| row.truth == 0.0);
    let alarms = same.map(|row| of_all(&row.counts, row.counts.better + row.counts.worse));
    let alarms = alarms.fold(0.0, f64::max);
    let gains = simulated.iter();
    let mut gains = gains.filter(|row| row.shape == Shape::Normal && row.truth < 0.0);
    let found = gains
        .next()
        .map_or(0.0, |row| of_all(&row.counts, row.counts.better));
    let fine = simulated.iter().filter(|row| row.shape != Shape::Coarse);
    let covered = fine
        .map(|row| of_all(&row.counts, row.counts.covered))
        .fold(1.0, f64::min);
    TrialsReport {
        false_alarms_of_100: alarms * 100.0,
        found_of_100: found * 100.0,
        covered_of_100: covered * 100.0,
        aims: [
            Aim::at_most("nothing against nothing claimed a difference", 0.05, alarms),
            Aim::at_least("a gain of 5 % found at noise of 3 %", 0.9, found),
            Aim::at_least("intervals that hold the truth", 0.95, covered),
        ]
        .into_iter()
        .chain(aims_of(&rows))
        .collect(),
        simulated,
        rows,
        failed,
    }
}

/// Of real trials, if there were any.
fn aims_of(rows: &[TrialRow]) -> Vec<Aim> {
    let has_effect = |row: &&TrialRow| row.truth.change.abs() > BOUND;
    let claims = |row: &&TrialRow| matches!(row.answer, Answer::Better | Answer::Worse);
    let claimed: Vec<&TrialRow> = rows.iter().filter(claims).collect();
    let effects: Vec<&TrialRow> = rows.iter().filter(has_effect).collect();
    let right = |rows: &[&TrialRow]| rows.iter().filter(|row| row.right).count();
    let overheads: Vec<f64> = rows.iter().filter_map(|row| row.overhead).collect();
    let wrong = (!claimed.is_empty()).then(|| {
        let wrong = claimed.len() - right(&claimed);
        Aim::at_most(
            "claims about real programs that are wrong",
            0.05,
            share(wrong, claimed.len()),
        )
    });
    let found = (!effects.is_empty()).then(|| {
        let found = share(right(&effects), effects.len());
        Aim::at_least("gains and losses of real programs found", 0.9, found)
    });
    let overhead = median(&overheads)
        .map(|overhead| Aim::at_most("CPU time of measuring, of the program's", 0.01, overhead));
    [wrong, found, overhead].into_iter().flatten().collect()
}

impl TrialsReport {
    /// Tables and aims for people.
    pub fn table(&self) -> String {
        let simulated = table(
            &[
                ("noise", |row: &SimulatedRow| row.shape.name().to_owned()),
                (">truth", |row| signed(row.truth)),
                (">trials", |row| row.counts.trials.to_string()),
                (">better", |row| row.counts.better.to_string()),
                (">worse", |row| row.counts.worse.to_string()),
                (">no difference", |row| row.counts.no_difference.to_string()),
                (">not known", |row| row.counts.not_known.to_string()),
                (">covered", |row| row.counts.covered.to_string()),
                (">pairs", |row| format!("{:.0}", row.counts.pairs)),
            ],
            &self.simulated,
            "simulated, noise 3 %",
        );
        let rows = table(
            &[
                ("program", |row: &TrialRow| row.program.to_owned()),
                ("machine", |row| {
                    let emulated = |profile| format!("{profile}, emulated");
                    row.emulated.map_or("this".to_owned(), emulated)
                }),
                ("kind", |row| kind(row.kind).to_owned()),
                (">truth", |row| signed(row.truth.change)),
                ("by", |row| match row.truth.pairs {
                    Some(pairs) => format!("{pairs} pairs"),
                    None => "construction".to_owned(),
                }),
                ("answer", |row| words(row.answer).to_owned()),
                (">low", |row| row.low.map_or_else(String::new, signed)),
                (">high", |row| row.high.map_or_else(String::new, signed)),
                (">pairs", |row| row.pairs.to_string()),
                (">minutes", |row| format!("{:.1}", row.minutes)),
                (">measuring", |row| {
                    let percent = |share| format!("{:.2} %", share * 100.0);
                    row.overhead.map_or_else(String::new, percent)
                }),
                ("right", |row| {
                    if row.right { "yes" } else { "NO" }.to_owned()
                }),
            ],
            &self.rows,
            "real programs",
        );
        let of_kind = |row: &&TrialRow| is_of_kind(row.kind, &row.truth);
        let right = self.rows.iter().filter(|row| row.right).count();
        let kinds = self.rows.iter().filter(of_kind).count();
        let mut text = format!(
            "{simulated}\n\n{rows}\nreal: {right} of {} answers right; {kinds} programs are of the kind that they were chosen for\n",
            self.rows.len(),
        );
        for failed in &self.failed {
            text += &format!("{} was not tried: {}\n", failed.program, failed.cause);
        }
        text + &list(&self.aims)
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Gain => "gain",
        Kind::None => "none",
        Kind::Loss => "loss",
    }
}

fn signed(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

fn words(answer: Answer) -> &'static str {
    match answer {
        Answer::Better => "better",
        Answer::Worse => "worse",
        Answer::NoDifference => "no difference",
        Answer::NotKnown => "not known",
    }
}
