//! The command line: which commands there are.

use clap::{Parser, Subcommand};

use crate::commands;
use egeria_cli::output::FormatOption;

/// Egeria keeps programs near their memory and files on machines with several NUMA nodes.
#[derive(Parser, Debug)]
#[command(
    name = "egeria",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// How to print.
    #[command(flatten)]
    pub output: FormatOption,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  egeria run --scratch 1GiB -- sh -c 'cp -a /etc $EGERIA_MOUNT && du -sh $EGERIA_MOUNT'
  egeria mkfs --pool 0:/dev/shm/a:4GiB --pool 1:/dev/shm/b:4GiB
  egeria mount /dev/shm/a /mnt && egeria stat /mnt/file && egeria umount /mnt

Exit status: 0 done, 1 failed, 2 wrong command line; `run` gives that of its command,
`trial` its answer.";

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Make a volume of one pool per node
    Mkfs(commands::volumes::mkfs::Arguments),
    /// Change the pools of a volume
    Pool(commands::volumes::pool::Arguments),
    /// Limit what is in a directory and below it
    Quota(commands::volumes::quota::Arguments),
    /// Send a directory or a volume as it is at one instant
    Send(commands::volumes::send::Arguments),
    /// Make a directory from what was sent
    Receive(commands::volumes::receive::Arguments),
    /// Give a volume the newest format, in place
    Upgrade(commands::volumes::upgrade::Arguments),
    /// Mount a volume on a directory
    Mount(commands::volumes::mount::Arguments),
    /// Unmount a volume and wait until it is closed
    Umount(commands::volumes::umount::Arguments),
    /// Run a program on a volume, with its reads and writes served directly
    Run(commands::volumes::run::Arguments),
    /// Show which node holds which part of a file
    Stat(commands::volumes::stat::Arguments),
    /// Show what works on this machine, and the commands that make the rest work
    Doctor(commands::look::doctor::Arguments),
    /// Find misplaced programs: what is wrong, what it costs, and the line that repairs it
    Diagnose(commands::look::diagnose::Arguments),
    /// Show which nodes hold a file, directory or process on any file system, and who uses it from where
    Where(commands::look::where_is::Arguments),
    /// Bring files into the page cache of chosen nodes
    Warm(commands::control::warm::Arguments),
    /// Move the memory of processes, or the page cache of files, to chosen nodes
    Move(commands::control::move_pages::Arguments),
    /// Show or set the kernel's weights of nodes, for memory that programs spread
    Weights(commands::control::weights::Arguments),
    /// Migrate threads to their data, and log why
    Steward(commands::control::steward::Arguments),
    /// Measure a command with and without a steward, and say whether it helps
    Trial(Box<commands::control::trial::Arguments>),
    /// Explain thread migrations and the other actions of a steward: why, and with which result
    Explain(commands::look::explain::Arguments),
    /// Show nodes and threads under a steward while it works
    Top(commands::look::top::Arguments),
    /// Serve a live page of nodes, threads, and what a steward does
    Web(commands::look::web::Arguments),
    /// Show the space of volumes, pool by pool
    Df(commands::volumes::df::Arguments),
    /// Verify a volume that is not mounted, and repair it
    Check(commands::volumes::check::Arguments),
    /// Read a whole volume while it is in use, and say what is damaged
    Scrub(commands::volumes::scrub::Arguments),
    /// Show the volumes that are mounted at boot, or write their units for systemd
    Units(commands::volumes::units::Arguments),
    /// Show what the machine is: nodes, CPUs, memory, distances
    Machine(commands::machines::machine::Arguments),
    /// Show what a recording holds
    Trace(commands::control::trace::Arguments),
    /// Show what a policy would have done about a recorded load
    Replay(commands::control::replay::Arguments),
    /// Predict what a workload gets from a hypothetical machine
    Sim(commands::machines::sim::Arguments),
    /// Print shell completions
    Completions(commands::completions::Arguments),
    /// Print the manual page, or write those of all commands
    Man(commands::man::Arguments),
}
