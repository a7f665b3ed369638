//! What `top` and `web` show: a volume, a decision log, or programs.

use std::path::PathBuf;

use clap::Args;

use crate::commands::scope::ScopeArguments;
use egeria_cli::failure::{Failure, Outcome};

/// What is watched.
#[derive(Args, Debug)]
pub(super) struct Watched {
    /// Path of any pool of the volume, or a path on its mount
    #[arg(conflicts_with = "log")]
    pub(super) pool: Option<PathBuf>,
    /// The decision log itself
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    #[command(flatten)]
    pub(super) processes: ScopeArguments,
    /// How long a window is where no steward watches, ms (of the machine's own time when it is emulated)
    #[arg(long = "window", value_name = "MS", default_value = "1000", value_parser = window_ns)]
    pub(super) window_ns: u64,
}

impl Watched {
    /// Refuses a volume together with programs.
    pub(super) fn check(&self) -> Outcome {
        if self.processes.is_any() && (self.pool.is_some() || self.log.is_some()) {
            return Err(Failure::Usage(
                "POOL and --log are of volumes; give them, or --pid, --cgroup or --all".to_owned(),
            ));
        }
        Ok(())
    }
}

/// Reads milliseconds.
fn window_ns(text: &str) -> Result<u64, String> {
    const NS_PER_MS: f64 = 1e6;
    let number = text.parse::<f64>().ok().map(|number| number * NS_PER_MS);
    number
        .filter(|window_ns| (NS_PER_MS..=6e10).contains(window_ns))
        .map(|window_ns| window_ns as u64)
        .ok_or_else(|| format!("{text:?} is no window; write milliseconds, 1 to 60000"))
}
