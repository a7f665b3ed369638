//! Programs of several commands: a line about them, options of all commands, and commands about the program itself.

use std::process::ExitCode;

use clap::{Command, CommandFactory, Parser, Subcommand};

use crate::about::About;
use crate::failure::Outcome;
use crate::output::{Format, FormatOption};
use crate::usage;

/// A program.
pub struct Program {
    /// The name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Examples, and what the exit status says.
    pub after_help: &'static str,
}

impl Program {
    /// The `main` of the program: runs the command that is asked for.
    pub fn start<C: Subcommand>(
        &self,
        run: impl FnOnce(&C, Format) -> Outcome<ExitCode>,
    ) -> ExitCode {
        usage::start(self.name, self.command::<C>(), |arguments: Arguments<C>| {
            let format = arguments.output.format();
            match &arguments.command {
                All::Own(command) => run(command, format),
                All::About(about) => {
                    about.run(self.command::<C>(), format)?;
                    Ok(ExitCode::SUCCESS)
                }
            }
        })
    }

    fn command<C: Subcommand>(&self) -> Command {
        let command = Arguments::<C>::command().name(self.name);
        command.about(self.about).after_help(self.after_help)
    }
}

#[derive(Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true)]
struct Arguments<C: Subcommand> {
    #[command(flatten)]
    output: FormatOption,
    #[command(subcommand)]
    command: All<C>,
}

#[derive(Subcommand)]
enum All<C: Subcommand> {
    #[command(flatten)]
    Own(C),
    #[command(flatten)]
    About(About),
}
