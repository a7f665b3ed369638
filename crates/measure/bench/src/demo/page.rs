//! The report as one page.

use egeria_report::chart::{Bar, BarGroup, Color};
use egeria_report::page::facts;
use egeria_report::table::{Cell, heading, number, table, verdict};
use egeria_stats::text::thousands;
use maud::{Markup, html};

use super::report::{DemoReport, DemoRow, Family, Throughput, bytes, rate};
use crate::experiment::{group, picture};
use crate::{colors, everyday, names};

/// The whole page.
pub fn page(report: &DemoReport) -> String {
    let body = html! {
        (head(report))
        (pictures(report))
        section { h2 { "All figures" } (figures(report)) }
        section { h2 { "How the data was checked" } (checks(report)) }
        (method(report))
    };
    let title = "Egeria: unmodified programs on two nodes";
    egeria_report::page::page(title, colors::STYLE, &body)
}

fn head(report: &DemoReport) -> Markup {
    let machine = &report.machine;
    let class = if report.all_verified() { "good" } else { "bad" };
    let kind = if machine.emulated {
        "emulated machine"
    } else {
        "machine"
    };
    let nodes = format!(
        "{}: {} nodes, each {}",
        machine.name, machine.nodes, machine.node
    );
    let about = [
        (kind, nodes),
        ("host", report.host.clone()),
        ("programs", report.versions.join(", ")),
        ("time", format!("{:.0} s in all", report.seconds)),
    ];
    html! {
        header {
            h1 { "Unmodified programs on a file system that spans " (machine.nodes) " nodes" }
            p.verdict.(class) { (report.verdict()) }
            p { (report.note()) }
            (facts(&about))
        }
    }
}

fn pictures(report: &DemoReport) -> Markup {
    let of = |family: Family| -> Vec<&DemoRow> {
        let rows = report.rows.iter();
        rows.filter(|row| row.family == family).collect()
    };
    let families = [
        (Family::Fio, "fio, 4 KiB"),
        (Family::Rocksdb, "RocksDB, values of 4 KB"),
        (Family::Everyday, "Everyday programs"),
    ];
    let emulated = report.rows.iter();
    let emulated: Vec<&DemoRow> = emulated
        .filter(|row| row.egeria_emulated.is_some())
        .collect();
    let of_emulated = format!(
        "Throughput on {}, emulated, in that machine's time",
        report.machine.name
    );
    html! {
        @for (family, title) in families {
            (throughput_figure(
                &of(family),
                &format!("{title}: throughput at this machine's own speed"),
                &[("Egeria", colors::EGERIA, |row| row.egeria), ("tmpfs", colors::TMPFS, |row| row.tmpfs)],
            ))
        }
        (throughput_figure(
            &emulated,
            &of_emulated,
            &[("Egeria, emulated", colors::EMULATED, |row| row.egeria_emulated)],
        ))
        (placement_figure(report))
        (names::picture(&report.names))
        (everyday::picture(&report.jobs))
        @if let Some(pats) = &report.pats { (pats.picture()) }
        @if let Some(odin) = &report.odin { (odin.picture()) }
        @if let Some(relocation) = &report.relocation { (relocation.picture()) }
    }
}

/// Bars of a figure: their name, colour and value.
type Series = (&'static str, Color, fn(&DemoRow) -> Option<Throughput>);

fn throughput_figure(rows: &[&DemoRow], caption: &str, series: &[Series]) -> Markup {
    let bar = |row: &DemoRow, (_, color, value): &Series| {
        let value = value(row);
        Bar {
            color: *color,
            value: value.map_or(0.0, |throughput| throughput.bytes_s),
            label: value.map_or("failed".to_owned(), |throughput| rate(Some(throughput))),
            mark: None,
        }
    };
    let of = |row: &&DemoRow| {
        let bars = series.iter().map(|series| bar(row, series));
        group(short_name(row), bars.collect())
    };
    let keys: Vec<(Color, &str)> = series
        .iter()
        .map(|(name, color, _)| (*color, *name))
        .collect();
    bar_figure(rows.iter().map(of).collect(), caption, &keys)
}

fn placement_figure(report: &DemoReport) -> Markup {
    let shares = |row: &DemoRow| {
        let share = row.local_share()?;
        let bar = |color, value, bytes_moved, place| Bar {
            color,
            value,
            label: format!("{} {place}", bytes(bytes_moved)),
            mark: None,
        };
        Some(BarGroup {
            name: row.name_with_family(),
            bars: vec![
                bar(colors::LOCAL, share, row.local_bytes, "local"),
                bar(colors::REMOTE, 1.0 - share, row.remote_bytes, "remote"),
            ],
            stacked: true,
        })
    };
    let caption =
        "Bytes on the node where the thread ran, and on the other: shares of each program";
    let keys = [(colors::LOCAL, "local"), (colors::REMOTE, "remote")];
    bar_figure(
        report.rows.iter().filter_map(shares).collect(),
        caption,
        &keys,
    )
}

fn bar_figure(groups: Vec<BarGroup>, caption: &str, keys: &[(Color, &str)]) -> Markup {
    if groups.is_empty() {
        return html! {};
    }
    let description = format!("Bar chart. {caption}. The figures are in the table below.");
    picture(None, caption, keys, groups, &description)
}

fn short_name(row: &DemoRow) -> String {
    match row.family {
        Family::Everyday => row.name(),
        _ => row.workload.clone(),
    }
}

fn figures(report: &DemoReport) -> Markup {
    let emulated = report.has_emulated_figures();
    let mut headers = vec!["program".to_owned()];
    headers.extend(emulated.then(|| report.emulated_heading()));
    let rest = [
        "Egeria",
        "tmpfs",
        "local bytes",
        "remote bytes",
        "calls served directly",
        "calls passed on",
        "verified",
    ];
    headers.extend(rest.map(str::to_owned));
    let rows = report.rows.iter();
    let rows: Vec<Vec<Cell>> = rows.map(|row| table_row(row, emulated)).collect();
    table(&headers, &rows)
}

fn table_row(row: &DemoRow, emulated: bool) -> Vec<Cell> {
    let mut cells = vec![heading(row.name())];
    cells.extend(emulated.then(|| number(rate(row.egeria_emulated))));
    let figures = [
        rate(row.egeria),
        rate(row.tmpfs),
        bytes(row.local_bytes),
        bytes(row.remote_bytes),
    ];
    cells.extend(figures.map(number));
    let calls = [row.direct_calls, row.passed_calls];
    cells.extend(calls.map(|calls| number(thousands(calls as f64))));
    cells.push(verdict(row.verified, "yes", "NO"));
    cells
}

fn checks(report: &DemoReport) -> Markup {
    html! {
        ul.list.checks {
            @for row in &report.rows {
                li {
                    b { (row.name()) } " "
                    @match &row.failure {
                        Some(failure) => span.bad { (failure) },
                        None => span.good { (row.verification) },
                    }
                }
            }
        }
    }
}

fn method(report: &DemoReport) -> Markup {
    html! {
        footer {
            p {
                "Each program ran unmodified, with the preload library, on a scratch volume with one pool in memory for each \
                 node, and without it on tmpfs, in the same run. Egeria makes every write durable, with cache-line flushes \
                 and fences, before it returns; tmpfs does not."
                " Names and everyday programs on many files are figures of this machine: with the preload library, on the same \
                 volume's mount without it, and on a minimal loopback over tmpfs through FUSE, whose kernel keeps names \
                 and attributes for a second."
                @if report.has_emulated_figures() {
                    " Bytes and calls of fio and RocksDB are those of the emulated run."
                }
            }
        }
    }
}

impl DemoRow {
    fn name_with_family(&self) -> String {
        match self.family {
            Family::Rocksdb => self.workload.clone(),
            _ => self.name(),
        }
    }
}
