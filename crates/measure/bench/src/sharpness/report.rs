//! The figures, as rows and as a table.

use serde::Serialize;

use crate::experiment::{Column, table};

/// One program and one way to look at it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// `joined`: all pieces in one mapping; `apart`: each in its own.
    pub layout: &'static str,
    pub piece_bytes: u64,
    /// The way.
    pub source: &'static str,
    /// Share of the used memory that is ranked as used; a median over windows, as the next.
    pub used_found: Option<f64>,
    /// Share of the unused memory that is ranked as unused.
    pub unused_found: Option<f64>,
    /// CPU time of the threads that look, ms per window; a mean, as the next.
    pub looking_ms: Option<f64>,
    /// CPU time of the kernel's own threads for that, ms per window.
    pub kernel_ms: Option<f64>,
    /// Why there is no figure.
    pub missing: Option<String>,
}

/// Result of [`super::run`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SharpnessReport {
    pub window_ms: f64,
    /// Windows that medians are over.
    pub windows: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    pub rows: Vec<Row>,
}

impl SharpnessReport {
    /// A table for people, with a line that says what it shows.
    pub fn table(&self) -> String {
        let missing = self.rows.iter().filter_map(|row| {
            let why = row.missing.as_ref()?;
            Some(format!("\n{}: {why}", row.source))
        });
        let mut missing: Vec<String> = missing.collect();
        missing.dedup();
        let columns: &[Column<Row>] = &[
            ("pieces", |row| row.layout.to_owned()),
            (">of, KiB", |row| (row.piece_bytes >> 10).to_string()),
            ("source", |row| row.source.to_owned()),
            (">used found", |row| share(row.used_found)),
            (">unused found", |row| share(row.unused_found)),
            (">looking, ms", |row| milliseconds(row.looking_ms)),
            (">kernel, ms", |row| milliseconds(row.kernel_ms)),
        ];
        let words = format!(
            "A quarter of {} MiB is used. Medians (CPU time: means) of {} windows of {:.0} ms, Linux {}.{}",
            self.memory_bytes >> 20,
            self.windows,
            self.window_ms,
            self.kernel,
            missing.concat()
        );
        table(columns, &self.rows, &words)
    }
}

fn share(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{:.0} %", value * 100.0))
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.2}"))
}
