//! The figures, as JSON, as a table and as a page.

use egeria_report::chart::Bar;
use maud::Markup;
use serde::Serialize;

use crate::colors;
use crate::experiment::{Column, group, page_of, picture, table};

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
        const MIB: f64 = (1 << 20) as f64;
        let columns: &[Column<RelocationRow>] = &[
            ("policy", |row| row.policy.clone()),
            (">GB/s", |row| format!("{:.2}", row.bytes_s / 1e9)),
            (">of NThread", |row| format!("{:.2}", row.of_nthread)),
            (">moved MiB", |row| format!("{:.0}", row.moved_bytes / MIB)),
            (">threads moved", |row| format!("{:.0}", row.thread_moves)),
        ];
        table(columns, &self.rows, &self.words())
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
        let one = |row: &RelocationRow| {
            let (name, color) = match row.policy.as_str() {
                "off" => ("nobody acts", colors::NOVA),
                "full" => ("NThread", colors::EMULATED),
                _ => ("all, with relocation", colors::EMULATED),
            };
            let gb_s = row.bytes_s / 1e9;
            let bar = Bar {
                color,
                value: gb_s,
                label: format!("{gb_s:.1} GB/s, {:.2} × NThread", row.of_nthread),
                mark: None,
            };
            group(name, vec![bar])
        };
        picture(
            Some("relocation"),
            "32 readers of one node's files on two nodes (emulated)",
            &[],
            self.rows.iter().map(one).collect(),
            "Bandwidth without a policy, with NThread, and with relocation",
        )
    }

    /// A page of its own.
    pub fn page(&self) -> String {
        let title = "Relocation on an emulated machine";
        page_of(
            title,
            "Relocation",
            &self.words(),
            &self.picture(),
            &self.table(),
        )
    }
}
