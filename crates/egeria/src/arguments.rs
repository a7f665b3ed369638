//! The command line: which commands there are, and what a wrong one is told.

use std::process::ExitCode;

use clap::error::{Error, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use crate::commands;
use crate::failure::Failure;
use crate::output::{self, Format};

/// One file system over the persistent memory of every NUMA node, for programs as they are.
#[derive(Parser, Debug)]
#[command(
    name = "egeria",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Print one JSON document (bytes, ns, stable field names) and nothing else on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  egeria run --scratch 1GiB -- sh -c 'cp -a /etc $EGERIA_MOUNT && du -sh $EGERIA_MOUNT'
  egeria mkfs --pool 0:/dev/shm/a:4GiB --pool 1:/dev/shm/b:4GiB
  egeria mount /dev/shm/a /mnt && egeria stat /mnt/file && egeria umount /mnt

Exit status: 0 done, 1 failed, 2 wrong command line; `run` gives that of its command.";

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Make a volume of one pool per node
    Mkfs(commands::mkfs::Arguments),
    /// Mount a volume on a directory
    Mount(commands::mount::Arguments),
    /// Unmount a volume and wait until it is closed
    Umount(commands::umount::Arguments),
    /// Run a program on a volume, with its reads and writes served directly
    Run(commands::run::Arguments),
    /// Show which node holds which part of a file
    Stat(commands::stat::Arguments),
    /// Look after the threads that use a volume: bring them to their data, and say why
    Steward(commands::steward::Arguments),
    /// Tell in sentences whom a steward moved, why, and what came of it
    Explain(commands::explain::Arguments),
    /// Show nodes and threads under a steward while it works
    Top(commands::top::Arguments),
    /// Show the space of volumes, pool by pool
    Df(commands::df::Arguments),
    /// Verify a volume that is not mounted, and repair it
    Check(commands::check::Arguments),
    /// Read a whole volume while it is in use, and say what is damaged
    Scrub(commands::scrub::Arguments),
    /// Show what the machine is: nodes, CPUs, memory, distances
    Machine(commands::machine::Arguments),
    /// Show what a recording holds
    Trace(commands::trace::Arguments),
    /// Show what a policy would have done about a recorded load
    Replay(commands::replay::Arguments),
    /// Predict what a workload gets from a machine that need not be there
    Sim(commands::sim::Arguments),
    /// Measure Egeria beside its peers
    Bench(commands::bench::Arguments),
    /// Run fio, RocksDB and everyday programs on a scratch volume, and write a report
    Demo(commands::demo::Arguments),
    /// Print shell completions
    Completions(commands::completions::Arguments),
    /// Print the manual page, or write those of all commands
    Man(commands::man::Arguments),
}

impl Arguments {
    /// How to print.
    pub fn format(&self) -> Format {
        if self.json {
            Format::Json
        } else {
            Format::Human
        }
    }
}

/// Says what is wrong with a command line in one line; prints help and version when asked for.
pub fn refuse(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            match output::print(error.render().to_string().as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => failure.report(),
            }
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::remark(&error.render().to_string());
            ExitCode::from(2)
        }
        _ => Failure::Usage(one_line(&error.render().to_string())).report(),
    }
}

/// clap's text in one line: cause, tips, and where help is.
fn one_line(text: &str) -> String {
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    let body = text.split("\n\nUsage:").next().unwrap_or(text);
    let body = body
        .split("\n\nFor more information")
        .next()
        .unwrap_or(body);
    let lines: Vec<&str> = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let line = lines.join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    format!("{line}; see `{} --help`", command_of(usage))
}

/// `egeria mkfs` of `egeria mkfs [OPTIONS] --pool …`; without usage, what was typed tells.
fn command_of(usage: Option<&str>) -> String {
    let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
    let words: Vec<&str> = usage
        .unwrap_or("")
        .split_whitespace()
        .take_while(is_word)
        .collect();
    if !words.is_empty() {
        return words.join(" ");
    }
    let command = Arguments::command();
    let typed = std::env::args_os()
        .nth(1)
        .and_then(|word| word.into_string().ok())
        .filter(|word| command.find_subcommand(word).is_some());
    typed.map_or("egeria".to_owned(), |word| format!("egeria {word}"))
}
