//! The report as one page: the summary, each figure redrawn beside the paper's points, and all tables.

mod bands;
mod figure;
mod figures;
pub(crate) mod html;
pub(crate) mod svg;
mod what_if;

use std::fmt::Write;

pub use what_if::{WhatIf, what_if};

use self::figure::{Facts, Figure};
use self::html::{escape, number, table, text, verdict};
use crate::beyond::Beyond;
use crate::claim::{Claim, Paper, claims};
use crate::distance::distances;
use crate::error::Result;
use crate::report::{Listed, OrderingRow, Report, Row};

const TITLE: &str = "Four papers on one model";

/// The whole page.
///
/// # Errors
/// When the table of claims in the source was damaged.
pub fn page(report: &Report) -> Result<String> {
    let claims = claims()?;
    let facts = Facts {
        claims: &claims,
        results: &report.results,
    };
    let figures = figures::all(&facts);
    let mut body = head(report, &claims, &figures);
    for paper in Paper::ALL {
        let of_paper: Vec<&Figure> = figures.iter().filter(|each| each.paper == paper).collect();
        if of_paper.is_empty() {
            continue;
        }
        let _ = writeln!(body, "<section>\n<h2>{}</h2>", paper.name());
        for each in of_paper {
            body.push_str(&each.draw(&about(report, each.ids)));
        }
        body.push_str("</section>\n");
    }
    body.push_str(&beyond(&report.beyond));
    body.push_str(&tables(report));
    Ok(html::page(TITLE, &body))
}

fn head(report: &Report, claims: &[Claim], figures: &[Figure]) -> String {
    let tile = |value: String, words: &str| format!("<li><b>{value}</b>{words}</li>\n");
    let tiles = [
        tile(
            format!("{} of {}", report.orderings_held, report.orderings),
            "orderings hold",
        ),
        tile(
            format!("{:.1} %", report.median_error * 100.0),
            "median error",
        ),
        tile(
            format!("{:.0} %", report.p90_error * 100.0),
            "90th percentile",
        ),
        tile(report.rows.len().to_string(), "numbers predicted"),
        tile(claims.len().to_string(), "claims in the table"),
    ];
    let link = |each: &Figure| {
        let words = format!("{} {}", each.paper.name(), each.name);
        format!("<a href=\"#{}\">{}</a>\n", each.anchor(), escape(&words))
    };
    let links: String = figures.iter().map(link).collect();
    format!(
        "<header>\n<h1>{TITLE}</h1>\n<p class=\"verdict\">Predicted by a model, not measured.</p>\n\
         <p>Columns and lines are what the model of <code>egeria sim</code> predicts for the papers' machines and workloads, with the \
         policies' own code; diamonds are what the papers print. The model is calibrated on single facts about hardware, \
         listed at the end, and on none of these results.</p>\n<ul class=\"numbers\">\n{}</ul>\n<nav>{links}</nav>\n</header>\n",
        tiles.concat()
    )
}

/// The claims a figure is about.
fn about(report: &Report, ids: &[&str]) -> String {
    let is_about = |id: &str| ids.contains(&id);
    let rows: Vec<&Row> = report.rows.iter().filter(|row| is_about(&row.id)).collect();
    let bounds: Vec<&Row> = report
        .bound_rows
        .iter()
        .filter(|row| is_about(&row.id))
        .collect();
    let predicted = |id: &str| rows.iter().any(|row| row.id == id);
    let orderings: Vec<&OrderingRow> = report
        .ordering_rows
        .iter()
        .filter(|row| is_about(&row.id) && !predicted(&row.id))
        .collect();
    let mut below = String::new();
    if !rows.is_empty() {
        below.push_str(&numbers(&rows));
    }
    if !bounds.is_empty() {
        below.push_str(&kept(&bounds));
    }
    if !orderings.is_empty() {
        below.push_str(&held(&orderings));
    }
    below.push_str(&far(report, ids));
    below
}

/// Why the model is far from some of these.
fn far(report: &Report, ids: &[&str]) -> String {
    let far = report.far();
    let mut told = String::new();
    for (about, why) in distances() {
        let about: Vec<&str> = about
            .into_iter()
            .filter(|id| ids.contains(id) && far.contains(id))
            .collect();
        if !about.is_empty() {
            let _ = writeln!(
                told,
                "<p class=\"note\"><b>{}</b>: {}.</p>",
                about.join(", "),
                escape(why)
            );
        }
    }
    told
}

/// What none of the papers has.
fn beyond(rows: &[Beyond]) -> String {
    let mut section = String::from("<section>\n<h2>Beyond the papers</h2>\n");
    for of_one in rows.chunk_by(|one, other| one.what == other.what) {
        let Some(first) = of_one.first() else {
            continue;
        };
        let systems = first.figures.iter().map(|(system, _)| *system);
        let headers: Vec<&str> = ["where"].into_iter().chain(systems).collect();
        let row = |row: &Beyond| {
            let figures = row.figures.iter();
            let figures = figures.map(|(_, figure)| number(figures_of(figure / 1e6)));
            [text(row.group.clone())]
                .into_iter()
                .chain(figures)
                .collect()
        };
        let rows: Vec<_> = of_one.iter().map(row).collect();
        let _ = writeln!(
            section,
            "<figure>\n<figcaption><h3>{} (millions)</h3></figcaption>\n{}</figure>",
            escape(first.what),
            table(&headers, &rows)
        );
    }
    section.push_str("</section>\n");
    section
}

/// A number with three figures that count.
fn figures_of(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn numbers(rows: &[&Row]) -> String {
    let row = |row: &&Row| {
        vec![
            text(row.id.clone()),
            text(row.item.clone()),
            number(figures_of(row.paper)),
            number(figures_of(row.model)),
            number(format!("{:.2}", row.ratio)),
        ]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    table(&["id", "number", "paper", "model", "model / paper"], &rows)
}

fn kept(rows: &[&Row]) -> String {
    let row = |row: &&Row| {
        vec![
            text(row.id.clone()),
            text(row.item.clone()),
            number(figures_of(row.paper)),
            number(figures_of(row.model)),
            verdict(row.held, "kept", "NOT kept"),
        ]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    table(&["id", "bound", "paper", "model", ""], &rows)
}

fn held(rows: &[&OrderingRow]) -> String {
    let row = |row: &&OrderingRow| {
        vec![
            text(row.id.clone()),
            text(row.item.clone()),
            number(format!("{:.2}", row.model)),
            verdict(row.held, "holds", "does NOT hold"),
        ]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    table(&["id", "ordering", "model, least ratio", ""], &rows)
}

fn listed(rows: &[Listed]) -> String {
    let row = |row: &Listed| {
        vec![
            text(row.id.clone()),
            text(row.source.clone()),
            text(row.item.clone()),
            text(row.paper.clone()),
            text(row.why.clone()),
        ]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    table(&["id", "source", "claim", "paper", "why"], &rows)
}

fn tables(report: &Report) -> String {
    let section = |title: &str, open: bool, inside: String| {
        let open = if open { " open" } else { "" };
        format!(
            "<details{open}>\n<summary>{}</summary>\n{inside}</details>\n",
            escape(title)
        )
    };
    let rows: Vec<&Row> = report.rows.iter().collect();
    let orderings: Vec<&OrderingRow> = report.ordering_rows.iter().collect();
    let bounds: Vec<&Row> = report.bound_rows.iter().collect();
    let settings: Vec<&Row> = report.settings.iter().collect();
    let title = |words: &str, count: usize| format!("{words} ({count})");
    [
        "<section>\n<h2>All claims</h2>\n".to_owned(),
        section(&title("Numbers", rows.len()), false, numbers(&rows)),
        section(&title("Orderings", orderings.len()), false, held(&orderings)),
        section(&title("Bounds", bounds.len()), false, kept(&bounds)),
        section(
            &title("Settings and worked values, by the policies' own code", settings.len()),
            false,
            numbers(&settings),
        ),
        section(
            &title("What the model is calibrated on, not counted", report.inputs.len()),
            false,
            listed(&report.inputs),
        ),
        section(
            &title("What the model cannot say", report.unanswered.len()),
            true,
            listed(&report.unanswered),
        ),
        "</section>\n<footer><p>+40.5 % in a paper is 1.405 here, a drop by 90 % is 0.1. An ordering holds when the least \
         of its ratios is above 1; what is similar, when all are within 10 %.</p></footer>\n"
            .to_owned(),
    ]
    .concat()
}
