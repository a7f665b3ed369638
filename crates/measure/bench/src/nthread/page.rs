//! The report as one page.

use egeria_report::chart::{self, BarGroup, Color, sparkline};
use egeria_report::page::{facts, folded, key};
use egeria_report::table::{
    Cell, heading, number, picture as small_picture, table, text, verdict as judged,
};
use maud::{Markup, html};

use super::figure::{Figure, MEAN};
use super::report::{NthreadReport, dash, percent, range, throughput, times, verdict};
use super::rows::Bar;
use crate::{colors, experiment};

/// What this page adds to the style of the other report.
const MORE_STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn page(report: &NthreadReport) -> String {
    let body = html! {
        (head(report))
        @if report.with_goals && report.goals().iter().any(|goal| goal.worst.is_some()) { section { h2 { "To reach" } (goals(report)) } }
        (disagreements(report))
        @for figure in Figure::ALL { (section(report, figure)) }
        (method(report))
    };
    let style = [colors::STYLE, MORE_STYLE].concat();
    egeria_report::page::page("Egeria: threads go where their data is", &style, &body)
}

fn head(report: &NthreadReport) -> Markup {
    let machine = &report.machine;
    let goals = report.goals();
    let run = goals.iter().filter(|goal| goal.reached().is_some()).count();
    let unsettled = goals.iter().filter(|goal| goal.worst.is_some()).count() - run;
    let reached = goals
        .iter()
        .filter(|goal| goal.reached() == Some(true))
        .count();
    let failures = report.failures.len();
    let (class, aims) = match (run, reached) {
        (0, _) if failures == 0 && unsettled > 0 => ("quiet", "No aim is judged.".to_owned()),
        (0, _) if failures == 0 => ("quiet", "No figure with an aim was run.".to_owned()),
        (run, reached) if run == reached && failures == 0 => {
            ("good", format!("All {run} aims reached."))
        }
        _ => ("bad", format!("{reached} of {run} aims reached.")),
    };
    let nodes = format!(
        "{}: {} nodes, each {}",
        machine.name, machine.nodes, machine.node
    );
    let about = [
        ("emulated machine", nodes),
        ("host", report.host.clone()),
        ("programs", report.versions.join(", ")),
        (
            "time",
            format!("{:.0} s of wall time in all", report.seconds),
        ),
    ];
    html! {
        header {
            h1 { "Threads go where their data is: NThread on unmodified programs" }
            p.verdict.(class) {
                (aims)
                @if run > 0 && unsettled > 0 { " Of " (unsettled) " more, repetitions differ too much." }
                @if failures > 0 { " " (failures) " runs failed." }
            }
            p {
                @if report.complete { "All figures. " } @else { "A part of the figures. " }
                (report.note())
            }
            @if let Some(disturbance) = report.disturbance() { p.bad { (disturbance) } }
            (facts(&about))
        }
    }
}

fn goals(report: &NthreadReport) -> Markup {
    let row = |goal: &super::Goal| {
        let (value, row) = goal.worst.clone().unzip();
        let verdict = verdict(goal).to_string();
        vec![
            heading(goal.what.clone()),
            number(value.map_or(dash(), |value| format!("{value:.2}"))),
            text(row.unwrap_or_default()),
            match goal.reached() {
                Some(reached) => judged(reached, &verdict, &verdict),
                None => text(verdict),
            },
        ]
    };
    let rows: Vec<Vec<Cell>> = report.goals().iter().map(row).collect();
    table(&["figure", "worst value", "of", "reached"], &rows)
}

fn disagreements(report: &NthreadReport) -> Markup {
    let all = report.disagreements();
    if all.is_empty() && report.failures.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Where it differs from the paper by more than a third, and what was measured" }
            ul.list {
                @for failure in &report.failures { li { b { "failed" } " " span.bad { (failure) } } }
                @for each in &all {
                    li {
                        b { (each.row) }
                        (format!(": {:.2}x here, {:.2}x in the paper: {}", each.ours, each.paper, each.measured))
                    }
                }
            }
        }
    }
}

/// Colour of a bar.
fn color(config: &str) -> Color {
    match config {
        "nova" | "crowded" | "limit_100" => colors::NOVA,
        "nova_n" | "weight_1/2" => colors::NOVA_N,
        "rl" | "nova_best" | "limit_80" => colors::RL,
        "cpu" | "nova_worst" | "limit_130" => colors::CPU,
        "nm" | "limit_110" => colors::NM,
        "full" | "spread" | "limit_90" | "weight_1/3" => colors::FULL,
        "weight_1" => colors::RL,
        "weight_1/4" => colors::NM,
        _ => colors::REMOTE,
    }
}

fn section(report: &NthreadReport, figure: Figure) -> Markup {
    let bars = report.bars.iter();
    let bars: Vec<&Bar> = bars.filter(|bar| bar.figure == figure).collect();
    if bars.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Figure " (figure.name()) ": " (figure.title()) }
            (picture(figure, &bars))
            (folded("All rows, with bandwidth over time", true, &rows(&bars)))
        }
    }
}

fn picture(figure: Figure, bars: &[&Bar]) -> Markup {
    let mut configs: Vec<&str> = Vec::new();
    for bar in bars {
        if !configs.contains(&bar.row.config.as_str()) {
            configs.push(&bar.row.config);
        }
    }
    let same = |one: &&Bar, other: &&Bar| {
        one.row.workload == other.row.workload && one.row.threads == other.row.threads
    };
    let groups = bars
        .chunk_by(same)
        .map(|chunk| group(figure, chunk))
        .collect();
    let caption = match figure {
        Figure::Nine => "bandwidth with different weights of a byte read".to_owned(),
        _ => {
            let has_paper = bars.iter().any(|bar| bar.row.paper_vs_nova.is_some());
            let paper = if has_paper {
                "; a dark line: the paper"
            } else {
                ""
            };
            format!("throughput, times {}{paper}", figure.baseline())
        }
    };
    let description = format!(
        "Bar chart of figure {}: {caption}. The figures are in the table below.",
        figure.name()
    );
    let keys: Vec<(Color, &str)> = configs
        .iter()
        .map(|config| (color(config), *config))
        .collect();
    experiment::picture(None, &caption, &keys, groups, &description)
}

fn group(figure: Figure, chunk: &[&Bar]) -> BarGroup {
    let first = &chunk[0].row;
    let name = match (figure, first.instances) {
        (Figure::Four, _) => format!("{}, {} threads", first.workload, first.threads),
        (_, 1) => first.workload.clone(),
        (_, count) => format!("{} x {}", count, first.workload),
    };
    let bar = |bar: &&Bar| {
        let row = &bar.row;
        let value = if figure == Figure::Nine {
            row.throughput
        } else {
            row.vs_nova
        };
        let paper = row
            .paper_vs_nova
            .map_or(String::new(), |paper| format!(" (paper {paper:.2}x)"));
        let absolute = throughput(row.throughput, bar.unit);
        let label = match (figure, row.workload.as_str()) {
            (Figure::Nine, _) => absolute,
            (_, MEAN) => times(value) + &paper,
            _ => format!("{}{}{paper}, {absolute}", times(value), between(row)),
        };
        chart::Bar {
            color: color(&row.config),
            value: value.unwrap_or(0.0),
            label,
            mark: row.paper_vs_nova,
        }
    };
    experiment::group(name, chunk.iter().map(bar).collect())
}

/// Between what and what repetitions were, where there are several that differ.
fn between(row: &super::NthreadRow) -> String {
    match row.min_vs_nova.zip(row.max_vs_nova) {
        Some((min, max)) if max - min >= 0.005 => format!(" ({min:.2} to {max:.2})"),
        _ => String::new(),
    }
}

fn rows(bars: &[&Bar]) -> Markup {
    let most = |bar: &&Bar| {
        let moments = bar.series.iter();
        let rates =
            moments.flat_map(|moment| moment.read_bytes_s.iter().chain(&moment.written_bytes_s));
        rates.copied().fold(0.0, f64::max)
    };
    let fastest = bars.iter().map(most).fold(0.0, f64::max);
    let rows: Vec<Vec<Cell>> = bars.iter().map(|bar| table_row(bar, fastest)).collect();
    let headers = [
        "workload",
        "config",
        "throughput",
        "vs nova",
        "from … to",
        "vs nova_n",
        "paper",
        "local",
        "moves",
        "node 0 over time",
        "node 1 over time",
    ];
    html! {
        (table(&headers, &rows))
        p.quiet {
            span.keys { (key(colors::LOCAL, "read")) (key(colors::REMOTE, "written")) }
            (format!(" Charts over time end at {:.1} GB/s; ", fastest / 1e9))
            "they show the last repetition from its first access on."
        }
    }
}

fn table_row(bar: &Bar, fastest: f64) -> Vec<Cell> {
    let row = &bar.row;
    let workload = match row.instances {
        1 => format!("{}, {} threads", row.workload, row.threads),
        count => format!("{}, {count} x {} threads", row.workload, row.threads),
    };
    let figures = [
        throughput(row.throughput, bar.unit),
        times(row.vs_nova),
        range(row),
        times(row.vs_nova_n),
        times(row.paper_vs_nova),
        percent(row.local_share),
        row.moves.map_or(dash(), |moves| moves.to_string()),
    ];
    let mut cells = vec![heading(workload), text(row.config.clone())];
    cells.extend(figures.map(number));
    cells.extend([0, 1].map(|node| small_picture(over_time(bar, node, fastest))));
    cells
}

fn over_time(bar: &Bar, node: usize, fastest: f64) -> Markup {
    let Some(last) = bar.series.last() else {
        return html! {};
    };
    let points = |side: fn(&super::Moment) -> &Vec<f64>| {
        let point = |moment: &super::Moment| {
            let rate = side(moment).get(node).copied().unwrap_or_default();
            (moment.at_ms, rate)
        };
        bar.series.iter().map(point).collect::<Vec<_>>()
    };
    let lines = [
        (colors::LOCAL, points(|moment| &moment.read_bytes_s)),
        (colors::REMOTE, points(|moment| &moment.written_bytes_s)),
    ];
    let (row, length_ms) = (&bar.row, last.at_ms);
    let description = format!(
        "Bandwidth of node {node} over {length_ms:.0} ms of machine time, {} {}",
        row.workload, row.config
    );
    sparkline(&lines, (length_ms, fastest), &description)
}

fn method(report: &NthreadReport) -> Markup {
    html! {
        footer {
            h2 { "How it was measured" }
            ul.list { @for pace in &report.paces { li { (pace) } } }
            p {
                "Everything here is emulated: the machine " (report.machine.name) " is a file of bandwidths, latencies and \
                 cores, and accesses wait as long as it says. Programs are real and unmodified; each run had a fresh volume \
                 in memory, filled with emulated timing off. Throughput is what the programs report, on the emulated \
                 machine's clock. fio is shown in bytes/s with reads weighted by a third (NThread Eq. 1). With two \
                 instances, " i { "nova" } " is one single-node file system for each, whose machine has half of the cores. \
                 The bars of a chart were run in turn within each repetition, and ratios are medians of the ratios of each \
                 repetition. While threads get no CPU of the host for more than 1 ms, the machine's clock stands still, so \
                 that what else the host does makes the machine slower for all and not for some."
            }
        }
    }
}
