//! The runs of a trial: what is tried is set up, and the loop of the trial runs it.

use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;
use egeria_trial::answer::{Better, Judge};
use egeria_trial::commands::{Commands, Measure, Side};
use egeria_trial::design::{Design, ERROR, fewest};
use egeria_trial::program::Terms;
use egeria_trial::report::{Report, duration_s};
use egeria_trial::service::Service;
use egeria_trial::trial::{self, Plan};

use super::arguments::Arguments;
use super::copy::{self, Copy};
use super::service::Named;
use super::sides::{self, Sides, Wish};
use crate::commands::volumes::run::caller;

/// Tries a command.
pub(super) fn of_command(
    arguments: &Arguments,
    wishes: &[Wish],
    measure: Measure,
    sides: &Sides<'_>,
    signals: &Signals,
) -> Result<Report, egeria_files::Error> {
    let prepare = |command: &mut Command| caller::pass_on(command, true);
    let terms = Terms {
        at_most: arguments.run_at_most.unwrap_or(arguments.at_most),
        cancel: Some(signals.stop_flag()),
        prepare: &prepare,
    };
    let bar = Bar::new(arguments, wishes);
    let progress = |runs: usize, side: &str| bar.step(runs, side);
    let side = |wish: &Wish| side(arguments, *wish, sides);
    let each = wishes.iter().map(side).collect();
    let measure = match measure {
        // Times here and times of an emulated machine cannot be compared.
        Measure::WallTime if is_emulated(sides) && wishes.iter().all(|wish| wish.volume) => {
            Measure::MachineTime
        }
        other => other,
    };
    let mut commands = Commands::new(each, measure, terms, &progress);
    // The first run with a copy shows whether it is used.
    let with_copy = wishes.iter().position(|wish| wish.volume);
    let mut first = vec![0];
    first.extend(with_copy.filter(|side| *side > 0));
    let begin = Instant::now();
    let warm_up = commands.warm_up(&first)?;
    let used = sides.copy.as_ref().map(Copy::check_used);
    used.transpose().map_err(sides::cause)?;
    let before = begin.elapsed();
    let plan = plan(arguments, wishes.len(), (before, warm_up))?;
    let tried = trial::run(&plan, &mut commands)?;
    let elapsed = before + trial::Subject::elapsed(&commands);
    Ok(Report::new(&plan, &tried, commands.described(), elapsed))
}

fn is_emulated(sides: &Sides<'_>) -> bool {
    let copy = sides.copy.as_ref();
    copy.is_some_and(|copy| copy.volume().emulation().is_configured())
}

/// The command as a side runs it.
fn side<'a>(arguments: &'a Arguments, wish: Wish, sides: &'a Sides<'_>) -> Side<'a> {
    let copy = sides.copy.as_ref();
    let original = copy.map(|copy| copy.original.clone());
    let (directory, environment) = match copy.filter(|_| wish.volume) {
        Some(copy) => (Some(copy.directory()), copy.environment()),
        None => {
            let variable = original
                .iter()
                .map(|path| (copy::DIRECTORY.into(), path.into()));
            (original.clone(), variable.collect())
        }
    };
    let put = |words: Vec<OsString>| match &directory {
        Some(directory) => copy::with_directory(&words, directory),
        None => words,
    };
    let shell = |script: &String| put(["sh".into(), "-c".into(), script.into()].into());
    Side {
        name: wish.name(),
        words: put(arguments.command.clone()),
        before: arguments.before.as_ref().map(shell),
        environment,
        begin: sides.begin(wish),
    }
}

/// Tries a service.
pub(super) fn of_service(
    arguments: &Arguments,
    wishes: &[Wish],
    measure: Measure,
    (named, sides): (&Named, &Sides<'_>),
    signals: &Signals,
) -> Result<Report, egeria_files::Error> {
    let bar = Bar::new(arguments, wishes);
    let progress = |runs: usize, side: &str| bar.step(runs, side);
    let side = |wish: &Wish| (wish.name(), sides.begin(*wish));
    let each = wishes.iter().map(side).collect();
    let lengths = (arguments.service.block, arguments.service.rest);
    let subject = (named.words.clone(), named.scope.clone());
    let mut service = Service::new(subject, each, lengths, &progress);
    service.cancel = Some(signals.stop_flag());
    service.machine = Some(sides.machine.clone());
    service.metric = match measure {
        Measure::Metric(metric) => Some(metric),
        _ => None,
    };
    let block = lengths.0 + lengths.1;
    let mut plan = plan(arguments, wishes.len(), (block, block))?;
    if service.metric.is_none() {
        plan.judge.better = Better::Higher;
    }
    service.warm_up()?;
    let tried = trial::run(&plan, &mut service)?;
    let elapsed = block + trial::Subject::elapsed(&service);
    Ok(Report::new(&plan, &tried, service.described(), elapsed))
}

/// Progress of a trial: it may end long before.
struct Bar {
    bar: Progress,
    most: u64,
}

impl Bar {
    fn new(arguments: &Arguments, wishes: &[Wish]) -> Bar {
        Bar {
            bar: Progress::bar("warm-up"),
            most: u64::from(arguments.pairs) * wishes.len() as u64,
        }
    }

    fn step(&self, runs: usize, side: &str) {
        self.bar.step(runs as u64, self.most, side);
    }
}

/// The plan of a trial, after what was not counted, with runs of about this length. Refuses a trial that cannot have as
/// many pairs as an answer needs.
fn plan(
    arguments: &Arguments,
    sides: usize,
    (before, run): (Duration, Duration),
) -> Result<Plan, egeria_files::Error> {
    let error = ERROR / (sides - 1) as f64;
    let left = arguments.at_most.saturating_sub(before);
    let least = run * (fewest(error) * sides) as u32;
    if least > left {
        let [run, least] = [run, least].map(|time| duration_s(time.as_secs_f64()));
        return Err(egeria_files::Error::failed(format!(
            "a run takes {run}, and the fewest that can give an answer take {least}; raise --at-most, or shorten the runs"
        )));
    }
    let pairs = usize::from(arguments.pairs);
    Ok(Plan {
        sides,
        judge: Judge {
            design: if arguments.all_pairs {
                Design::of_all_pairs(pairs, error)
            } else {
                Design::new(pairs, error)
            },
            better: if arguments.higher_is_better {
                Better::Higher
            } else {
                Better::Lower
            },
            bound: arguments.bound / 100.0,
        },
        at_most: left,
        seed: arguments.seed.unwrap_or_else(any_seed),
    })
}

/// Some number that can be typed.
fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = now.map_or(0, |now| now.subsec_nanos());
    egeria_stats::rng::mix_all(&[u64::from(now_ns), u64::from(std::process::id())]) % 1_000_000
}
