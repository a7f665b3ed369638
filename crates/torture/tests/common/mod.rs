//! Running the command as a user does.

use std::ffi::OsStr;
use std::process::Command;

pub use egeria_harness::testing::finish;
use egeria_harness::testing::{Ended, without_surroundings};

/// The command with these arguments, without what the caller's environment would add.
pub fn torture<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_egeria-torture"));
    command.args(arguments);
    without_surroundings(&mut command);
    command
}

/// Runs it to its end.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    finish(torture(arguments))
}
