//! The figures, as rows, as a table and as a picture.

use maud::Markup;
use serde::Serialize;

use crate::colors;
use crate::experiment::{Column, group, table, within};
use crate::names::{bar, bars, times};

/// Figures of one job: medians over the rounds, s. `None`: it failed every time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EverydayRow {
    pub job: String,
    pub tmpfs_s: Option<f64>,
    /// On the volume, with the preload library.
    pub run_s: Option<f64>,
    /// On its mount, without.
    pub mount_s: Option<f64>,
    pub loopback_s: Option<f64>,
    /// How far the rounds of a place lie apart, as a share of its figure (0.1: 10 %): the most of all places; `None` after
    /// one round.
    pub spread: Option<f64>,
    /// Whether every result of every round was right everywhere.
    pub verified: bool,
}

/// Result of [`super::run`]. Serialised, it is the array of its rows and nothing else.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct EverydayReport {
    pub rows: Vec<EverydayRow>,
    /// What went wrong, a line each.
    #[serde(skip)]
    pub failures: Vec<String>,
    /// Jobs left out for a program that is missing, a line each.
    #[serde(skip)]
    pub skipped: Vec<String>,
    /// Rounds the medians are over.
    #[serde(skip)]
    pub rounds: usize,
    /// What the tree was.
    #[serde(skip)]
    pub tree: String,
}

impl EverydayReport {
    /// Whether every result was right.
    pub fn all_verified(&self) -> bool {
        self.rows.iter().all(|row| row.verified)
    }

    /// A table for people, with a line that says what it shows.
    pub fn table(&self) -> String {
        let columns: &[Column<EverydayRow>] = &[
            ("job", |row| row.job.clone()),
            (">tmpfs s", |row| seconds(row.tmpfs_s)),
            (">run s", |row| seconds(row.run_s)),
            (">of tmpfs", |row| of_tmpfs(row, row.run_s)),
            (">mount s", |row| seconds(row.mount_s)),
            (">of tmpfs", |row| of_tmpfs(row, row.mount_s)),
            (">loopback s", |row| seconds(row.loopback_s)),
            (">of tmpfs", |row| of_tmpfs(row, row.loopback_s)),
            (">verified", |row| {
                if row.verified { "yes" } else { "NO" }.to_owned()
            }),
        ];
        let words = format!(
            "Medians of {} rounds on {}: with the preload library (run), on the mount without it, and on a loopback \
             over tmpfs through FUSE.",
            self.rounds, self.tree
        );
        table(columns, &self.rows, &words)
    }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| match value {
        value if value < 0.1 => format!("{value:.3}"),
        value => format!("{value:.2}"),
    })
}

fn of_tmpfs(row: &EverydayRow, value: Option<f64>) -> String {
    times(value.unwrap_or(0.0), value.and(row.tmpfs_s).unwrap_or(0.0))
}

/// What jobs took, beside tmpfs.
pub(crate) fn picture(rows: &[EverydayRow]) -> Markup {
    let one = |row: &EverydayRow| {
        let bar = |color, value: Option<f64>| {
            let label = match value {
                Some(_) => format!("{} s, {} ×", seconds(value), of_tmpfs(row, value)),
                None => "failed".to_owned(),
            };
            let [value, tmpfs] = [value, row.tmpfs_s].map(Option::unwrap_or_default);
            bar(color, value, tmpfs, label)
        };
        group(
            format!(
                "{} ({} s{})",
                row.job,
                seconds(row.tmpfs_s),
                within(row.spread)
            ),
            vec![
                bar(colors::EGERIA, row.run_s),
                bar(colors::MOUNT, row.mount_s),
                bar(colors::TMPFS, row.loopback_s),
            ],
        )
    };
    bars(
        "Everyday programs on many small files: time, as times that of tmpfs (in brackets; the line). ±: how far rounds lie from the middle",
        rows.iter().map(one).collect(),
    )
}
