//! The report as one page that needs nothing but itself: no scripts, no fonts, no addresses.

use super::report::{DemoReport, DemoRow, Family, Throughput, bytes, rate};
use crate::chart::{self, Bar, Group, Ink};
use egeria_harness::Result;
use egeria_harness::text::thousands;

/// Colours and type; follows the reader's choice of light or dark.
pub(crate) const STYLE: &str = include_str!("report.css");

/// The whole page.
///
/// # Errors
/// When a picture cannot be drawn.
pub fn page(report: &DemoReport) -> Result<String> {
    let pictures = pictures(report)?;
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Egeria: unmodified programs on two nodes</title>\n<style>\n{STYLE}{inks}</style>\n</head>\n<body>\n<main>\n\
         {head}{pictures}{table}{checks}{method}</main>\n</body>\n</html>\n",
        inks = inks(),
        head = head(report),
        table = table(report),
        checks = checks(report),
        method = method(report),
    ))
}

/// Text as HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Style that turns the pictures' placeholders into the page's colours.
pub(crate) fn inks() -> String {
    let rule = |ink: Ink| {
        let (color, name) = (ink.placeholder_text(), ink.name());
        format!(
            "svg [fill=\"{color}\"] {{ fill: var(--{name}) }}\nsvg [stroke=\"{color}\"] {{ stroke: var(--{name}) }}\n.key.{name} {{ background: var(--{name}) }}\n"
        )
    };
    Ink::ALL.into_iter().map(rule).collect()
}

fn head(report: &DemoReport) -> String {
    let machine = &report.machine;
    let (class, verdict) = (
        if report.all_verified() { "good" } else { "bad" },
        escape(&report.verdict()),
    );
    let kind = if machine.emulated {
        "emulated machine"
    } else {
        "machine"
    };
    let facts = [
        (
            kind,
            format!(
                "{}: {} nodes, each {}",
                machine.name, machine.nodes, machine.node
            ),
        ),
        ("host", report.host.clone()),
        ("programs", report.versions.join(", ")),
        ("time", format!("{:.0} s in all", report.seconds)),
    ];
    let facts: String = facts
        .iter()
        .map(|(name, fact)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(fact)))
        .collect();
    format!(
        "<header>\n<h1>Unmodified programs on a file system that spans {} nodes</h1>\n\
         <p class=\"verdict {class}\">{verdict}</p>\n<p>{}</p>\n<dl>\n{facts}</dl>\n</header>\n",
        machine.nodes,
        escape(&report.note()),
    )
}

fn pictures(report: &DemoReport) -> Result<String> {
    let mut text = String::new();
    let all: Vec<&DemoRow> = report.rows.iter().collect();
    let of = |family: Family| -> Vec<&DemoRow> {
        all.iter()
            .copied()
            .filter(|row| row.family == family)
            .collect()
    };
    let two = [Ink::Egeria, Ink::Tmpfs];
    for (family, title) in [
        (Family::Fio, "fio, 4 KiB"),
        (Family::Rocksdb, "RocksDB, values of 4 KB"),
        (Family::Everyday, "Everyday programs"),
    ] {
        let caption = format!("{title}: throughput at this machine's own speed");
        text += &throughput_figure(&of(family), &caption, &two)?;
    }
    let emulated: Vec<&DemoRow> = all
        .iter()
        .copied()
        .filter(|row| row.egeria_emulated.is_some())
        .collect();
    let caption = format!(
        "Throughput on {}, emulated, in that machine's time",
        report.machine.name
    );
    text += &throughput_figure(&emulated, &caption, &[Ink::Emulated])?;
    text += &placement_figure(&all)?;
    Ok(text)
}

fn throughput_figure(rows: &[&DemoRow], caption: &str, inks: &[Ink]) -> Result<String> {
    let value = |row: &DemoRow, ink: Ink| -> Option<Throughput> {
        match ink {
            Ink::Emulated => row.egeria_emulated,
            Ink::Tmpfs => row.tmpfs,
            _ => row.egeria,
        }
    };
    let bar = |row: &DemoRow, ink: Ink| Bar {
        ink,
        value: value(row, ink).map_or(0.0, |throughput| throughput.bytes_s),
        label: value(row, ink).map_or("failed".to_owned(), |throughput| rate(Some(throughput))),
        mark: None,
    };
    let groups: Vec<Group> = rows
        .iter()
        .map(|row| Group {
            name: short_name(row),
            bars: inks.iter().map(|ink| bar(row, *ink)).collect(),
            stacked: false,
        })
        .collect();
    figure(&groups, caption, inks)
}

fn placement_figure(rows: &[&DemoRow]) -> Result<String> {
    let moved = rows
        .iter()
        .filter_map(|row| Some((row, row.local_share()?)));
    let groups: Vec<Group> = moved
        .map(|(row, share)| Group {
            name: row.name_with_family(),
            bars: vec![
                Bar {
                    ink: Ink::Local,
                    value: share,
                    label: format!("{} local", bytes(row.local_bytes)),
                    mark: None,
                },
                Bar {
                    ink: Ink::Remote,
                    value: 1.0 - share,
                    label: format!("{} remote", bytes(row.remote_bytes)),
                    mark: None,
                },
            ],
            stacked: true,
        })
        .collect();
    let caption =
        "Bytes on the node where the thread ran, and on the other: shares of each program";
    figure(&groups, caption, &[Ink::Local, Ink::Remote])
}

fn figure(groups: &[Group], caption: &str, inks: &[Ink]) -> Result<String> {
    if groups.is_empty() {
        return Ok(String::new());
    }
    let name = |ink: &Ink| match ink {
        Ink::Egeria => "Egeria",
        Ink::Emulated => "Egeria, emulated",
        Ink::Tmpfs => "tmpfs",
        Ink::Local => "local",
        _ => "remote",
    };
    let key = |ink: &Ink| {
        format!(
            "<span><i class=\"key {}\"></i>{}</span>",
            ink.name(),
            name(ink)
        )
    };
    let keys: String = inks.iter().map(key).collect();
    let description = format!("Bar chart. {caption}. The figures are in the table below.");
    let svg = chart::draw(groups, &description)?;
    let caption = escape(caption);
    Ok(format!(
        "<figure>\n<figcaption><b>{caption}</b><span class=\"keys\">{keys}</span></figcaption>\n{svg}</figure>\n"
    ))
}

fn short_name(row: &DemoRow) -> String {
    match row.family {
        Family::Everyday => row.name(),
        _ => row.workload.clone(),
    }
}

fn table(report: &DemoReport) -> String {
    let emulated = report.has_emulated_figures();
    let mut heading = vec!["program".to_owned()];
    heading.extend(emulated.then(|| report.emulated_heading()));
    let rest = [
        "Egeria",
        "tmpfs",
        "local bytes",
        "remote bytes",
        "calls served directly",
        "calls passed on",
        "verified",
    ];
    heading.extend(rest.map(str::to_owned));
    let heading: String = heading
        .iter()
        .map(|cell| format!("<th scope=\"col\">{}</th>", escape(cell)))
        .collect();
    let rows: String = report
        .rows
        .iter()
        .map(|row| table_row(row, emulated))
        .collect();
    format!(
        "<section>\n<h2>All figures</h2>\n<div class=\"wide\"><table>\n<thead><tr>{heading}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n</section>\n"
    )
}

fn table_row(row: &DemoRow, emulated: bool) -> String {
    let mut cells = Vec::new();
    cells.extend(emulated.then(|| rate(row.egeria_emulated)));
    cells.extend([
        rate(row.egeria),
        rate(row.tmpfs),
        bytes(row.local_bytes),
        bytes(row.remote_bytes),
    ]);
    cells.extend([row.direct_calls, row.passed_calls].map(|calls| thousands(calls as f64)));
    let cells: String = cells
        .iter()
        .map(|cell| format!("<td>{}</td>", escape(cell)))
        .collect();
    let verified = if row.verified {
        "<td class=\"good\">yes</td>"
    } else {
        "<td class=\"bad\">NO</td>"
    };
    format!(
        "<tr><th scope=\"row\">{}</th>{cells}{verified}</tr>\n",
        escape(&row.name())
    )
}

fn checks(report: &DemoReport) -> String {
    let line = |row: &DemoRow| {
        let (class, how) = match &row.failure {
            Some(failure) => ("bad", failure.as_str()),
            None => ("good", row.verification.as_str()),
        };
        format!(
            "<li><b>{}</b> <span class=\"{class}\">{}</span></li>\n",
            escape(&row.name()),
            escape(how)
        )
    };
    let lines: String = report.rows.iter().map(line).collect();
    format!("<section>\n<h2>How the data was checked</h2>\n<ul>\n{lines}</ul>\n</section>\n")
}

fn method(report: &DemoReport) -> String {
    let emulated = match report.has_emulated_figures() {
        true => " Bytes and calls of fio and RocksDB are those of the emulated run.",
        false => "",
    };
    format!(
        "<footer>\n<p>Each program ran unmodified, with the preload library, on a scratch volume with one pool in memory \
         for each node, and without it on tmpfs, in the same run. Egeria makes every write durable, with cache-line \
         flushes and fences, before it returns; tmpfs does not.{emulated}</p>\n</footer>\n"
    )
}

impl DemoRow {
    fn name_with_family(&self) -> String {
        match self.family {
            Family::Rocksdb => self.workload.clone(),
            _ => self.name(),
        }
    }
}
