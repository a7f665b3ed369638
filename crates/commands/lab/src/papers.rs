//! `egeria-lab papers`: the papers' own claims, compared with what the model predicts.

use std::path::PathBuf;

use crate::aims::Aims;
use clap::Args;
use egeria_papers::{Beyond, Extent, Listed, OrderingRow, Report, Row};

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};
use egeria_cli::progress::Progress;
use egeria_stats::aims::list;

/// Arguments of `egeria-lab papers`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab papers
  egeria-lab papers --report papers.html
  egeria-lab papers --json | jq '.rows[] | select(.error > 0.5)'

Runs the model of `egeria sim` on the machines and workloads of four papers
(NThread, PATS, OdinFS, AsymSched) and judges each of their 231 claims: numbers
by model / paper, orderings (A is faster than B) by whether they hold. What the
model is calibrated on is not counted, nor what is judged in a setting of our
own; what the model cannot say is listed with the reason. Everything is
predicted; nothing is measured (docs/explanation/papers.md).

JSON: orderings, orderings_held, pure_orderings, pure_orderings_held (of claims
that no number says again), own_settings, own_settings_held, median_error,
p90_error, aims, rows (source, item, paper, model, ratio), ordering_rows,
bound_rows, settings, inputs, unanswered, beyond.")]
pub struct Arguments {
    /// A fifth of the machines' time: rougher, for a quick look
    #[arg(long)]
    brief: bool,
    /// Write a page here: each figure redrawn with the papers' points
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    aims: Aims,
}

/// Predicts, judges and prints.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let extent = if arguments.brief {
        Extent::Brief
    } else {
        Extent::Full
    };
    let progress = Progress::bar("predicting");
    let tell =
        |what: &str, done: usize, total: usize| progress.step(done as u64, total as u64, what);
    let report =
        egeria_papers::run(extent, tell).map_err(|error| Failure::new(error.to_string()))?;
    drop(progress);
    if let Some(path) = &arguments.report {
        let page = egeria_papers::page(&report).map_err(|error| Failure::new(error.to_string()))?;
        output::write_page(path, &page)?;
    }
    format.print(&report, human)?;
    arguments.aims.end(&report.aims)
}

fn human(report: &Report) -> String {
    let mut text = format!(
        "Predicted by a model, not measured\n\n{}\n",
        numbers(&report.rows)
    );
    text.push_str(&format!(
        "\nOrderings\n\n{}\n",
        orderings(&report.ordering_rows)
    ));
    let (own, of_papers): (Vec<_>, Vec<_>) = report
        .bound_rows
        .iter()
        .cloned()
        .partition(|row| row.own_setting);
    for (title, rows) in [("Bounds", of_papers), ("Bounds in own settings", own)] {
        text.push_str(&format!("\n{title}\n\n{}\n", numbers(&rows)));
    }
    text.push_str(&format!(
        "\nSettings and worked values, computed by the policies' own code: {} of {} are the papers'\n",
        report.settings.len() - report.wrong_settings().count(),
        report.settings.len()
    ));
    text.push_str(&grouped(
        "What the model is calibrated on, and quotients of it, not counted",
        &report.inputs,
    ));
    text.push_str(&grouped("What the model cannot say", &report.unanswered));
    text.push_str(&beyond(&report.beyond));
    text.push_str(&far(report));
    text.push_str(&format!("\n{}\n{}", report.summary(), list(&report.aims)));
    text
}

fn numbers(rows: &[Row]) -> String {
    let row = |row: &Row| {
        vec![
            row.id.clone(),
            row.source.clone(),
            row.item.clone(),
            format!("{:.3}", row.paper),
            format!("{:.3}", row.model),
            format!("{:.2}", row.ratio),
        ]
    };
    let headers = ["id", "source", "number", ">paper", ">model", ">ratio"];
    output::table(&headers, rows.iter().map(row).collect())
}

fn orderings(rows: &[OrderingRow]) -> String {
    let row = |row: &OrderingRow| {
        vec![
            row.id.clone(),
            row.source.clone(),
            row.item.clone(),
            format!("{:.2}", row.model),
            match (row.own_setting, row.held) {
                (false, true) => "holds",
                (false, false) => "NO",
                (true, true) => "own setting, holds",
                (true, false) => "own setting, NO",
            }
            .to_owned(),
        ]
    };
    let headers = ["id", "source", "ordering", ">model", ""];
    output::table(&headers, rows.iter().map(row).collect())
}

/// What none of the papers has.
fn beyond(rows: &[Beyond]) -> String {
    let mut text = String::from("\nBeyond the papers, not counted\n");
    for of_one in rows.chunk_by(|one, other| one.what == other.what) {
        let Some(first) = of_one.first() else {
            continue;
        };
        let systems = first.figures.iter().map(|(system, _)| format!(">{system}"));
        let headers: Vec<String> = [String::new()].into_iter().chain(systems).collect();
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let row = |row: &Beyond| {
            let figures = row
                .figures
                .iter()
                .map(|(_, figure)| format!("{figure:.3e}"));
            [row.group.clone()].into_iter().chain(figures).collect()
        };
        let table = output::table(&headers, of_one.iter().map(row).collect());
        text.push_str(&format!("\n{}\n{table}\n", first.what));
    }
    text
}

/// Why the model is far from some.
fn far(report: &Report) -> String {
    let far = report.far();
    let mut text = String::from("\nWhy numbers are off by more than a fifth, and orderings fail\n");
    for (ids, why) in egeria_papers::distances() {
        let ids: Vec<&str> = ids.into_iter().filter(|id| far.contains(id)).collect();
        if !ids.is_empty() {
            text.push_str(&format!("  {}: {why}\n", ids.join(" ")));
        }
    }
    text
}

/// Ids by what is said of them.
fn grouped(title: &str, rows: &[Listed]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(why, _)| *why == row.why) {
            Some((_, ids)) => ids.push(&row.id),
            None => groups.push((&row.why, vec![&row.id])),
        }
    }
    let line = |(why, ids): (&str, Vec<&str>)| format!("  {}: {why}\n", ids.join(" "));
    let lines: String = groups.into_iter().map(line).collect();
    format!("\n{title} ({})\n{lines}", rows.len())
}
