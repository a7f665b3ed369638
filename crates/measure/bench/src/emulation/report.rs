//! The figures, as JSON, as a table and as a page.

use egeria_report::chart::Bar;
use egeria_stats::aims::{Aim, list};
use egeria_stats::statistics::median;
use maud::html;
use serde::Serialize;

use crate::colors;
use crate::experiment::{Column, group, page_of, picture, table};

/// One program of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmulationRow {
    /// What was run together.
    pub scenario: String,
    pub program: String,
    /// The machine's profile.
    pub machine: String,
    /// Its first nodes, so many.
    pub nodes: usize,
    /// Threads of the program.
    pub threads: usize,
    pub request_bytes: u64,
    /// Share of requests that read.
    pub read_share: f64,
    /// Computing between two accesses, as measured; given to the model, machine ns.
    pub think_ns: f64,
    /// Host time per machine time.
    pub dilation: f64,
    /// What the program moved on the emulation, bytes/s of machine time.
    pub emulated_bytes_s: f64,
    /// What the model says, bytes/s.
    pub predicted_bytes_s: f64,
    /// `emulated / predicted - 1`.
    pub error: f64,
}

/// Result of [`super::run`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmulationReport {
    /// Median of the errors' sizes.
    pub median: f64,
    /// Largest of them.
    pub worst: f64,
    /// What these figures are aimed at.
    pub aims: Vec<Aim>,
    /// One per program.
    pub rows: Vec<EmulationRow>,
    /// Rounds the medians are over.
    #[serde(skip)]
    pub rounds: usize,
}

impl EmulationReport {
    pub(super) fn of(rows: Vec<EmulationRow>, rounds: usize) -> EmulationReport {
        let errors: Vec<f64> = rows.iter().map(|row| row.error.abs()).collect();
        let worst = errors.iter().copied().fold(0.0, f64::max);
        let median = median(&errors).unwrap_or(0.0);
        EmulationReport {
            median,
            worst,
            aims: vec![
                Aim::at_most("median error", 0.1, median),
                Aim::at_most("worst error", 0.25, worst),
            ],
            rows,
            rounds,
        }
    }

    /// A table for people, with a line that says what it shows.
    pub fn table(&self) -> String {
        let columns: &[Column<EmulationRow>] = &[
            ("scenario", |row| row.scenario.clone()),
            ("of it", |row| row.program.clone()),
            (">think ns", |row| format!("{:.0}", row.think_ns)),
            (">emulated GB/s", |row| {
                format!("{:.3}", row.emulated_bytes_s / 1e9)
            }),
            (">predicted GB/s", |row| {
                format!("{:.3}", row.predicted_bytes_s / 1e9)
            }),
            (">off", |row| format!("{:+.1} %", row.error * 100.0)),
        ];
        table(columns, &self.rows, &self.summary())
    }

    fn summary(&self) -> String {
        format!(
            "fio on emulated machines (median of {}), compared with what the model predicts. Nothing here was measured on the \
             machines that the profiles describe. {}",
            match self.rounds {
                1 => "one round".to_owned(),
                rounds => format!("{rounds} rounds"),
            },
            list(&self.aims).trim_end().replace('\n', "; ")
        )
    }

    /// A page of its own.
    pub fn page(&self) -> String {
        let one = |row: &EmulationRow| {
            let (gb_s, off) = (row.emulated_bytes_s / 1e9, row.error * 100.0);
            let bar = Bar {
                color: colors::EGERIA,
                value: row.emulated_bytes_s / row.predicted_bytes_s,
                label: format!("{gb_s:.2} GB/s, {off:+.1} %"),
                mark: Some(1.0),
            };
            group(format!("{} ({})", row.program, row.threads), vec![bar])
        };
        let scenarios = self
            .rows
            .chunk_by(|one, other| one.scenario == other.scenario);
        let keys = [(
            colors::EGERIA,
            "emulated, as times the prediction (the line)",
        )];
        let drawn = |rows: &[EmulationRow]| {
            let name = &rows[0].scenario;
            let description = format!("{name}: emulated beside predicted");
            picture(
                None,
                name,
                &keys,
                rows.iter().map(one).collect(),
                &description,
            )
        };
        let pictures = html! { @for rows in scenarios { (drawn(rows)) } };
        let title = "Emulation and model";
        page_of(title, title, &self.summary(), &pictures, "")
    }
}
