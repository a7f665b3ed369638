//! `egeria machine --self-test`: is an emulated machine as fast as it says?

use std::process::ExitCode;

use egeria_machine::{AccessKind, Machine, format_bandwidth, format_bytes};
use egeria_media::emulation::{
    EmulationError, Readers, Row, SelfTest, SharingRow, self_test, sharing_test,
};
use serde::Serialize;

use crate::machine_choice::MachineLabel;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};
use egeria_cli::progress;

/// How far a measurement may be off, as a share.
const LIMIT: f64 = 0.05;

#[derive(Serialize)]
struct Document {
    machine: MachineLabel,
    rows: Vec<RowDocument>,
    /// Two readers of 4 KiB and the last-level cache; empty without one.
    sharing: Vec<SharingDocument>,
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

#[derive(Serialize)]
struct SharingDocument {
    readers: &'static str,
    expected_ns: f64,
    measured_ns: f64,
    deviation: f64,
    /// How many times as fast reading together is.
    expected_gain: f64,
    measured_gain: f64,
    gain_deviation: f64,
}

impl From<SharingRow> for SharingDocument {
    fn from(row: SharingRow) -> SharingDocument {
        SharingDocument {
            readers: match row.readers {
                Readers::Together => "one file, one node",
                Readers::OwnFiles => "own files, own nodes",
                Readers::OwnNodes => "one file, two nodes",
            },
            expected_ns: row.expected_ns,
            measured_ns: row.measured_ns,
            deviation: row.deviation(),
            expected_gain: row.expected_gain,
            measured_gain: row.measured_gain,
            gain_deviation: row.gain_deviation(),
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
    let (rows, sharing) = progress::spinning("measuring emulated accesses", || {
        let test = SelfTest::default();
        Ok((self_test(machine, &test)?, sharing_test(machine, &test)?))
    })
    .map_err(|error: EmulationError| Failure::new(error))?;
    let rows: Vec<RowDocument> = rows.into_iter().map(RowDocument::from).collect();
    let sharing: Vec<SharingDocument> = sharing.into_iter().map(SharingDocument::from).collect();
    if rows.is_empty() {
        return Err(Failure::new(format!(
            "{} declares nodes without timing; set `timing = true` in [emulation]",
            machine.name
        )));
    }
    let of_sharing = sharing
        .iter()
        .flat_map(|row| [row.deviation, row.gain_deviation]);
    let all = rows.iter().map(|row| row.deviation).chain(of_sharing);
    let worst = all.fold(0.0, larger);
    let document = Document {
        machine: MachineLabel::of(machine),
        rows,
        sharing,
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
        "{}: {remark}, machine time\n{}{}",
        document.machine.name,
        output::table(&headers, rows.collect()),
        sharing_table(&document.sharing)
    )
}

/// What two readers gain from being together, after an empty line; nothing without a cache.
fn sharing_table(rows: &[SharingDocument]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let percent = |gain: f64| format!("{:+.1} %", 100.0 * (gain - 1.0));
    let cells = rows.iter().map(|row| {
        vec![
            row.readers.to_owned(),
            format!("{:.0} ns", row.expected_ns),
            format!("{:.0} ns", row.measured_ns),
            percent(row.expected_gain),
            percent(row.measured_gain),
            format!("{:+.1} %", 100.0 * row.gain_deviation),
        ]
    });
    let headers = [
        "two readers",
        ">declared",
        ">measured",
        ">together gains",
        ">measured",
        ">off by",
    ];
    format!("\n{}", output::table(&headers, cells.collect()))
}
