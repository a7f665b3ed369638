//! The `--policy`, `--set`, `--window`, `--record` and `--decisions` arguments, shared by `run` and `steward`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use egeria_fs::Volume;
use egeria_machine::Machine;
use egeria_policy::nthread::{Configuration, Settings};
use egeria_steward::{Scope, Steward, StewardOptions};

use crate::failure::{Failure, Outcome};

/// Default window, ns of machine time (NThread §III).
const WINDOW_MS: &str = "1000";

/// How threads are looked after.
#[derive(Args, Clone, Debug)]
pub struct StewardArguments {
    /// One setting of the policy, as read_margin_bytes_s=300e6; again for more
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Time between two looks, ms (of the machine's own time when it is emulated)
    #[arg(long, value_name = "MS", default_value = WINDOW_MS, value_parser = window_ns)]
    window: u64,
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

    /// The policy's settings as asked for.
    pub fn settings(&self, configuration: Configuration) -> Outcome<Settings> {
        settings(configuration, &self.set)
    }

    /// Starts a steward for the threads in scope.
    pub fn start(
        &self,
        volume: &Arc<Volume>,
        machine: &Machine,
        configuration: Configuration,
        scope: Scope,
    ) -> Outcome<Steward> {
        let options = StewardOptions {
            configuration,
            settings: self.settings(configuration)?,
            window_ns: self.window,
            machine: machine.clone(),
            scope,
            record: self.record.clone(),
            decision_log: self.decisions.clone(),
        };
        Steward::start(volume.clone(), options).map_err(|error| Failure::new(error.to_string()))
    }
}

/// The defaults of a configuration with what `--set` says.
pub fn settings(configuration: Configuration, pairs: &[String]) -> Outcome<Settings> {
    let mut settings = Settings::of(configuration);
    for pair in pairs {
        let set = settings.set_pair(pair);
        set.map_err(|error| Failure::Usage(format!("--set {pair}: {error}")))?;
    }
    Ok(settings)
}

/// Reads `off`, `rl`, `cpu`, `nm` or `full`.
pub fn configuration(text: &str) -> Result<Configuration, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// Reads milliseconds of a window.
pub fn window_ns(text: &str) -> Result<u64, String> {
    const NS_PER_MS: f64 = 1e6;
    let number = text.parse::<f64>().ok();
    number
        .map(|number| number * NS_PER_MS)
        .filter(|window_ns| (NS_PER_MS..=3.6e12).contains(window_ns))
        .map(|window_ns| window_ns as u64)
        .ok_or_else(|| format!("{text:?} is no window; write milliseconds, 1 to 3600000"))
}
