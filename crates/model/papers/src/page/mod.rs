//! The report as one page: the summary, each figure redrawn with the paper's points, and all tables.

mod figure;
mod figures;

use egeria_report::page::{figure as framed, folded};
use egeria_report::table::{Cell, number, table, text, verdict};
use maud::{Markup, html};

use self::figure::{Facts, Figure};
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
    let figures = figures::all(&facts)?;
    let body = html! {
        (head(report, &claims, &figures))
        @for paper in Paper::ALL {
            @let of_paper: Vec<&Figure> = figures.iter().filter(|each| each.paper == paper).collect();
            @if !of_paper.is_empty() {
                section {
                    h2 { (paper.name()) }
                    @for each in of_paper { (each.draw(&about(report, &each.ids))) }
                }
            }
        }
        (beyond(&report.beyond))
        (tables(report))
    };
    Ok(egeria_report::page::page(TITLE, "", &body))
}

fn head(report: &Report, claims: &[Claim], figures: &[Figure]) -> Markup {
    let tiles = [
        (
            format!("{} of {}", report.orderings_held, report.orderings),
            "orderings hold",
        ),
        (
            format!("{:.1} %", report.median_error * 100.0),
            "median error",
        ),
        (
            format!("{:.0} %", report.p90_error * 100.0),
            "90th percentile",
        ),
        (report.rows.len().to_string(), "numbers predicted"),
        (claims.len().to_string(), "claims in the table"),
    ];
    html! {
        header {
            h1 { (TITLE) }
            p.verdict { "Predicted by a model, not measured." }
            p {
                "Columns and lines are what the model of " code { "egeria sim" } " predicts for the papers' machines and \
                 workloads, with the policies' own code; diamonds are what the papers print. The model is calibrated on \
                 single facts about hardware, listed at the end, and on none of these results."
            }
            ul.numbers { @for (value, words) in tiles { li { b { (value) } (words) } } }
            nav {
                @for each in figures {
                    a href=(format!("#{}", each.anchor())) { (each.paper.name()) " " (each.name) } "\n"
                }
            }
        }
    }
}

/// The claims a figure is about.
fn about(report: &Report, ids: &[String]) -> Markup {
    let is_about = |id: &str| ids.iter().any(|each| each == id);
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
    html! {
        @if !rows.is_empty() { (numbers(&rows)) }
        @if !bounds.is_empty() { (kept(&bounds)) }
        @if !orderings.is_empty() { (held(&orderings)) }
        (far(report, ids))
    }
}

/// Why the model is far from some of these.
fn far(report: &Report, ids: &[String]) -> Markup {
    let far = report.far();
    let of_these = |about: Vec<&'static str>| {
        let about = about.into_iter();
        let about = about.filter(|id| ids.iter().any(|each| each == id) && far.contains(id));
        about.collect::<Vec<_>>().join(", ")
    };
    let reasons = distances();
    let reasons = reasons.map(|(about, why)| (of_these(about), why));
    html! {
        @for (about, why) in reasons.filter(|(about, _)| !about.is_empty()) {
            p.note { b { (about) } ": " (why) "." }
        }
    }
}

/// What none of the papers has.
fn beyond(rows: &[Beyond]) -> Markup {
    html! {
        section {
            h2 { "Beyond the papers" }
            @for of_one in rows.chunk_by(|one, other| one.what == other.what) { (beyond_one(of_one)) }
        }
    }
}

fn beyond_one(of_one: &[Beyond]) -> Markup {
    let Some(first) = of_one.first() else {
        return html! {};
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
    let (title, table) = (format!("{} (millions)", first.what), table(&headers, &rows));
    framed(None, &title, &html! {}, &table, &html! {})
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

fn numbers(rows: &[&Row]) -> Markup {
    let ratio = |row: &Row| number(format!("{:.2}", row.ratio));
    judged(rows, ["number", "model / paper"], ratio)
}

fn kept(rows: &[&Row]) -> Markup {
    let verdict = |row: &Row| judgment(row.own_setting, row.held, "kept", "NOT kept");
    judged(rows, ["bound", ""], verdict)
}

fn judged(rows: &[&Row], [item, last]: [&str; 2], judge: impl Fn(&Row) -> Cell) -> Markup {
    let row = |row: &&Row| {
        vec![
            text(row.id.clone()),
            text(row.item.clone()),
            number(figures_of(row.paper)),
            number(figures_of(row.model)),
            judge(row),
        ]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    table(&["id", item, "paper", "model", last], &rows)
}

fn held(rows: &[&OrderingRow]) -> Markup {
    let row = |row: &&OrderingRow| {
        vec![
            text(row.id.clone()),
            text(row.item.clone()),
            number(format!("{:.2}", row.model)),
            judgment(row.own_setting, row.held, "holds", "does NOT hold"),
        ]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    table(&["id", "ordering", "model, least ratio", ""], &rows)
}

/// What is in a setting of our own is not counted, held or not.
fn judgment(own_setting: bool, is_held: bool, yes: &str, no: &str) -> Cell {
    if own_setting {
        let word = if is_held { yes } else { no };
        text(format!("own setting, not counted: {word}"))
    } else {
        verdict(is_held, yes, no)
    }
}

fn listed(rows: &[Listed]) -> Markup {
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

fn tables(report: &Report) -> Markup {
    let rows: Vec<&Row> = report.rows.iter().collect();
    let orderings: Vec<&OrderingRow> = report.ordering_rows.iter().collect();
    let bounds: Vec<&Row> = report.bound_rows.iter().collect();
    let settings: Vec<&Row> = report.settings.iter().collect();
    let (inputs, unanswered) = (&report.inputs, &report.unanswered);
    let all = [
        ("Numbers", rows.len(), numbers(&rows)),
        ("Orderings", orderings.len(), held(&orderings)),
        ("Bounds", bounds.len(), kept(&bounds)),
        (
            "Settings and worked values, by the policies' own code",
            settings.len(),
            numbers(&settings),
        ),
        (
            "What the model is calibrated on, and quotients of it, not counted",
            inputs.len(),
            listed(inputs),
        ),
    ];
    html! {
        section {
            h2 { "All claims" }
            @for (words, count, inside) in &all { (folded(&format!("{words} ({count})"), false, inside)) }
            (folded(&format!("What the model cannot say ({})", unanswered.len()), true, &listed(unanswered)))
        }
        footer {
            p {
                "+40.5 % in a paper is 1.405 here, a drop by 90 % is 0.1. An ordering holds when the least of its ratios is \
                 above 1; what is similar, when all are within 10 %; what is close, when none is more than 10 % below."
            }
        }
    }
}
