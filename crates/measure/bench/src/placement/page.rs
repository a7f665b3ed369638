//! The page: aims, a table, and a picture for each case.

use egeria_report::chart::{Line, Lines};
use egeria_report::page::{figure, page as whole};
use egeria_report::table::{Cell, heading, number, table, text, verdict};
use maud::{Markup, html};

use super::PlacementReport;
use super::aims::{Case, Judged, cases};
use super::gain::profiles;
use super::row::Row;

/// In the order of their colours.
pub(super) const SYSTEMS: [&str; 6] = [
    "nothing",
    "balancing",
    "numad",
    "interleave",
    "egeria",
    "both",
];

/// The page of a report.
pub fn page(report: &PlacementReport) -> String {
    let cases = cases(&report.rows);
    let body = html! {
        h1 { "Placement of programs, by six systems" }
        p { "Programs in a guest whose threads and data are on different nodes (faults), or as they should be (controls). "
            "Shown is the share of accesses to the node of the thread. The guest's CPUs are emulated: this says where pages and "
            "threads end, and how soon by the guest's clock, which counts instructions. It says nothing of speed." }
        p { "The gain is predicted by a model, not measured: throughput of the end state, compared with that of “nothing”, on "
            (profiles(2).join(" and ")) " (two nodes) or " (profiles(8).join(" and "))
            " (more), from the less to the larger of the two. Each case ran once under each system, so how far runs differ is not known. There, each access of 256 bytes waits for the one before, one of five writes, and nothing moves. Gains that differ by less than a tenth are alike." }
        h2 { "Aims" }
        (table(&["", "figure", "aim", "missed by"], &report.aims.iter().map(aim).collect::<Vec<_>>()))
        h2 { "Cases" }
        (table(&HEADERS, &report.rows.iter().map(cells).collect::<Vec<_>>()))
        @for case in &cases { (picture(case)) }
    };
    whole("Placement of programs", "", &body)
}

fn aim(judged: &Judged) -> Vec<Cell> {
    vec![
        heading(judged.aim.what),
        match judged.cases {
            0 => text("no such case was run"),
            _ => verdict(
                judged.aim.met,
                &percent(judged.aim.figure),
                &percent(judged.aim.figure),
            ),
        },
        number(percent(judged.aim.aim)),
        text(judged.missed.join(", ")),
    ]
}

const HEADERS: [&str; 11] = [
    "case",
    "nodes",
    "system",
    "local %",
    "best %",
    "settled, s",
    "pages",
    "needlessly",
    "threads",
    "masks",
    "gain",
];

fn cells(row: &Row) -> Vec<Cell> {
    vec![
        heading(&row.fault),
        number(row.nodes.to_string()),
        text(&row.system),
        number(row.local_share.map(percent).unwrap_or_default()),
        number(row.best_possible.map(percent).unwrap_or_default()),
        number(
            row.settled_s
                .map(|seconds| format!("{seconds:.1}"))
                .unwrap_or_default(),
        ),
        number(row.pages_moved.to_string()),
        number(row.pages_moved_needlessly.to_string()),
        number(row.threads_moved.to_string()),
        number(row.masks_changed.to_string()),
        number(gains(row)),
    ]
}

/// The gain by each profile, least first.
fn gains(row: &Row) -> String {
    let mut all: Vec<f64> = row.model_gains.values().copied().collect();
    all.sort_by(f64::total_cmp);
    match all[..] {
        [] => String::new(),
        [least, .., most] if most - least >= 0.005 => format!("{least:.2} to {most:.2}"),
        [least, ..] => format!("{least:.2}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

fn picture(case: &Case<'_>) -> Markup {
    let series = |row: &Row| {
        SYSTEMS
            .iter()
            .position(|system| *system == row.system)
            .unwrap_or(SYSTEMS.len())
    };
    let begin_s = case
        .rows
        .iter()
        .flat_map(|row| row.samples.first())
        .map(|sample| sample.0)
        .fold(0.0, f64::min);
    let line = |row: &&Row| Line {
        series: series(row),
        name: row.system.clone(),
        values: row
            .samples
            .iter()
            .map(|(time, share)| (time - begin_s, share * 100.0))
            .collect(),
        points: Vec::new(),
    };
    let lines = Lines {
        x_unit: format!("s; systems begin at {:.0}", -begin_s),
        y_unit: "local %".to_owned(),
        lines: case.rows.iter().map(line).collect(),
        low: true,
    };
    let why = case
        .of("egeria")
        .map(|row| row.why.as_str())
        .unwrap_or_default();
    let below = html! {
        p { (case.rows[0].what) ", " (case.rows[0].nodes) " nodes." }
        @if case.rows.iter().any(|row| !row.begun) { p { "The scheduler disturbed its begin." } }
        @if !why.is_empty() { p { "Egeria says: " (why) } }
    };
    let description = format!("local share of {} over time", case.name);
    figure(
        Some(case.name),
        case.name,
        &lines.keys(),
        &lines.draw(&description),
        &below,
    )
}
