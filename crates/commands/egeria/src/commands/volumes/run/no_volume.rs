//! A command without a volume: a steward looks after its threads and its memory.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format};
use egeria_cli::signals::Signals;
use egeria_machine::{Machine, format_bytes};
use egeria_policy::planner::System;
use egeria_steward::{Scope, Steward, Summary, Target};
use serde::Serialize;

use super::child::{exit_status, spawn, wait};
use super::report_file::ReportFile;
use crate::policy_choice::StewardArguments;

/// What is to be done.
pub(super) struct Wish<'a> {
    pub(super) command: &'a [OsString],
    pub(super) policy: System,
    pub(super) steward: &'a StewardArguments,
    pub(super) machine: &'a Machine,
    pub(super) report: Option<ReportFile>,
}

#[derive(Serialize)]
struct Document {
    command: Vec<String>,
    exit_status: u8,
    elapsed_s: f64,
    policy: String,
    /// What the steward did, when there was one.
    steward: Option<Summary>,
}

/// Runs the command and gives its exit status.
pub(super) fn run(wish: Wish<'_>, signals: &Signals, format: Format) -> Outcome<ExitCode> {
    let is_wanted = wish.policy != System::Off || wish.steward.watches();
    let start = || {
        let scope = Scope::Tree(std::process::id());
        (wish.steward).start(Target::Processes, wish.machine, wish.policy, scope)
    };
    let steward = is_wanted.then(start).transpose()?;
    let begin = Instant::now();
    let child = spawn(wish.command, None, None, format)?;
    let status = wait(child, signals)?;
    let words = wish.command.iter();
    let document = Document {
        command: words
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        exit_status: exit_status(status),
        elapsed_s: begin.elapsed().as_secs_f64(),
        policy: wish.policy.to_string(),
        steward: steward.map(Steward::stop),
    };
    if let Some(report) = wish.report {
        report.write(&document)?;
    }
    match format {
        Format::Json => format.print(&document, |_| String::new())?,
        Format::Human => output::remark(&human(&document)),
    }
    Ok(ExitCode::from(document.exit_status))
}

fn human(document: &Document) -> String {
    let mut text = format!("{:.2} s", document.elapsed_s);
    if let Some(done) = &document.steward {
        text += &format!(
            "; steward ({}): {} moves of processes, {} of memory followed, {} threads moved, in {} windows",
            document.policy,
            done.process_moves,
            format_bytes(done.memory_moved_bytes),
            done.moves,
            done.windows
        );
        let why = done.unavailable.iter().chain(&done.unseen);
        for line in why.chain(&done.no_moves_because) {
            text += &format!("\n{line}");
        }
    }
    text
}
