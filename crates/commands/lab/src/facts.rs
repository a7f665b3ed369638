//! `egeria-lab facts`: the measurements that profiles cite, compared with the model on these profiles.

use clap::Args;
use egeria_machine::FactValue;
use egeria_papers::{FactReport, FactRow, ProfileDistance};
use egeria_stats::aims::list;

use crate::aims::Aims;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};

/// Rows that are farther off than this are listed.
const FAR: f64 = 0.15;
/// Headers of tables that compare measurements with the model's figures.
pub const HEADERS: [&str; 6] = [
    "profile",
    "measured by",
    "setting",
    ">measured",
    ">model",
    ">ratio",
];

/// Arguments of `egeria-lab facts`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab facts
  egeria-lab facts --json | jq '.rows[] | select(.error > 0.15)'

Runs the model of `egeria sim` on each micro-benchmark that a machine profile
cites, and compares. These are what the profiles were calibrated on, so they say
how well the model reproduces its own input, not how well it predicts
(docs/explanation/model.md). Nothing is measured.

JSON: median_error, p90_error, worst_error, aims (what, figure, aim, at_most,
met), profiles (profile, rows,
median_error, worst_error), rows (profile, source, its setting, value, model,
ratio, error).")]
pub struct Arguments {
    /// List every row, not only those far off
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    aims: Aims,
}

/// Runs, compares and prints.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let report = egeria_papers::facts().map_err(|error| Failure::new(error.to_string()))?;
    format.print(&report, |report| human(report, arguments.all))?;
    arguments.aims.end(&report.aims)
}

fn human(report: &FactReport, all: bool) -> String {
    let far = |row: &&FactRow| all || row.error > FAR;
    let rows: Vec<Vec<String>> = report.rows.iter().filter(far).map(cells).collect();
    let title = if all {
        "Measurements that profiles cite"
    } else {
        "Measurements that profiles cite and the model is far from"
    };
    let of_profile = |of: &ProfileDistance| {
        vec![
            of.profile.clone(),
            of.rows.to_string(),
            format!("{:.1} %", of.median_error * 100.0),
            format!("{:.1} %", of.worst_error * 100.0),
        ]
    };
    let profiles = report.profiles.iter().map(of_profile).collect();
    format!(
        "{title}\n\n{}\n\n{}\n\n{} measurements: median error {:.1} %, 90 % of them within {:.1} %, worst {:.1} %\n{}",
        output::table(&HEADERS, rows),
        output::table(&["profile", ">rows", ">median", ">worst"], profiles),
        report.rows.len(),
        report.median_error * 100.0,
        report.p90_error * 100.0,
        report.worst_error * 100.0,
        list(&report.aims),
    )
}

pub fn cells(row: &FactRow) -> Vec<String> {
    let fact = &row.fact;
    let setting = format!(
        "{} x {} B, {:.0} % reads{}{}",
        fact.threads,
        fact.request_bytes,
        fact.read_share * 100.0,
        if fact.home == fact.node {
            ""
        } else {
            ", remote"
        },
        match fact.load_bytes_s {
            Some(load_bytes_s) => format!(", next to {:.0} GB/s", load_bytes_s / 1e9),
            None => String::new(),
        }
    );
    let (measured, model) = match fact.value {
        FactValue::BytesPerSecond(bytes_s) => (
            format!("{:.2} GB/s", bytes_s / 1e9),
            format!("{:.2} GB/s", row.model / 1e9),
        ),
        FactValue::LatencyNs(ns) => (format!("{ns:.0} ns"), format!("{:.0} ns", row.model)),
    };
    vec![
        row.profile.clone(),
        fact.source.clone(),
        setting,
        measured,
        model,
        format!("{:.2}", row.ratio),
    ]
}
