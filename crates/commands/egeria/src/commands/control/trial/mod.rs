//! `egeria trial`: a command or a service measured with and without a steward, and what that says.

mod keep;
mod service;
mod sides;
mod text;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use egeria_cli::durations;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_steward::Scope;
use egeria_trial::answer::{Answer, Better, Judge};
use egeria_trial::commands::{Commands, Measure, Side};
use egeria_trial::design::{Design, ERROR, fewest};
use egeria_trial::kind::Kind;
use egeria_trial::metric::Metric;
use egeria_trial::number::Number;
use egeria_trial::program::Terms;
use egeria_trial::report::{Report, duration_s};
use egeria_trial::service::Service;
use egeria_trial::signed_rank::MAX_PAIRS;
use egeria_trial::trial::{self, Plan};

use crate::commands::volumes::run::caller;
use crate::machine_choice::MachineArguments;
use crate::policy_choice::{self, StewardArguments};
use service::{Named, ServiceArguments};
use sides::Stewards;

/// With fewer pairs no difference of two policies can be proven.
const MIN_PAIRS: u16 = 8;

/// Arguments of `egeria trial`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria trial -- ./batch-job
  egeria trial --policy asymsched --at-most 1h -- ./batch-job --all
  egeria trial --measure 'tps = ([0-9.]+)' --higher-is-better -- pgbench -T 60
  egeria trial --compare off,rl,all --report trial.html -- ./batch-job
  egeria trial --before './reset-data' -- ./batch-job
  egeria trial --compare off,off -- ./batch-job
  sudo egeria trial --unit postgresql --metric http://localhost:9187/metrics#x

Runs CMD again and again, in pairs: once without a steward and once with one, in
a random order, until the answer is known or --at-most is over. A steward looks
after CMD's processes only; after every run all is restored. One run without a
steward comes first and is not counted. CMD must end, with status 0, and leave
no process behind; its standard input is empty.
A service (--pid, --cgroup, --unit) is not started: a steward works and rests in
blocks of random order, and the metric is measured, or else the bytes that the
service reads and writes per second.
With nothing against nothing (off,off) 2 of 100 trials claim a difference,
whatever the noise. With --record or --decisions, the file is that
of the last run with a steward.
Exit status: 0 a policy helps, 3 no difference larger than --bound, 4 it harms,
5 not known, 1 failed, 2 wrong command line, 128 + signal when interrupted.")]
pub struct Arguments {
    /// What decides in the runs with a steward
    #[arg(long, value_name = policy_choice::NAMES.as_str(), default_value = "all", value_parser = policy_choice::policy, conflicts_with = "compare")]
    policy: System,
    /// Compare several policies; the first is what the others are compared with
    #[arg(long, value_name = "POLICY,POLICY[,…]", value_delimiter = ',', value_parser = policy_choice::policy)]
    compare: Vec<System>,
    /// Measure the number that this regular expression matches in CMD's output, or its first group [default: wall time]
    #[arg(long, value_name = "REGEX", value_parser = Number::parse)]
    measure: Option<Number>,
    /// Measure what this command of a shell prints, or a metric of Prometheus (http://…#NAME), sampled during each run
    #[arg(long, value_name = "CMD|URL", conflicts_with = "measure")]
    metric: Option<String>,
    /// What the metric is: a counter, by its growth per second, or a gauge, by its median [default: what the page says, else gauge]
    #[arg(long, value_name = "counter|gauge", value_parser = kind, requires = "metric")]
    metric_kind: Option<Kind>,
    /// More of it is better
    #[arg(long)]
    higher_is_better: bool,
    /// Differences up to this are called none, percent
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent)]
    bound: f64,
    /// Begin no pair that would probably end later, as 90s, 20m or 2h
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = durations::parse)]
    at_most: Duration,
    /// End the trial when one run takes longer [default: --at-most]
    #[arg(long, value_name = "TIME", value_parser = durations::parse)]
    run_at_most: Option<Duration>,
    /// Most pairs
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = pairs)]
    pairs: u16,
    /// Fix the random order, to repeat a trial
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run this command of a shell before every run, and do not measure it
    #[arg(long, value_name = "CMD")]
    before: Option<String>,
    #[command(flatten)]
    service: ServiceArguments,
    /// Compare even on a machine of one node, where nothing can be placed
    #[arg(long)]
    even_so: bool,
    /// Write a page with a picture into this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    steward: StewardArguments,
    /// Machine file (TOML) that describes this machine [default: as the kernel and calibration have it]
    #[arg(long, value_name = "FILE")]
    machine: Option<String>,
    /// The program and its arguments
    #[arg(
        value_name = "CMD",
        required_unless_present_any = ["pid", "cgroup", "unit"],
        conflicts_with_all = ["pid", "cgroup", "unit"],
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::parse(text).ok_or_else(|| format!("{text:?} is neither counter nor gauge"))
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let fits = number.filter(|number| (0.01..=50.0).contains(number));
    fits.ok_or_else(|| format!("{text:?} is no bound; write percent, 0.01 to 50"))
}

fn pairs(text: &str) -> Result<u16, String> {
    let number = text.parse::<u16>().ok();
    let fits = number.filter(|number| (MIN_PAIRS..=MAX_PAIRS as u16).contains(number));
    fits.ok_or_else(|| format!("{text:?}: a trial has {MIN_PAIRS} to {MAX_PAIRS} pairs"))
}

/// Runs the trial, and answers by the exit status as well.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let policies = policies(arguments)?;
    let signals = Signals::install()?;
    let service = arguments.service.named()?;
    let measure = measure(arguments, service.is_some())?;
    egeria_proc::task::keep_many_open();
    let machine = MachineArguments {
        machine: arguments.machine.clone(),
        dilation: None,
    };
    let machine = machine.resolve()?;
    check_nodes(&machine, &policies, arguments.even_so)?;
    let page = arguments.report.as_deref();
    // A wrong path costs no run.
    page.map(|page| output::write_page(page, "")).transpose()?;
    let scope = match &service {
        Some(named) => named.scope.clone(),
        // This process, and what it starts.
        None => Scope::Tree(std::process::id()),
    };
    let stewards = Stewards {
        arguments: &arguments.steward,
        machine: &machine,
        scope,
        is_prepared: arguments.before.is_some(),
    };
    stewards.check(&policies)?;
    let tried = match &service {
        Some(named) => try_service(arguments, &policies, measure, (named, &stewards), &signals),
        None => try_command(arguments, &policies, measure, &stewards, &signals),
    };
    let mut report = tried.map_err(|error| interrupted(&signals, error))?;
    // Without a steward there is nothing to keep.
    let best = report.best().filter(|best| policies[*best] != System::Off);
    report.keep = best.map(|best| {
        let more = arguments.steward.words(policies[best]);
        match &service {
            Some(named) => keep::service(policies[best], &more, &named.arguments),
            None => keep::command(policies[best], &more, &arguments.command),
        }
    });
    page.map(|page| output::write_page(page, &report.page()))
        .transpose()?;
    format.print(&report, text::human)?;
    Ok(ExitCode::from(match report.answer() {
        Answer::Better => 0,
        Answer::NoDifference => 3,
        Answer::Worse => 4,
        Answer::NotKnown => 5,
    }))
}

fn interrupted(signals: &Signals, error: egeria_files::Error) -> Failure {
    if signals.check().is_err() {
        output::complain("interrupted; everything is restored, and nothing is claimed");
    }
    signals.or_failure(error)
}

fn policies(arguments: &Arguments) -> Outcome<Vec<System>> {
    const MOST: usize = 8;
    let policies = match &arguments.compare[..] {
        [] => vec![System::Off, arguments.policy],
        compared => compared.to_vec(),
    };
    if !(2..=MOST).contains(&policies.len()) {
        return Err(Failure::Usage(format!(
            "a trial compares 2 to {MOST} policies; write --compare off,all"
        )));
    }
    // Without a steward no setting acts.
    for policy in policies.iter().filter(|policy| **policy != System::Off) {
        arguments.steward.settings(*policy)?;
    }
    Ok(policies)
}

fn measure(arguments: &Arguments, of_service: bool) -> Outcome<Measure> {
    let metric = arguments.metric.as_deref();
    let metric = metric.map(|text| Metric::parse(text, arguments.metric_kind));
    let metric = metric.transpose().map_err(Failure::Usage)?;
    let measure = match (&arguments.measure, metric) {
        (Some(number), _) => Measure::Number(number.clone()),
        (None, Some(metric)) => Measure::Metric(metric),
        (None, None) => Measure::WallTime,
    };
    if of_service && matches!(measure, Measure::Number(_)) {
        return Err(Failure::Usage(
            "what a service prints is not seen; name what it does with --metric".to_owned(),
        ));
    }
    if !of_service && matches!(measure, Measure::WallTime) && arguments.higher_is_better {
        return Err(Failure::Usage(
            "more wall time is not better; name what is, with --measure or --metric".to_owned(),
        ));
    }
    Ok(measure)
}

/// One node has no other to place anything on.
fn check_nodes(machine: &Machine, policies: &[System], even_so: bool) -> Outcome {
    let acts = policies.iter().any(|policy| *policy != System::Off);
    if machine.nodes.len() > 1 || even_so || !acts {
        return Ok(());
    }
    Err(Failure::new(
        "this machine has one node, so there is nothing to place here; --even-so compares anyway: what a steward's looking costs the command",
    ))
}

fn try_command(
    arguments: &Arguments,
    policies: &[System],
    measure: Measure,
    stewards: &Stewards<'_>,
    signals: &Signals,
) -> Result<Report, egeria_files::Error> {
    let prepare = |command: &mut Command| caller::pass_on(command, true);
    let terms = Terms {
        at_most: arguments.run_at_most.unwrap_or(arguments.at_most),
        cancel: Some(signals.stop_flag()),
        prepare: &prepare,
    };
    let bar = Bar::new(arguments, policies);
    let progress = |runs: usize, side: &str| bar.step(runs, side);
    let side = |policy: &System| Side {
        name: policy.to_string(),
        words: arguments.command.clone(),
        begin: stewards.begin(*policy),
    };
    let sides = policies.iter().map(side).collect();
    let mut commands = Commands::new(sides, measure, terms, &progress);
    let shell = |script: &String| ["sh".into(), "-c".into(), script.into()].into();
    commands.before = arguments.before.as_ref().map(shell);
    let warm_up = commands.warm_up()?;
    let plan = plan(arguments, policies.len(), (warm_up, warm_up))?;
    let tried = trial::run(&plan, &mut commands)?;
    let elapsed = warm_up + trial::Subject::elapsed(&commands);
    Ok(Report::new(&plan, &tried, commands.described(), elapsed))
}

fn try_service(
    arguments: &Arguments,
    policies: &[System],
    measure: Measure,
    (named, stewards): (&Named, &Stewards<'_>),
    signals: &Signals,
) -> Result<Report, egeria_files::Error> {
    let bar = Bar::new(arguments, policies);
    let progress = |runs: usize, side: &str| bar.step(runs, side);
    let side = |policy: &System| (policy.to_string(), stewards.begin(*policy));
    let sides = policies.iter().map(side).collect();
    let lengths = (arguments.service.block, arguments.service.rest);
    let subject = (named.words.clone(), named.scope.clone());
    let mut service = Service::new(subject, sides, lengths, &progress);
    service.cancel = Some(signals.stop_flag());
    service.metric = match measure {
        Measure::Metric(metric) => Some(metric),
        Measure::WallTime | Measure::Number(_) => None,
    };
    let block = lengths.0 + lengths.1;
    let mut plan = plan(arguments, policies.len(), (block, block))?;
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
    fn new(arguments: &Arguments, policies: &[System]) -> Bar {
        Bar {
            bar: Progress::bar("warm-up"),
            most: u64::from(arguments.pairs) * policies.len() as u64,
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
    Ok(Plan {
        sides,
        judge: Judge {
            design: Design::new(usize::from(arguments.pairs), error),
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
