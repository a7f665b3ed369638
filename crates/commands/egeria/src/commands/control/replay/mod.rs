//! `egeria replay`: what a policy would have done about a recorded load.

mod report;
mod tally;
mod text;
mod view;

use std::path::PathBuf;

use clap::Args;
use egeria_policy::nthread;
use egeria_policy::planner::{Place, System};

use super::recording::{self, Label};
use crate::commands::look::diagnose::recorded;
use crate::policy_choice;
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use egeria_policy::control::Replay;
use tally::Tally;
use view::View;

/// Arguments of `egeria replay`.
#[derive(Args, Debug)]
#[command(after_help = help())]
pub struct Arguments {
    /// A recording, as `egeria run --record` makes
    trace: PathBuf,
    /// What may be done about a window
    #[arg(long, value_name = policy_choice::NAMES.as_str(), default_value = "full", value_parser = policy_choice::policy)]
    policy: System,
    /// A setting of the policy, as cpu_limit=0.8; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

fn help() -> String {
    let mut text = "\
Examples:
  egeria replay yesterday.trace
  egeria replay yesterday.trace --policy rl --set read_margin_bytes_s=50e6
  egeria replay yesterday.trace --json | jq '.summary.policies'

What if: the same policy code as in the steward, over recorded windows. The
windows stay as recorded: a thread that the replay moves is taken to be on its
new node from the next window on, and to write there; it is neither faster nor
slower, and what it reads stays where it was. Threads that the replay leaves
alone are where they were recorded, so a trace recorded with the policy `off`
tells most. Limits, delegation and data that moves are shown and change nothing
in the windows. A thread has not settled when it was moved at least twice and
never stayed for three windows in a row in between or after.

Settings with their ranges (those of NThread; all, with meaning and defaults:
docs/reference/settings.md):
"
    .to_owned();
    for (name, range) in nthread::Settings::names() {
        text.push_str(&format!("  {name:<21} {range}\n"));
    }
    text.truncate(text.trim_end().len());
    text
}

/// Replays a recording.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let chosen = policy_choice::settings(arguments.policy, &arguments.settings, Place::Replay)?;
    let mut reader = recording::open(&arguments.trace)?;
    let machine = reader.machine().clone();
    // All of it under every policy first: a damaged recording is refused, not half replayed.
    let mut found = recorded::All::default();
    let mut runs = Vec::new();
    for policy in System::ALL {
        let settings = policy_choice::set(policy, &arguments.settings)?;
        let replay = Replay::new(&machine, policy.make(), settings);
        runs.push((replay, Tally::new(policy)));
    }
    for facts in recording::facts(&mut reader) {
        let facts = facts?;
        found.add(&machine, &facts);
        for (replay, tally) in &mut runs {
            let (placed, turn) = replay.step(&facts);
            tally.add(&machine, &placed.window, &turn);
        }
    }
    let label = Label::of(&arguments.trace, &reader);
    label.warn();
    let tallies = runs.into_iter().map(|(_, tally)| tally).collect();
    let view = View {
        trace: &arguments.trace,
        policy: arguments.policy,
        changed: &arguments.settings,
        settings: chosen,
        windows: reader.windows(),
        placement: found.document(&machine, None),
        machine,
        label,
        tallies,
    };
    match format {
        Format::Human => text::print(&view),
        Format::Json => report::print(&view),
    }
}
