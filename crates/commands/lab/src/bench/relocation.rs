//! `egeria-lab bench relocation`: what moving files gives beyond moving threads.

use clap::Args;
use egeria_bench::relocation::{self, RelocationReport};
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

use super::shared::Emulated;

/// Arguments of `egeria-lab bench relocation`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench relocation
  egeria-lab bench relocation --rounds 1
  egeria-lab bench relocation --json | jq '.summary.of_nthread'

Real fio, 32 readers of files that all lie on one of two emulated nodes: nobody
acts, NThread moves threads, and the policy `all` moves files as well. Takes
about four minutes with five rounds. JSON: summary (of_nthread), emulated, rows
(policy, bytes_s, of_nthread, moved_bytes, thread_moves).
Needs the Debian packages fio and fuse3: `make setup`.")]
#[command(mut_arg("measured", |arg| arg.default_value("2000")))]
pub struct Arguments {
    #[command(flatten)]
    shared: Emulated,
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    arguments.shared.run(
        format,
        relocation::run,
        RelocationReport::page,
        RelocationReport::table,
    )?;
    Ok(())
}
