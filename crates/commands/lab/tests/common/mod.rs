//! Running the command as a user does.
#![allow(dead_code, unused_imports, reason = "each test program uses a part")]

use std::ffi::OsStr;
use std::process::Command;

use egeria_harness::testing::without_surroundings;
pub use egeria_harness::testing::{Ended, finish};

/// The command with these arguments, without what the caller's environment would add.
pub fn lab<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_egeria-lab"));
    command.args(arguments);
    without_surroundings(&mut command);
    command
}

/// Runs it to its end.
#[track_caller]
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    finish(lab(arguments))
}
