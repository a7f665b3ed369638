//! `egeria-lab validation`: measurements that calibrate nothing, compared with what the model predicts.

use clap::Args;
use egeria_papers::{Distance, ValidationReport, ValidationSet};
use egeria_stats::aims::list;

use crate::aims::Aims;
use crate::facts::{HEADERS, cells};
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};

/// Arguments of `egeria-lab validation`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab validation
  egeria-lab validation --json | jq '.independent.median_error'

Runs the model of `egeria sim` on two sets of public measurements that were
declared before the model ran on them, and that no profile cites. Nothing is
tuned on them (docs/explanation/validation.md). Nothing is measured.

JSON: predicted; aims (what, figure, aim, at_most, met); of the first set: set,
orderings, orderings_held, median_error, p90_error; all, independent, held_out,
bandwidths and loaded_latencies (rows, median_error, p90_error, worst_error);
rows (profile, source, its setting, value, model, ratio, error); ordering_rows
(source, profile, item, measured, model, held); more: the same of later sets.")]
pub struct Arguments {
    #[command(flatten)]
    aims: Aims,
}

/// Runs, compares and prints.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let report = egeria_papers::validation().map_err(|error| Failure::new(error.to_string()))?;
    format.print(&report, human)?;
    arguments.aims.end(&report.aims)
}

fn human(report: &ValidationReport) -> String {
    let sets: String = report.sets().map(set).collect();
    format!(
        "Predicted by a model, not measured\n{sets}\n{}",
        list(&report.aims)
    )
}

fn set(set: &ValidationSet) -> String {
    let rows = set.rows.iter().map(cells).collect();
    let line = |(what, of): &(&str, Distance)| {
        if of.rows == 0 {
            return String::new();
        }
        format!(
            "{what}: {} measurements, median error {:.1} %, 90 % of them within {:.1} %, worst {:.1} %\n",
            of.rows,
            of.median_error * 100.0,
            of.p90_error * 100.0,
            of.worst_error * 100.0
        )
    };
    let distances = [
        ("Other machines and systems", set.independent),
        ("Held out", set.held_out),
        ("Bandwidths", set.bandwidths),
        ("Loaded latencies", set.loaded_latencies),
        ("All", set.all),
    ];
    let distances: String = distances.iter().map(line).collect();
    let failed = set.ordering_rows.iter().filter(|each| !each.held);
    let failed: String = failed
        .map(|each| {
            format!(
                "  {}, {}: {} ({:.2} measured, {:.2} here)\n",
                each.source, each.profile, each.item, each.measured, each.model
            )
        })
        .collect();
    format!(
        "\nThe {}\n\n{}\n\n{distances}Orderings: {} of {} hold; not these:\n{failed}",
        set.set,
        output::table(&HEADERS, rows),
        set.orderings_held,
        set.orderings,
    )
}
