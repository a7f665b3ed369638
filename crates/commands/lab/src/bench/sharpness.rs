//! `egeria-lab bench sharpness`: how well ways to see accesses tell used from unused memory.

use std::time::Duration;

use clap::Args;
use egeria_bench::sharpness::{self, SharpnessOptions, SharpnessReport, subject};

use egeria_cli::durations;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::sizes;

use super::shared::measured;

/// Arguments of `egeria-lab bench sharpness`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo egeria-lab bench sharpness
  sudo egeria-lab bench sharpness --piece 256KiB --piece 1MiB --json

A program uses every fourth piece of its memory all the time, and never the
others. It is looked at by page tables and by DAMON, with all pieces in one
mapping, and each in its own. Memory is ranked by use as each way sees it: as
much as is used counts as used. CPU time is that of the threads that look, and
of the kernel's own threads.
Exit status: 0 even where a way does not work here.
JSON rows: layout, piece_bytes, source, used_found, unused_found, looking_ms,
kernel_ms, missing.")]
pub struct Arguments {
    /// Time between two looks, ms
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = durations::window_ns)]
    window: u64,
    /// Windows of each point; the second half counts
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(2..=10_000))]
    windows: u16,
    /// Memory of the program
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = sizes::parse)]
    size: u64,
    /// Size of the pieces; again for more [default: 256KiB, 1MiB and 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    piece: Vec<u64>,
    /// Be the program that is looked at
    #[arg(long, hide = true, num_args = 1.., conflicts_with_all = ["window", "windows", "size", "piece"])]
    subject: Vec<String>,
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    if !arguments.subject.is_empty() {
        return subject::run(&arguments.subject).map_err(Failure::new);
    }
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(format!("this program is not found: {error}; mount /proc"))
    })?;
    let before = ["bench", "sharpness", "--subject"].map(str::to_owned);
    let piece_bytes = if arguments.piece.is_empty() {
        vec![256 << 10, 1 << 20, 4 << 20]
    } else {
        arguments.piece.clone()
    };
    let smallest = piece_bytes.iter().copied().min().unwrap_or_default();
    if smallest < 4096 || piece_bytes.iter().any(|piece| *piece > arguments.size / 4) {
        return Err(Failure::Usage(
            "a --piece is too small or too large; give at least 4 KiB and at most a quarter of --size".to_owned(),
        ));
    }
    let report = measured(|watch| {
        sharpness::run(&SharpnessOptions {
            program: (program, before.to_vec()),
            window: Duration::from_nanos(arguments.window),
            windows: usize::from(arguments.windows),
            memory_bytes: arguments.size,
            piece_bytes,
            watch,
        })
    })?;
    format.print(&report, SharpnessReport::table)
}
