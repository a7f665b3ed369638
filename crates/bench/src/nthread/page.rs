//! The report as one page that needs nothing but itself.

use super::figure::Figure;
use super::report::{NthreadReport, dash, percent, throughput, times, verdict};
use super::rows::{Bar, MEAN};
use crate::chart::{self, Group, Ink};
use crate::demo::html::{STYLE, escape, inks};
use egeria_harness::Result;

/// What this page adds to the style of the other report.
const MORE_STYLE: &str = include_str!("page.css");

/// The whole page.
///
/// # Errors
/// When a picture cannot be drawn.
pub fn page(report: &NthreadReport) -> Result<String> {
    let figures: Result<String> = Figure::ALL
        .into_iter()
        .map(|figure| section(report, figure))
        .collect();
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Egeria: threads go where their data is</title>\n\
         <style>\n{STYLE}{MORE_STYLE}{inks}</style>\n</head>\n<body>\n<main>\n\
         {head}{goals}{disagreements}{figures}{method}</main>\n</body>\n</html>\n",
        inks = inks(),
        head = head(report),
        goals = goals(report),
        disagreements = disagreements(report),
        figures = figures?,
        method = method(report),
    ))
}

fn head(report: &NthreadReport) -> String {
    let machine = &report.machine;
    let goals = report.goals();
    let run = goals.iter().filter(|goal| goal.reached().is_some()).count();
    let reached = goals
        .iter()
        .filter(|goal| goal.reached() == Some(true))
        .count();
    let (class, aims) = match (run, reached) {
        (0, _) if report.failures.is_empty() => ("quiet", "These rows have no aim.".to_owned()),
        (run, reached) if run == reached && report.failures.is_empty() => {
            ("good", format!("All {run} aims reached."))
        }
        _ => ("bad", format!("{reached} of {run} aims reached.")),
    };
    let failed = match report.failures.len() {
        0 => String::new(),
        count => format!(" {count} runs failed."),
    };
    let extent = match report.complete {
        true => "All figures",
        false => "A part of the figures",
    };
    let disturbed = report.disturbance().map_or(String::new(), |line| {
        format!("<p class=\"bad\">{}</p>\n", escape(&line))
    });
    let facts = [
        (
            "emulated machine",
            format!(
                "{}: {} nodes, each {}",
                machine.name, machine.nodes, machine.node
            ),
        ),
        ("host", report.host.clone()),
        ("programs", report.versions.join(", ")),
        (
            "time",
            format!("{:.0} s of wall time in all", report.seconds),
        ),
    ];
    let facts: String = facts
        .iter()
        .map(|(name, fact)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(fact)))
        .collect();
    format!(
        "<header>\n<h1>Threads go where their data is: NThread on unmodified programs</h1>\n\
         <p class=\"verdict {class}\">{aims}{failed}</p>\n\
         <p>{extent}. {}</p>\n{disturbed}<dl>\n{facts}</dl>\n</header>\n",
        escape(&report.note()),
    )
}

fn goals(report: &NthreadReport) -> String {
    let line = |goal: &super::Goal| {
        let (value, row) = goal.worst.clone().unzip();
        let class = match goal.reached() {
            Some(true) => "good",
            Some(false) => "bad",
            None => "quiet",
        };
        format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"{class}\">{}</td></tr>\n",
            escape(&goal.what),
            value.map_or(dash(), |value| format!("{value:.2}")),
            escape(&row.unwrap_or_default()),
            verdict(goal),
        )
    };
    let lines: String = report.goals().iter().map(line).collect();
    format!(
        "<section>\n<h2>To reach</h2>\n<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">figure</th>\
         <th scope=\"col\">worst value</th><th scope=\"col\">of</th><th scope=\"col\">reached</th></tr></thead>\n\
         <tbody>\n{lines}</tbody>\n</table></div>\n</section>\n"
    )
}

fn disagreements(report: &NthreadReport) -> String {
    let all = report.disagreements();
    let failures = report.failures.iter().map(|failure| {
        format!(
            "<li><b>failed</b> <span class=\"bad\">{}</span></li>\n",
            escape(failure)
        )
    });
    let lines = all.iter().map(|each| {
        let (row, cause) = (escape(&each.row), escape(each.cause));
        let (ours, paper) = (each.ours, each.paper);
        format!("<li><b>{row}</b>: {ours:.2}x here, {paper:.2}x in the paper: {cause}</li>\n")
    });
    let lines: String = failures.chain(lines).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!(
            "<section>\n<h2>Where it differs from the paper by more than a third, and the likely cause</h2>\n<ul class=\"one\">\n{lines}</ul>\n</section>\n"
        ),
    }
}

/// Colour of a bar.
fn ink(config: &str) -> Ink {
    match config {
        "nova" | "crowded" | "limit_100" => Ink::Nova,
        "nova_n" | "weight_1/2" => Ink::NovaN,
        "rl" | "nova_best" | "limit_80" => Ink::Rl,
        "cpu" | "nova_worst" | "limit_130" => Ink::Cpu,
        "nm" | "limit_110" => Ink::Nm,
        "full" | "spread" | "limit_90" | "weight_1/3" => Ink::Full,
        "weight_1" => Ink::Rl,
        "weight_1/4" => Ink::Nm,
        _ => Ink::Remote,
    }
}

fn section(report: &NthreadReport, figure: Figure) -> Result<String> {
    let bars: Vec<&Bar> = report
        .bars
        .iter()
        .filter(|bar| bar.figure == figure)
        .collect();
    if bars.is_empty() {
        return Ok(String::new());
    }
    let (name, title) = (figure.name(), escape(figure.title()));
    let (picture, table) = (picture(figure, &bars)?, table(&bars)?);
    Ok(format!(
        "<section>\n<h2>Figure {name}: {title}</h2>\n{picture}\n<details open><summary>All rows, with bandwidth over time</summary>\n{table}</details>\n</section>\n"
    ))
}

fn picture(figure: Figure, bars: &[&Bar]) -> Result<String> {
    let mut configs: Vec<&str> = Vec::new();
    for bar in bars {
        if !configs.contains(&bar.row.config.as_str()) {
            configs.push(&bar.row.config);
        }
    }
    let same = |one: &&Bar, other: &&Bar| {
        one.row.workload == other.row.workload && one.row.threads == other.row.threads
    };
    let groups: Vec<Group> = bars
        .chunk_by(same)
        .map(|chunk| group(figure, chunk))
        .collect();
    let key = |config: &&str| {
        format!(
            "<span><i class=\"key {}\"></i>{config}</span>",
            ink(config).name()
        )
    };
    let keys: String = configs.iter().map(key).collect();
    let caption = match figure {
        Figure::Nine => "bandwidth with different weights of a byte read".to_owned(),
        _ => format!(
            "throughput, times {}; a dark line: the paper",
            figure.baseline()
        ),
    };
    let description = format!(
        "Bar chart of figure {}: {caption}. The figures are in the table below.",
        figure.name()
    );
    let svg = chart::draw(&groups, &description)?;
    Ok(format!(
        "<figure>\n<figcaption><b>{caption}</b><span class=\"keys\">{keys}</span></figcaption>\n{svg}</figure>\n"
    ))
}

fn group(figure: Figure, chunk: &[&Bar]) -> Group {
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
            _ => format!("{}{paper}, {absolute}", times(value)),
        };
        chart::Bar {
            ink: ink(&row.config),
            value: value.unwrap_or(0.0),
            label,
            mark: row.paper_vs_nova,
        }
    };
    Group {
        name,
        bars: chunk.iter().map(bar).collect(),
        stacked: false,
    }
}

fn table(bars: &[&Bar]) -> Result<String> {
    let most = |bar: &Bar| {
        let rates = bar
            .series
            .iter()
            .flat_map(|moment| moment.read_bytes_s.iter().chain(&moment.written_bytes_s));
        rates.copied().fold(0.0, f64::max)
    };
    let fastest = bars.iter().map(|bar| most(bar)).fold(0.0, f64::max);
    let rows: Result<String> = bars.iter().map(|bar| table_row(bar, fastest)).collect();
    let heading = [
        "workload",
        "config",
        "throughput",
        "least to largest",
        "vs nova",
        "vs nova_n",
        "paper",
        "local",
        "moves",
        "node 0 over time",
        "node 1 over time",
    ];
    let heading: String = heading
        .iter()
        .map(|cell| format!("<th scope=\"col\">{cell}</th>"))
        .collect();
    Ok(format!(
        "<div class=\"wide\"><table class=\"rows\">\n<thead><tr>{heading}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n\
         <p class=\"quiet\"><span class=\"keys\"><span><i class=\"key local\"></i>read</span>\
         <span><i class=\"key remote\"></i>written</span></span> Charts over time end at {:.1} GB/s; \
         they show the last repetition from its first access on.</p>\n",
        rows?,
        fastest / 1e9,
    ))
}

fn table_row(bar: &Bar, fastest: f64) -> Result<String> {
    let row = &bar.row;
    let workload = match row.instances {
        1 => format!("{}, {} threads", row.workload, row.threads),
        count => format!("{}, {count} x {} threads", row.workload, row.threads),
    };
    let range = bar.range.map_or(dash(), |(least, largest)| {
        let of = |value: f64| row.throughput.map_or(0.0, |median| value / median * 100.0);
        format!("{:.0} to {:.0} %", of(least), of(largest))
    });
    let cells = [
        row.config.clone(),
        throughput(row.throughput, bar.unit),
        range,
        times(row.vs_nova),
        times(row.vs_nova_n),
        times(row.paper_vs_nova),
        percent(row.local_share),
        row.moves.map_or(dash(), |moves| moves.to_string()),
    ];
    let cells: String = cells
        .iter()
        .map(|cell| format!("<td>{}</td>", escape(cell)))
        .collect();
    let lines: Result<String> = (0..2)
        .map(|node| {
            Ok(format!(
                "<td class=\"line\">{}</td>",
                over_time(bar, node, fastest)?
            ))
        })
        .collect();
    Ok(format!(
        "<tr><th scope=\"row\">{}</th>{cells}{}</tr>\n",
        escape(&workload),
        lines?
    ))
}

fn over_time(bar: &Bar, node: usize, fastest: f64) -> Result<String> {
    let Some(last) = bar.series.last() else {
        return Ok(String::new());
    };
    let points = |side: fn(&super::Moment) -> &Vec<f64>| {
        let point = |moment: &super::Moment| {
            (
                moment.at_ms,
                side(moment).get(node).copied().unwrap_or_default(),
            )
        };
        bar.series.iter().map(point).collect::<Vec<_>>()
    };
    let lines = [
        (Ink::Local, points(|moment| &moment.read_bytes_s)),
        (Ink::Remote, points(|moment| &moment.written_bytes_s)),
    ];
    let (row, length_ms) = (&bar.row, last.at_ms);
    let description = format!(
        "Bandwidth of node {node} over {length_ms:.0} ms of machine time, {} {}",
        row.workload, row.config
    );
    chart::draw_lines(&lines, (length_ms, fastest), &description)
}

fn method(report: &NthreadReport) -> String {
    let paces: String = report
        .paces
        .iter()
        .map(|pace| format!("<li>{}</li>\n", escape(pace)))
        .collect();
    format!(
        "<footer>\n<h2>How it was measured</h2>\n<ul class=\"one\">\n{paces}</ul>\n<p>Everything here is emulated: the machine \
         {} is a file of bandwidths, latencies and cores, and accesses wait as long as it says. Programs are real and \
         unmodified; each run had a fresh volume in memory, filled with emulated timing off. Throughput is what the \
         programs report, on the emulated machine's clock. fio is told in bytes/s with reads weighted by a third \
         (NThread Eq. 1). With two instances, <i>nova</i> is one single-node file system for each, whose machine has half \
         of the cores. The bars of a chart were run in turn within each repetition.</p>\n</footer>\n",
        escape(&report.machine.name)
    )
}
