//! `egeria machine --self-test`: is an emulated machine as fast as it says?

use std::process::ExitCode;

use egeria_machine::{AccessKind, Machine, format_bandwidth, format_bytes};
use egeria_media::emulation::{Row, SelfTest, self_test};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::machine_choice::MachineLabel;
use crate::output::{self, Format};
use crate::progress;

/// How far a measurement may be off, as a share.
const LIMIT: f64 = 0.05;

#[derive(Serialize)]
struct Document {
    machine: MachineLabel,
    rows: Vec<RowDocument>,
    /// The largest deviation, as a share.
    worst_deviation: f64,
    limit: f64,
    within_limit: bool,
}

#[derive(Serialize)]
struct RowDocument {
    kind: &'static str,
    remote: bool,
    bytes: u64,
    threads: u32,
    expected_ns: f64,
    measured_ns: f64,
    expected_bytes_s: f64,
    measured_bytes_s: f64,
    deviation: f64,
}

impl From<Row> for RowDocument {
    fn from(row: Row) -> RowDocument {
        RowDocument {
            kind: match row.kind {
                AccessKind::Read => "read",
                AccessKind::Write => "write",
            },
            remote: row.remote,
            bytes: row.bytes,
            threads: row.threads,
            expected_ns: row.expected_ns,
            measured_ns: row.measured_ns,
            expected_bytes_s: row.expected_bytes_s,
            measured_bytes_s: row.measured_bytes_s,
            deviation: row.deviation(),
        }
    }
}

/// Measures; the status is 1 when something is off by more than the limit.
pub fn run(machine: &Machine, format: Format) -> Outcome<ExitCode> {
    if !machine.is_emulated() {
        return Err(Failure::new(
            "this machine is real and has nothing to test; name an emulated one, as --machine optane-2s",
        ));
    }
    let rows = progress::spinning("measuring emulated accesses", || {
        self_test(machine, &SelfTest::default())
    });
    let rows: Vec<RowDocument> = rows
        .map_err(Failure::new)?
        .into_iter()
        .map(RowDocument::from)
        .collect();
    if rows.is_empty() {
        return Err(Failure::new(format!(
            "{} declares nodes without timing; set `timing = true` in [emulation]",
            machine.name
        )));
    }
    let worst = rows.iter().map(|row| row.deviation).fold(0.0, larger);
    let document = Document {
        machine: MachineLabel::of(machine),
        rows,
        worst_deviation: worst,
        limit: LIMIT,
        within_limit: worst.abs() <= LIMIT,
    };
    format.print(&document, human)?;
    if document.within_limit {
        return Ok(ExitCode::SUCCESS);
    }
    output::complain(&format!(
        "emulated accesses are up to {:+.1} % off; repeat on an idle machine, or raise the dilation",
        100.0 * worst
    ));
    Ok(ExitCode::FAILURE)
}

/// The one further from zero; not a number counts as furthest.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a.abs() > b.abs() {
        a
    } else {
        b
    }
}

fn human(document: &Document) -> String {
    let rows = document.rows.iter().map(|row| {
        vec![
            row.kind.to_owned(),
            if row.remote { "remote" } else { "local" }.to_owned(),
            format_bytes(row.bytes),
            row.threads.to_string(),
            format!("{:.0} ns", row.expected_ns),
            format!("{:.0} ns", row.measured_ns),
            format_bandwidth(row.expected_bytes_s),
            format_bandwidth(row.measured_bytes_s),
            format!("{:+.1} %", 100.0 * row.deviation),
        ]
    });
    let headers = [
        "access",
        "node",
        ">size",
        ">threads",
        ">declared",
        ">measured",
        ">declared",
        ">measured",
        ">off by",
    ];
    let remark = document.machine.remark().unwrap_or_default();
    format!(
        "{}: {remark}, machine time\n{}",
        document.machine.name,
        output::table(&headers, rows.collect())
    )
}
