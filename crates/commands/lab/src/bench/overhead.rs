//! `egeria-lab bench overhead`: what looking costs the watched programs and the watching process.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use egeria_bench::overhead::{self, OverheadOptions, OverheadReport, subject};

use egeria_cli::durations;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::sizes;

use super::shared::measured;

/// Arguments of `egeria-lab bench overhead`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo egeria-lab bench overhead
  sudo egeria-lab bench overhead --directory /var/tmp --rounds 9 --json

Programs run while a steward looks at them, and while it does not, in turn, a
pair in every round: reads of cached blocks of 4 KiB beside the source of files
(at most 5 % are lost), a program bound by memory beside each source of accesses
to memory (2 %), and threads that do little, for the CPU time of who looks
(0.5 % of a core for 1,000). Nothing is moved. Another steward of processes must
not be at work.
Exit status: 0 even where a bound does not hold.
JSON rows: subject, place, source, off_ops_s, on_ops_s, overhead,
overhead_range, overhead_of_cpu, core_share, max, holds, missing.")]
pub struct Arguments {
    /// Pairs to take medians over
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// How long a program is measured at a time, ms
    #[arg(long, value_name = "MS", default_value_t = 3000, value_parser = clap::value_parser!(u32).range(10..=600_000))]
    measure: u32,
    /// The steward's window, ms
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = durations::window_ns)]
    window: u64,
    /// Where files that are read lie; again for more [default: /dev/shm and /var/tmp]
    #[arg(long, value_name = "DIR")]
    directory: Vec<PathBuf>,
    /// Memory of the program bound by it
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = sizes::parse)]
    size: u64,
    /// Threads that windows are over
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    threads: u64,
    /// Be the program that is measured
    #[arg(long, hide = true, num_args = 1.., conflicts_with_all = ["rounds", "measure", "window", "directory", "size", "threads"])]
    subject: Vec<String>,
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    if !arguments.subject.is_empty() {
        return subject::run(&arguments.subject).map_err(Failure::new);
    }
    egeria_proc::task::keep_many_open();
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(format!("this program is not found: {error}; mount /proc"))
    })?;
    let before = ["bench", "overhead", "--subject"].map(str::to_owned);
    let directories = if arguments.directory.is_empty() {
        ["/dev/shm", "/var/tmp"].map(PathBuf::from).to_vec()
    } else {
        arguments.directory.clone()
    };
    let report = measured(|watch| {
        overhead::run(&OverheadOptions {
            program: (program, before.to_vec()),
            rounds: usize::from(arguments.rounds),
            measure: Duration::from_millis(u64::from(arguments.measure)),
            window: Duration::from_nanos(arguments.window),
            directories,
            memory_bytes: arguments.size.max(1 << 20),
            threads: arguments.threads,
            watch,
        })
    })?;
    format.print(&report, OverheadReport::table)
}
