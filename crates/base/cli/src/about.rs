//! Commands about a program itself.

use clap::Subcommand;

use crate::failure::Outcome;
use crate::output::Format;
use crate::{completions, manual};

/// Commands that a program has beside its own.
#[derive(Subcommand, Debug)]
pub enum About {
    /// Print shell completions
    Completions(completions::Arguments),
    /// Print the manual page, or write those of all commands
    Man(manual::Arguments),
}

impl About {
    /// Prints what is asked for of `command`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn run(&self, command: clap::Command, format: Format) -> Outcome {
        match self {
            About::Completions(shell) => completions::run(shell, command, format),
            About::Man(pages) => manual::run(pages, command, format),
        }
    }
}
