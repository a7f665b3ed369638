//! What the demonstration found out: rows, and a table for people.

use egeria_machine::NamedPath;
use egeria_stats::text::{self, thousands};
use serde::Serialize;

use crate::everyday::EverydayRow;
use crate::experiment::{Column, table};
use crate::names::NamesRow;
use crate::odin::OdinReport;
use crate::pats::PatsReport;
use crate::programs::Yield;
pub use crate::programs::host::MachineSummary;
use crate::relocation::RelocationReport;

/// What kind of program a row is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    Fio,
    /// RocksDB's `db_bench`.
    Rocksdb,
    /// `cp`, `tar`, `sqlite3`, `git`.
    Everyday,
}

/// How fast a program moved data.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Throughput {
    /// Bytes per second the program read and wrote.
    pub bytes_s: f64,
    /// Its operations per second, where it counts them.
    pub ops_s: Option<f64>,
}

impl From<Yield> for Throughput {
    fn from(given: Yield) -> Throughput {
        Throughput {
            bytes_s: given.read_bytes_s + given.written_bytes_s,
            ops_s: Some(given.operations_s),
        }
    }
}

impl Throughput {
    /// `factor` times as fast.
    pub(crate) fn times(self, factor: f64) -> Throughput {
        Throughput {
            bytes_s: self.bytes_s * factor,
            ops_s: self.ops_s.map(|ops_s| ops_s * factor),
        }
    }
}

/// One program and workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoRow {
    /// What kind of program it is.
    pub family: Family,
    pub program: String,
    pub workload: String,
    /// On Egeria, at the speed of the emulated machine (its time); absent when none is emulated and
    /// for everyday programs, which run with emulated timing off.
    pub egeria_emulated: Option<Throughput>,
    /// On Egeria at this machine's own speed.
    pub egeria: Option<Throughput>,
    /// On tmpfs, at this machine's own speed, in the same run.
    pub tmpfs: Option<Throughput>,
    /// Bytes read or written on the node where the thread ran.
    pub local_bytes: u64,
    /// Bytes on other nodes.
    pub remote_bytes: u64,
    /// Calls the preload library served itself.
    pub direct_calls: u64,
    /// Calls on files of the mount that it passed to the kernel.
    pub passed_calls: u64,
    /// Requests that reached the mount.
    pub mount_requests: u64,
    /// Whether the data was found right.
    pub verified: bool,
    /// How the data was checked.
    pub verification: String,
    /// What went wrong, if something did.
    pub failure: Option<String>,
}

impl DemoRow {
    /// A row nothing is known of yet.
    pub(crate) fn new(family: Family, program: &str, workload: impl Into<String>) -> DemoRow {
        DemoRow {
            family,
            program: program.to_owned(),
            workload: workload.into(),
            egeria_emulated: None,
            egeria: None,
            tmpfs: None,
            local_bytes: 0,
            remote_bytes: 0,
            direct_calls: 0,
            passed_calls: 0,
            mount_requests: 0,
            verified: false,
            verification: String::new(),
            failure: None,
        }
    }

    /// Program and workload in one.
    pub fn name(&self) -> String {
        format!("{} {}", self.program, self.workload)
    }

    /// Share of the bytes that were local; `None` without bytes.
    pub fn local_share(&self) -> Option<f64> {
        let total = self.local_bytes + self.remote_bytes;
        (total > 0).then(|| self.local_bytes as f64 / total as f64)
    }
}

/// Result of [`super::run`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoReport {
    /// The machine the volume spanned.
    pub machine: MachineSummary,
    /// Processor and kernel this ran on.
    pub host: String,
    /// Versions of the programs.
    pub versions: Vec<String>,
    /// One per program and workload.
    pub rows: Vec<DemoRow>,
    /// What names cost, one thread, small directories; as of `egeria-lab bench names`.
    pub names: Vec<NamesRow>,
    /// Everyday programs on a small tree; as of `egeria-lab bench everyday`.
    pub jobs: Vec<EverydayRow>,
    /// Copies on DRAM beside writers to persistent memory, emulated; as of `egeria-lab bench pats`. None of these in a quick run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pats: Option<PatsReport>,
    /// Striped files on eight nodes, emulated; as of `egeria-lab bench odin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub odin: Option<OdinReport>,
    /// Readers of one node's files, emulated; as of `egeria-lab bench relocation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relocation: Option<RelocationReport>,
    /// Time everything took, s.
    pub seconds: f64,
    /// The page with pictures.
    pub html: NamedPath,
    pub json: NamedPath,
}

impl DemoReport {
    /// The rows whose program failed or whose data is wrong.
    pub fn failures(&self) -> impl Iterator<Item = &DemoRow> {
        self.rows
            .iter()
            .filter(|row| !row.verified || row.failure.is_some())
    }

    /// Whether every program ran and every byte was right.
    pub fn all_verified(&self) -> bool {
        let jobs = self.jobs.iter().all(|job| job.verified);
        !self.rows.is_empty() && self.failures().next().is_none() && jobs
    }

    /// One line: how many of the programs' data is right.
    pub fn verdict(&self) -> String {
        let wrong_jobs = self.jobs.iter().filter(|job| !job.verified).count();
        let failed = self.failures().count() + wrong_jobs;
        let all = self.rows.len() + self.jobs.len();
        match failed {
            0 => format!("All {all} runs verified."),
            _ => format!("{failed} of {all} runs failed or have wrong data."),
        }
    }

    /// How the column with emulated figures is named.
    pub(crate) fn emulated_heading(&self) -> String {
        format!("Egeria ({}, emulated)", self.machine.name)
    }

    /// Whether there are emulated figures at all.
    pub(crate) fn has_emulated_figures(&self) -> bool {
        self.rows.iter().any(|row| row.egeria_emulated.is_some())
    }

    /// A table for people, failures below it, and where the reports are.
    pub fn table(&self) -> String {
        let emulated = format!(">{}", self.emulated_heading());
        let mut columns: Vec<Column<DemoRow>> = vec![
            ("program", DemoRow::name),
            (">Egeria", |row| rate(row.egeria)),
            (">tmpfs", |row| rate(row.tmpfs)),
            (">local", |row| bytes(row.local_bytes)),
            (">remote", |row| bytes(row.remote_bytes)),
            (">direct", |row| thousands(row.direct_calls as f64)),
            (">passed", |row| thousands(row.passed_calls as f64)),
            (">verified", |row| {
                if row.verified { "yes" } else { "NO" }.to_owned()
            }),
        ];
        if self.has_emulated_figures() {
            columns.insert(1, (&emulated, |row| rate(row.egeria_emulated)));
        }
        let mut text = table(&columns, &self.rows, &self.verdict());
        for row in self.failures() {
            let why = row
                .failure
                .as_deref()
                .unwrap_or("the data was not verified");
            text.push_str(&format!("\n  {}: {why}", row.name()));
        }
        for job in self.jobs.iter().filter(|job| !job.verified) {
            text.push_str(&format!("\n  {} on many files: wrong or failed", job.job));
        }
        text.push_str(&format!("\n{}", self.note()));
        text.push_str(&format!("\nReport: {}\nFigures: {}", self.html, self.json));
        text
    }

    /// What the columns mean.
    pub(crate) fn note(&self) -> String {
        let host = "The columns Egeria and tmpfs are DRAM at this machine's own speed. Each program of the table ran \
                    once, so how far its runs differ is not known.";
        match (self.has_emulated_figures(), self.machine.dilation) {
            (true, Some(dilation)) => format!(
                "Emulated figures are in the time of the machine {} (one second of it took {dilation} s here). {host}",
                self.machine.name
            ),
            _ => host.to_owned(),
        }
    }
}

/// A throughput for people, or a dash.
pub(crate) fn rate(throughput: Option<Throughput>) -> String {
    throughput.map_or("–".to_owned(), |throughput| {
        format!("{}/s", text::bytes(throughput.bytes_s))
    })
}

/// A number of bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    text::bytes(count as f64)
}
