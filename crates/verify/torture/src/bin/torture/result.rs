//! How a run ends.

use std::process::ExitCode;

use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use egeria_torture::Replayed;

/// Prints what a saved case shows now, and whether something is still wrong.
pub fn show_replay(replayed: &Replayed, format: Format) -> Outcome<ExitCode> {
    format.print(replayed, |replayed| replayed.text.clone())?;
    Ok(status(replayed.reproduces))
}

/// 1 when something is wrong.
pub fn status(reproduces: bool) -> ExitCode {
    if reproduces {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
