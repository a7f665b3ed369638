//! `egeria-lab placement`: what came of the placement suite.

use std::path::PathBuf;

use clap::Args;
use egeria_bench::placement;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};
use egeria_stats::aims::Aim;

use crate::aims::Aims;

/// Arguments of `egeria-lab placement`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab placement target/placement/console --out target/placement

Reads what the guest of scripts/placement printed, judges it by the suite's
aims, and writes placement.json (an array of rows) and index.html (a picture for
each case) into a directory. The gain of each end state is predicted by the
model of `egeria sim` on two machines, not measured.

JSON: aims (what, figure, aim, at_most, met, cases, missed), rows (fault, kind,
what, nodes, system, local_share, first_share, best_possible, settled_s, rest_s,
pages_moved, threads_moved, masks_changed, pages_moved_needlessly, model_gain,
model_gains, why, begun, samples).")]
pub struct Arguments {
    /// What the guest printed
    #[arg(value_name = "CONSOLE", required = true)]
    consoles: Vec<PathBuf>,
    /// Write placement.json and index.html here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    aims: Aims,
}

/// Reads, judges, writes and prints.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let mut text = String::new();
    for path in &arguments.consoles {
        let console = std::fs::read(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        text.push_str(&String::from_utf8_lossy(&console));
        text.push('\n');
    }
    let report = placement::read(&text)
        .map_err(|error| Failure::new(format!("{error}; run scripts/placement again")))?;
    if let Some(directory) = &arguments.out {
        let rows = serde_json::to_string_pretty(&report.rows)
            .map_err(|error| Failure::new(error.to_string()))?;
        output::write_page(&directory.join("placement.json"), &rows)?;
        output::write_page(&directory.join("index.html"), &placement::page(&report))?;
    }
    format.print(&report, placement::PlacementReport::table)?;
    let aims: Vec<Aim> = report.aims.into_iter().map(|judged| judged.aim).collect();
    arguments.aims.end(&aims)
}
