//! What `egeria trace` and `egeria replay` share: opening a recording, naming it, and printing
//! long documents window by window, in bounded memory.

use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use egeria_facts::Facts;
use egeria_machine::{Machine, NamedPath};
use egeria_trace::{Ending, Reader, TraceError, VERSION};
use serde::{Serialize, Serializer};

use crate::machine_choice::MachineLabel;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output;

/// Bytes of output kept together.
const CHUNK_BYTES: usize = 1 << 16;

/// Opens a recording.
pub(in crate::commands) fn open(path: &Path) -> Outcome<Reader> {
    Reader::open(path).map_err(failed)
}

/// Opens a recording that was read before, to read it once more.
pub(super) fn again(path: &Path, machine: &Machine) -> Outcome<Reader> {
    let reader = open(path)?;
    if reader.machine() == machine {
        return Ok(reader);
    }
    Err(Failure::new(format!(
        "{} changed while it was read; read it again",
        path.display()
    )))
}

/// The facts of a recording, window after window.
pub(in crate::commands) fn facts(reader: &mut Reader) -> impl Iterator<Item = Outcome<Facts>> + '_ {
    reader.by_ref().map(|facts| facts.map_err(failed))
}

fn failed(error: TraceError) -> Failure {
    Failure::new(error)
}

/// What is known of a recording before and after its windows.
#[derive(Serialize)]
pub(super) struct Label {
    path: NamedPath,
    format_version: u32,
    volume: Option<String>,
    command: Vec<String>,
    /// The policy that moved threads while it was recorded.
    #[serde(rename = "recorded_policy")]
    pub(super) policy: String,
    started_unix_ns: u64,
    machine: MachineLabel,
    nodes: Vec<u16>,
    ending: &'static str,
    warning: Option<String>,
}

impl Label {
    /// The label of a recording after all its windows were read.
    pub(super) fn of(path: &Path, reader: &Reader) -> Label {
        let (header, machine) = (reader.header(), reader.machine());
        Label {
            path: path.into(),
            format_version: VERSION,
            volume: header.volume.map(|volume| volume.to_string()),
            command: header.command.clone(),
            policy: header.policy.clone(),
            started_unix_ns: header.started_unix_ns,
            machine: MachineLabel::of(machine),
            nodes: machine.nodes.iter().map(|node| node.id.0).collect(),
            ending: ending_name(reader.ending()),
            warning: reader.warning(),
        }
    }

    /// Says on stderr when the recording does not end as it should.
    pub(super) fn warn(&self) {
        if let Some(warning) = &self.warning {
            output::complain(&format!("warning: {warning}"));
        }
    }

    pub(super) fn text(&self, machine: &Machine) -> String {
        let mut lines = vec![("trace", self.path.to_string())];
        if !self.command.is_empty() {
            lines.push(("command", self.command.join(" ")));
        }
        lines.extend(self.volume.clone().map(|volume| ("volume", volume)));
        let emulated = self.machine.remark().map(|remark| format!(", {remark}"));
        let count = machine.nodes.len();
        let nodes = if count == 1 { "node" } else { "nodes" };
        let machine = format!(
            "{}, {count} {nodes}{}",
            self.machine.name,
            emulated.unwrap_or_default()
        );
        lines.push(("machine", machine));
        lines.push(("policy", self.policy.clone()));
        lines.push(("began", utc(self.started_unix_ns)));
        let line =
            |(name, value): (&str, String)| format!("{name:<8} {}\n", output::printable(&value));
        lines.into_iter().map(line).collect()
    }
}

fn ending_name(ending: Option<Ending>) -> &'static str {
    match ending {
        Some(Ending::Finished) => "finished",
        Some(Ending::StillRecording) => "still_recording",
        Some(Ending::Cut { .. }) => "cut",
        Some(Ending::Unfinished) | None => "unfinished",
    }
}

/// A wall-clock time as `2026-11-21 08:15:00 UTC`.
pub(in crate::commands) fn utc(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (day, hour, minute) = (days + 1, second / 3600, second / 60 % 60);
    let second = second % 60;
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// A sequence that is made while it is printed. An error in it ends it and is kept.
pub(super) struct Stream<'a, I> {
    items: RefCell<I>,
    failure: &'a RefCell<Option<Failure>>,
}

impl<'a, I> Stream<'a, I> {
    pub(super) fn new(items: I, failure: &'a RefCell<Option<Failure>>) -> Stream<'a, I> {
        Stream {
            items: RefCell::new(items),
            failure,
        }
    }
}

impl<T: Serialize, I: Iterator<Item = Outcome<T>>> Serialize for Stream<'_, I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut items = self.items.borrow_mut();
        serializer.collect_seq(items.by_ref().map_while(|item| match item {
            Ok(item) => Some(item),
            Err(failure) => {
                self.failure.borrow_mut().get_or_insert(failure);
                None
            }
        }))
    }
}

/// Prints a JSON document, not all of which need be in memory at a time.
pub(super) fn print_json<T: Serialize>(
    document: &T,
    failure: &RefCell<Option<Failure>>,
) -> Outcome {
    let mut writer = BufWriter::with_capacity(CHUNK_BYTES, Stdout { failure });
    let written = serde_json::to_writer_pretty(&mut writer, document)
        .map_err(io::Error::from)
        .and_then(|()| writer.write_all(b"\n"))
        .and_then(|()| writer.flush());
    // Nothing more may be tried when the writer is dropped.
    let _ = writer.into_parts();
    match (failure.take(), written) {
        (Some(failure), _) => Err(failure),
        (None, Err(error)) => Err(Failure::new(format!(
            "cannot print: {error}; please report this"
        ))),
        (None, Ok(())) => Ok(()),
    }
}

struct Stdout<'a> {
    failure: &'a RefCell<Option<Failure>>,
}

impl Write for Stdout<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match output::print(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(failure) => {
                self.failure.borrow_mut().get_or_insert(failure);
                Err(io::ErrorKind::Other.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds: u64| utc(seconds * 1_000_000_000);
        assert_eq!(at(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(at(1_767_225_599), "2025-12-31 23:59:59 UTC");
        assert_eq!(at(4_107_542_400), "2100-03-01 00:00:00 UTC");
        assert_eq!(utc(u64::MAX), "2554-07-21 23:34:33 UTC");
    }
}
