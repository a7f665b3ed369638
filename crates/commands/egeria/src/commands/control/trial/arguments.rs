//! The command line of `egeria trial`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use egeria_cli::durations;
use egeria_policy::planner::System;
use egeria_trial::kind::Kind;
use egeria_trial::number::Number;
use egeria_trial::signed_rank::MAX_PAIRS;

use super::cache::CacheArguments;
use super::copy::CopyArguments;
use super::service::ServiceArguments;
use super::sides::Wish;
use crate::policy_choice::{self, StewardArguments};

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
  egeria trial --warm model.gguf --node 1 -- ./infer model.gguf
  egeria trial --volume data --compare off,volume,volume+full -- ./job --in {}
  sudo egeria trial --unit postgresql --metric http://localhost:9187/metrics#x

Runs CMD again and again, in pairs: once without a steward and once with one, in
a random order, until the answer is known or --at-most is over. A steward looks
after CMD's processes only; after every run all is restored. One run without a
steward comes first and is not counted. CMD must end, with status 0, and leave
no process behind; its standard input is empty.
Side warm: files are in the page cache of nodes; after each run their pages go
back to where they were. Side volume: {} in CMD, and EGERIA_TRIAL_DIR, are a
copy of DIR on a volume in DRAM. It is compared with DIR before the first run,
and what CMD did not change once more after the last; then it is removed. Only
CMD writes to DIR. Sides are joined by +, as volume+warm+full.
A service (--pid, --cgroup, --unit) is not started: a steward works and rests in
blocks of random order, and the metric is measured, or else the bytes that the
service reads and writes per second, or its instructions per second if it moves
little data and the CPU counts them.
With nothing against nothing (off,off) 2 of 100 trials claim a difference,
whatever the noise. With --record or --decisions, the file is that
of the last run with a steward.
Exit status: 0 a policy helps, 3 no difference larger than --bound, 4 it harms,
5 not known, 1 failed, 2 wrong command line, 128 + signal when interrupted.")]
pub struct Arguments {
    /// What decides in the runs with a steward [default: all, or no steward with --warm or --volume]
    #[arg(long, value_name = policy_choice::NAMES.as_str(), value_parser = policy_choice::policy, conflicts_with = "compare")]
    pub(super) policy: Option<System>,
    /// Compare several sides; the first is what the others are compared with. A side is a policy, warm, volume, or
    /// several of these with +
    #[arg(long, value_name = "SIDE,SIDE[,…]", value_delimiter = ',')]
    pub(super) compare: Vec<Wish>,
    /// Measure the number that this regular expression matches in CMD's output, or its first group [default: wall time]
    #[arg(long, value_name = "REGEX", value_parser = Number::parse)]
    pub(super) measure: Option<Number>,
    /// Measure what this command of a shell prints, or a metric of Prometheus (http://…#NAME), sampled during each run
    #[arg(long, value_name = "CMD|URL", conflicts_with = "measure")]
    pub(super) metric: Option<String>,
    /// What the metric is: a counter, by its growth per second, or a gauge, by its median [default: what the page says, else gauge]
    #[arg(long, value_name = "counter|gauge", value_parser = kind, requires = "metric")]
    pub(super) metric_kind: Option<Kind>,
    /// More of it is better
    #[arg(long)]
    pub(super) higher_is_better: bool,
    /// Differences up to this are called none, percent
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent)]
    pub(super) bound: f64,
    /// Begin no pair that would probably end later, as 90s, 20m or 2h
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = durations::parse)]
    pub(super) at_most: Duration,
    /// End the trial when one run takes longer [default: --at-most]
    #[arg(long, value_name = "TIME", value_parser = durations::parse)]
    pub(super) run_at_most: Option<Duration>,
    /// Most pairs
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = pairs)]
    pub(super) pairs: u16,
    /// Run all --pairs, also when the answer is known before
    #[arg(long)]
    pub(super) all_pairs: bool,
    /// Fix the random order, to repeat a trial
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Run this command of a shell before every run, and do not measure it
    #[arg(long, value_name = "CMD")]
    pub(super) before: Option<String>,
    #[command(flatten)]
    pub(super) service: ServiceArguments,
    /// Compare even on a machine of one node, where nothing can be placed
    #[arg(long)]
    pub(super) even_so: bool,
    /// Write a page with a picture into this file
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    #[command(flatten)]
    pub(super) steward: StewardArguments,
    /// The program and its arguments
    #[arg(
        value_name = "CMD",
        required_unless_present_any = ["pid", "cgroup", "unit"],
        conflicts_with_all = ["pid", "cgroup", "unit"],
        trailing_var_arg = true
    )]
    pub(super) command: Vec<OsString>,
    // With headings of their own, which last until the end.
    #[command(flatten)]
    pub(super) cache: CacheArguments,
    #[command(flatten)]
    pub(super) copy: CopyArguments,
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
