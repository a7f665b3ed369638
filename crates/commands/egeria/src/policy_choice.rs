//! The `--policy`, `--set`, `--window`, `--record` and `--decisions` arguments, shared by `run` and `steward`.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::Args;
use egeria_machine::Machine;
use egeria_pages::accesses::{UnknownWay, Way};
use egeria_policy::SettingError;
use egeria_policy::planner::{Place, Settings, System};
use egeria_steward::{Scope, Steward, StewardOptions, Target};

use egeria_cli::durations;
use egeria_cli::failure::{Failure, Outcome};

/// Default window, ns of machine time (NThread §III).
const WINDOW_NS: u64 = 1_000_000_000;

/// On an emulated machine the default window takes at most so long on the host, ns: long enough to count, short enough
/// that a run of some seconds sees decisions.
const MAX_DEFAULT_HOST_NS: f64 = 400e6;

/// How threads are looked after.
#[derive(Args, Clone, Debug)]
pub struct StewardArguments {
    /// One setting of the policy, as read_margin_bytes_s=300e6 or budget.share=0.02; again for more
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Time between two looks, ms (of the machine's own time when it is emulated) [default: 1000, less on an emulated
    /// machine that would need long for that]
    #[arg(long, value_name = "MS", value_parser = durations::window_ns)]
    window: Option<u64>,
    /// How accesses to memory are seen, without a volume: pmu, write-faults, page-tables, damon or page-faults; auto is the first that
    /// works here, in this order, and never damon
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = memory_source)]
    memory_source: MemorySource,
    /// Never measure what the memory of a pool gives (else once, where nobody said it, while nobody uses the volume)
    #[arg(long)]
    no_measuring: bool,
    /// Record what is seen into this file, for `egeria replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write decisions into this file (default: where `egeria explain` and `egeria top` look)
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
}

impl StewardArguments {
    /// Whether a steward is needed even though it moves nothing.
    pub fn watches(&self) -> bool {
        self.record.is_some() || self.decisions.is_some()
    }

    /// What of this says how it decides, as typed, for a command line that does the same.
    pub fn words(&self, policy: System) -> Vec<String> {
        if policy == System::Off {
            return Vec::new();
        }
        let set = self.set.iter();
        let set = set.flat_map(|pair| ["--set".to_owned(), pair.clone()]);
        const NS_PER_MS: f64 = 1e6;
        let window = self.window.map(|window_ns| {
            let window_ms = window_ns as f64 / NS_PER_MS;
            ["--window".to_owned(), window_ms.to_string()]
        });
        set.chain(window.into_iter().flatten()).collect()
    }

    /// The policy's settings as asked for.
    pub fn settings(&self, policy: System) -> Outcome<Settings> {
        settings(policy, &self.set, Place::Live)
    }

    /// Starts a steward for the threads in scope.
    pub fn start(
        &self,
        target: Target,
        machine: &Machine,
        policy: System,
        scope: Scope,
    ) -> Outcome<Steward> {
        let options = StewardOptions {
            policy: policy.to_string(),
            settings: self.settings(policy)?,
            given: names(&self.set).map(str::to_owned).collect(),
            window_ns: self.window.unwrap_or_else(|| default_window_ns(&target)),
            machine: machine.clone(),
            scope,
            memory_source: self.memory_source.0,
            measure_idle_pools: !self.no_measuring,
            record: self.record.clone(),
            decision_log: self.decisions.clone(),
        };
        Steward::start(target, options).map_err(|error| Failure::new(error.to_string()))
    }
}

/// A way to see accesses; `None`: the first that works.
#[derive(Clone, Copy, Debug)]
struct MemorySource(Option<Way>);

fn memory_source(text: &str) -> Result<MemorySource, UnknownWay> {
    let way = (text != "auto").then(|| text.parse()).transpose()?;
    Ok(MemorySource(way))
}

fn default_window_ns(target: &Target) -> u64 {
    let dilation = match target {
        Target::Volume(volume) if volume.emulation().is_configured() => {
            volume.emulation().dilation()
        }
        _ => 1.0,
    };
    let emulated_ns = MAX_DEFAULT_HOST_NS / dilation.max(1e-9);
    if dilation > 1.0 {
        WINDOW_NS.min((emulated_ns as u64).max(1_000_000))
    } else {
        WINDOW_NS
    }
}

/// The settings of a policy with what `--set` says. What would change nothing is refused.
pub fn settings(policy: System, pairs: &[String], place: Place) -> Outcome<Settings> {
    let settings = set(policy, pairs)?;
    refuse_idle(pairs, |name| settings.check_acts(name, place).err())?;
    Ok(settings)
}

/// The settings of a policy with what `--set` says, also where that is for other policies.
pub fn set(policy: System, pairs: &[String]) -> Outcome<Settings> {
    let mut settings = policy.settings();
    for pair in pairs {
        let set = settings.set_pair(pair);
        set.map_err(|error| Failure::Usage(format!("--set {pair}: {error}")))?;
    }
    Ok(settings)
}

/// Fails for the first setting that changes nothing.
pub fn refuse_idle(pairs: &[String], idle: impl Fn(&str) -> Option<SettingError>) -> Outcome<()> {
    let mut each = pairs.iter().zip(names(pairs));
    match each.find_map(|(pair, name)| Some((pair, idle(name)?))) {
        Some((pair, error)) => Err(Failure::Usage(format!("--set {pair}: {error}"))),
        None => Ok(()),
    }
}

fn names(pairs: &[String]) -> impl Iterator<Item = &str> {
    (pairs.iter()).map(|pair| pair.split('=').next().unwrap_or_default().trim())
}

/// The values of `--policy`.
pub static NAMES: LazyLock<String> = LazyLock::new(|| System::names("|"));

/// Reads one of [`NAMES`].
pub fn policy(text: &str) -> Result<System, String> {
    text.parse().map_err(|error| format!("{error}"))
}
