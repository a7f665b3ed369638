//! The figures, as rows, as a table and as a picture.

use egeria_report::chart::{Bar, BarGroup, Color};
use egeria_stats::text::thousands;
use maud::{Markup, html};
use serde::Serialize;

use super::plan::{Case, Sharing};
use crate::colors;
use crate::experiment::{self, Column, apart, group, over, table, within};

/// Figures of one case: medians over the rounds. Time is that of a call, ns; of several threads, the time in
/// which one call of any of them is done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamesRow {
    /// What was done; see [`super::plan::Operation::name`].
    pub op: String,
    /// Threads at once.
    pub threads: usize,
    /// Whose directory: `own`, `shared` or `fresh`.
    pub directory: String,
    /// Names in each directory; in a fresh one, at its fullest.
    pub entries: usize,
    pub tmpfs_ns: f64,
    /// On the volume, with the preload library.
    pub run_ns: f64,
    /// On its mount, without.
    pub mount_ns: f64,
    pub loopback_ns: f64,
    /// How far the rounds of a place lie apart, as a share of its figure (0.1: 10 %): the most of all places; `None` after
    /// one round.
    pub spread: Option<f64>,
}

impl NamesRow {
    /// The row of a case from its rounds, each with all places.
    pub(super) fn of_rounds(case: &Case, rounds: &[Vec<f64>]) -> NamesRow {
        let middle = |place: usize| over(rounds, |round| round[place]).round();
        NamesRow {
            op: case.operation.name().to_owned(),
            threads: case.threads,
            directory: case.sharing.name().to_owned(),
            entries: case.entries,
            tmpfs_ns: middle(0),
            run_ns: middle(1),
            mount_ns: middle(2),
            loopback_ns: middle(3),
            spread: apart((0..4).map(|place| rounds.iter().map(|round| round[place]).collect())),
        }
    }
}

/// Result of [`super::run`]. Serialised, it is the array of its rows and nothing else.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct NamesReport {
    pub rows: Vec<NamesRow>,
    /// Rounds the medians are over.
    #[serde(skip)]
    pub rounds: usize,
}

impl NamesReport {
    /// A table for people, with a line that says what it shows.
    pub fn table(&self) -> String {
        let columns: &[Column<NamesRow>] = &[
            ("op", |row| row.op.clone()),
            (">threads", |row| row.threads.to_string()),
            ("directory", |row| row.directory.clone()),
            (">names", |row| thousands(row.entries as f64)),
            (">tmpfs ns", |row| thousands(row.tmpfs_ns)),
            (">run ns", |row| thousands(row.run_ns)),
            (">of tmpfs", |row| times(row.run_ns, row.tmpfs_ns)),
            (">mount ns", |row| thousands(row.mount_ns)),
            (">of tmpfs", |row| times(row.mount_ns, row.tmpfs_ns)),
            (">loopback ns", |row| thousands(row.loopback_ns)),
            (">of tmpfs", |row| times(row.loopback_ns, row.tmpfs_ns)),
        ];
        let words = format!(
            "Time of one call, medians of {} rounds: with the preload library (run), on the mount without it, and on a loopback \
             over tmpfs through FUSE. Two threads: the time in which one call of either is done. readdir: each name. fresh: \
             in a directory that grows, on a volume that was just made.",
            self.rounds
        );
        table(columns, &self.rows, &words)
    }
}

/// How many times as long.
pub(crate) fn times(value: f64, tmpfs: f64) -> String {
    match tmpfs > 0.0 {
        true if value / tmpfs < 9.95 => format!("{:.2}", value / tmpfs),
        true => format!("{:.0}", value / tmpfs),
        false => "–".to_owned(),
    }
}

/// One place's bar: how many times tmpfs's time it took.
pub(crate) fn bar(color: Color, value: f64, tmpfs: f64, label: String) -> Bar {
    Bar {
        color,
        value: if tmpfs > 0.0 { value / tmpfs } else { 0.0 },
        label,
        mark: Some(1.0),
    }
}

/// A figure of bars for the three places beside tmpfs.
pub(crate) fn bars(caption: &str, groups: Vec<BarGroup>) -> Markup {
    if groups.is_empty() {
        return html! {};
    }
    let keys = [
        (colors::EGERIA, "with the library"),
        (colors::MOUNT, "mount"),
        (colors::TMPFS, "FUSE loopback"),
    ];
    experiment::picture(
        None,
        caption,
        &keys,
        groups,
        &format!("Bar chart. {caption}."),
    )
}

/// What one thread's calls took, beside tmpfs.
pub(crate) fn picture(rows: &[NamesRow]) -> Markup {
    let one = |row: &NamesRow| {
        let bar = |color, ns: f64| {
            let label = format!("{} µs, {} ×", microseconds(ns), times(ns, row.tmpfs_ns));
            bar(color, ns, row.tmpfs_ns, label)
        };
        let name = row.op.replace('_', " ");
        group(
            format!(
                "{name} ({} µs{})",
                microseconds(row.tmpfs_ns),
                within(row.spread)
            ),
            vec![
                bar(colors::EGERIA, row.run_ns),
                bar(colors::MOUNT, row.mount_ns),
                bar(colors::TMPFS, row.loopback_ns),
            ],
        )
    };
    let fresh = Sharing::Fresh.name();
    let rows = rows.iter();
    let rows = rows.filter(|row| row.threads == 1 && row.directory != fresh);
    bars(
        "Names: time of a call, as times that of tmpfs (in brackets; the line). ±: how far rounds lie from the middle",
        rows.map(one).collect(),
    )
}

fn microseconds(ns: f64) -> String {
    match ns / 1000.0 {
        us if us < 9.95 => format!("{us:.2}"),
        us => format!("{us:.0}"),
    }
}
