//! The figures, as JSON, as a table and as a page.

use comfy_table::{CellAlignment, Table, presets};
use egeria_report::chart::{Bar, BarGroup, Bars};
use egeria_report::page;
use egeria_stats::statistics::median;
use maud::{Markup, html};
use serde::Serialize;

use super::found::Found;
use crate::colors;

/// One system: medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelocationRow {
    /// `off`, `full` (NThread) or `all`.
    pub policy: String,
    /// What all readers got, bytes/s of machine time.
    pub bytes_s: f64,
    /// The same, as times what NThread gives.
    pub of_nthread: f64,
    /// Bytes of the files that lie on the other node at the end.
    pub moved_bytes: f64,
    /// Threads moved, each time counted.
    pub thread_moves: f64,
}

/// What counts most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RelocationSummary {
    /// What readers get with everything, as times what they get with NThread.
    pub of_nthread: f64,
}

/// Result of [`super::run`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelocationReport {
    /// What counts most.
    pub summary: RelocationSummary,
    /// One per system.
    pub rows: Vec<RelocationRow>,
    /// Where the figures come from.
    pub emulated: bool,
    /// Rounds the medians are over.
    #[serde(skip)]
    pub rounds: usize,
}

impl RelocationRow {
    pub(super) fn of(policy: &str, found: &[Found]) -> RelocationRow {
        let over = |what: fn(&Found) -> f64| {
            let values: Vec<f64> = found.iter().map(what).collect();
            median(&values).unwrap_or(0.0)
        };
        RelocationRow {
            policy: policy.to_owned(),
            bytes_s: over(|found| found.moved.bytes_s()),
            of_nthread: 1.0,
            moved_bytes: over(|found| found.elsewhere_bytes as f64),
            thread_moves: over(|found| found.thread_moves as f64),
        }
    }
}

impl RelocationReport {
    pub(super) fn of(mut rows: Vec<RelocationRow>, rounds: usize) -> RelocationReport {
        let of = |rows: &[RelocationRow], policy: &str| {
            let row = rows.iter().find(|row| row.policy == policy);
            row.map_or(f64::NAN, |row| row.bytes_s)
        };
        let nthread = of(&rows, "full");
        for row in &mut rows {
            row.of_nthread = row.bytes_s / nthread;
        }
        RelocationReport {
            summary: RelocationSummary {
                of_nthread: of(&rows, "all") / nthread,
            },
            rows,
            emulated: true,
            rounds,
        }
    }

    /// A table for people, with a line that says what it shows.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        table.set_header(["policy", "GB/s", "of NThread", "moved MiB", "threads moved"]);
        for row in &self.rows {
            table.add_row([
                row.policy.clone(),
                format!("{:.2}", row.bytes_s / 1e9),
                format!("{:.2}", row.of_nthread),
                format!("{:.0}", row.moved_bytes / f64::from(1 << 20)),
                format!("{:.0}", row.thread_moves),
            ]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{table}\n{}", self.words())
    }

    fn words(&self) -> String {
        format!(
            "32 readers of files that lay on one of two emulated nodes (odin-8s), medians of {} rounds: moving files as well gives {:.2} times \
             what NThread gives, which moves threads. Nothing was measured on persistent memory.",
            self.rounds, self.summary.of_nthread
        )
    }

    /// The figure for other pages.
    pub fn picture(&self) -> Markup {
        let group = |row: &RelocationRow| BarGroup {
            name: match row.policy.as_str() {
                "off" => "nobody acts".to_owned(),
                "full" => "NThread".to_owned(),
                _ => "all, with relocation".to_owned(),
            },
            bars: vec![Bar {
                color: match row.policy.as_str() {
                    "off" => colors::NOVA,
                    _ => colors::EMULATED,
                },
                value: row.bytes_s / 1e9,
                label: format!(
                    "{:.1} GB/s, {:.2} × NThread",
                    row.bytes_s / 1e9,
                    row.of_nthread
                ),
                mark: None,
            }],
            stacked: false,
        };
        let bars = Bars {
            groups: self.rows.iter().map(group).collect(),
        };
        page::figure(
            Some("relocation"),
            "32 readers of one node's files on two nodes (emulated)",
            &html! {},
            &bars.draw("Bandwidth without a policy, with NThread, and with relocation"),
            &html! {},
        )
    }

    /// A page of its own.
    pub fn page(&self) -> String {
        let body = html! {
            h1 { "Relocation" }
            p { (self.words()) }
            (self.picture())
            pre { (self.table()) }
        };
        page::page("Relocation on an emulated machine", colors::STYLE, &body)
    }
}
