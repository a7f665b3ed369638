//! The figures, as rows and as a table.

use serde::Serialize;

use crate::experiment::{Column, table};

/// One program and one source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What ran: `reads`, `memory` or `threads`.
    pub subject: &'static str,
    /// Where, for reads: the directory and its file system.
    pub place: Option<String>,
    /// What was looked at.
    pub source: String,
    /// Operations per second without the source; medians as all of these.
    pub off_ops_s: Option<f64>,
    pub on_ops_s: Option<f64>,
    /// The share of them that the source took: the median of the pairs.
    pub overhead: Option<f64>,
    /// The smallest and largest of the pairs.
    pub overhead_range: Option<[f64; 2]>,
    /// The same by the program's own CPU time, which other programs disturb less; waiting for who looks is not in it.
    pub overhead_of_cpu: Option<f64>,
    /// CPU time of who looks, of one core.
    pub core_share: Option<f64>,
    /// What is wanted, at most: of `overhead`, and for `threads` of `core_share`.
    pub max: f64,
    /// Whether it is so; `None` without a figure.
    pub holds: Option<bool>,
    /// Why there is no figure.
    pub missing: Option<String>,
}

/// Result of [`super::run`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverheadReport {
    /// The steward's window, ms.
    pub window_ms: f64,
    /// How long each program was measured at a time, ms.
    pub measure_ms: f64,
    /// Pairs that the medians are over.
    pub rounds: usize,
    /// Threads of the rows `threads`.
    pub threads: u64,
    /// CPUs of the machine.
    pub cpus: usize,
    pub kernel: String,
    /// One per program and source.
    pub rows: Vec<Row>,
}

impl OverheadReport {
    /// A table for people, with a line that says what it shows.
    pub fn table(&self) -> String {
        let missing = self.rows.iter().filter_map(|row| {
            let why = row.missing.as_ref()?;
            Some(format!("\n{}, {}: {why}", row.subject, row.source))
        });
        let columns: &[Column<Row>] = &[
            ("program", |row| match &row.place {
                Some(place) => format!("{}, {place}", row.subject),
                None => row.subject.to_owned(),
            }),
            ("source", |row| row.source.clone()),
            (">off, ops/s", |row| number(row.off_ops_s)),
            (">on, ops/s", |row| number(row.on_ops_s)),
            (">lost", |row| share(row.overhead)),
            (">pairs", |row| {
                let text =
                    |[low, high]: [f64; 2]| format!("{:.1} to {:.1} %", low * 100.0, high * 100.0);
                row.overhead_range.map_or(String::new(), text)
            }),
            (">of its CPU time", |row| share(row.overhead_of_cpu)),
            (">of a core", |row| share(row.core_share)),
            (">wanted", |row| format!("{:.1} %", row.max * 100.0)),
            (">holds", |row| match row.holds {
                Some(true) => "yes".to_owned(),
                Some(false) => "NO".to_owned(),
                None => "not here".to_owned(),
            }),
        ];
        let words = format!(
            "Medians of {} pairs of {:.0} ms, windows of {:.0} ms, {} CPUs, Linux {}.{}",
            self.rounds,
            self.measure_ms,
            self.window_ms,
            self.cpus,
            self.kernel,
            missing.collect::<String>()
        );
        table(columns, &self.rows, &words)
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.0}"))
}

fn share(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{:.2} %", value * 100.0))
}
