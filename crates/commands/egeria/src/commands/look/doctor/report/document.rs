//! What a report says, as a document and as text.

use std::path::Path;
use std::time::SystemTime;

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::printable;
use egeria_machine::Machine;
use serde::Serialize;

use super::super::works;
use super::names::Names;
use super::observe::Observed;
use crate::commands::control::recording;
use crate::commands::look::decision_log::unix_ns;
use crate::commands::look::diagnose::Document as Placement;
use crate::commands::machines::machine;
use egeria_doctor::State;

/// What `egeria doctor --report --json` prints.
#[derive(Serialize)]
pub(super) struct Document {
    /// The version of egeria that made it.
    egeria: &'static str,
    /// The version of the recording's format.
    trace_format: u32,
    made_unix_ns: u64,
    machine: Machine,
    /// What programs did, as the recording says.
    placement: Placement,
    /// How that was seen.
    sources: Vec<String>,
    /// What else moved threads and memory at that time.
    others: Vec<String>,
    /// What is missing, and why.
    missing: Vec<String>,
    /// What works on the machine, and with which rights.
    doctor: works::Document,
    /// What was measured before.
    measured: Vec<Measurement>,
    /// What stand-ins are for, where that was asked for.
    names: Option<Names>,
}

/// What a report is made of.
pub(super) struct Parts {
    pub(super) machine: Machine,
    pub(super) works: works::Document,
    pub(super) placement: Placement,
    pub(super) measured: Vec<Measurement>,
    pub(super) observed: Observed,
}

/// Something that was measured, or why it was not.
#[derive(Serialize)]
pub(super) struct Measurement {
    /// The command that measures the same.
    command: String,
    /// What it prints.
    text: Option<String>,
    missing: Option<String>,
}

impl Measurement {
    pub(super) fn of(command: &str, figures: Outcome<String>) -> Measurement {
        let (text, missing) = match figures {
            Ok(text) => (Some(text), None),
            Err(failure) => (None, Some(words(failure))),
        };
        Measurement {
            command: command.to_owned(),
            text,
            missing,
        }
    }
}

fn words(failure: Failure) -> String {
    match failure {
        Failure::Cause(line) | Failure::Usage(line) | Failure::Status(_, line) => line,
        Failure::Interrupted(_) | Failure::BrokenPipe => "it was interrupted".to_owned(),
    }
}

impl Document {
    pub(super) fn new(parts: Parts) -> Document {
        let Parts {
            works: doctor,
            placement,
            measured,
            observed,
            machine,
        } = parts;
        let mut missing = observed.unseen;
        let lacking = doctor.abilities.iter();
        let lacking = lacking.filter(|ability| ability.state != State::Works);
        missing.extend(lacking.filter_map(|ability| {
            let fix = ability.fix.as_ref()?;
            let name = ability.name.replace('_', " ");
            Some(format!("{name}: {}; {fix}", ability.because))
        }));
        let unmeasured = measured.iter().filter_map(|measured| {
            let why = measured.missing.as_ref()?;
            Some(format!("{}: {why}", measured.command))
        });
        missing.extend(unmeasured);
        let names = observed.names.as_ref();
        Document {
            egeria: env!("CARGO_PKG_VERSION"),
            trace_format: egeria_trace::VERSION,
            made_unix_ns: unix_ns(SystemTime::now()),
            machine,
            names: names.map(|names| Names::of(names, &placement)),
            placement,
            sources: observed.sources,
            others: observed.others,
            missing,
            doctor,
            measured,
        }
    }

    /// The report for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "Report of `egeria doctor --report`\n\n\
             made on {} by egeria {}, recordings of format {}\n{}\n\n{HELP}\n",
            recording::utc(self.made_unix_ns),
            self.egeria,
            self.trace_format,
            if self.names.is_some() {
                "Programs, threads and files have stand-ins; the last part says what these are for."
            } else {
                "Programs, threads and files have stand-ins. There are no names of programs, files, users or the host."
            },
        );
        let mut parts = vec![
            ("Placement of programs", self.placement.human()),
            ("How programs were seen", list(&self.sources)),
            ("What else moves threads and memory", list(&self.others)),
            ("What is missing", list(&self.missing)),
            ("The machine", machine::text(&self.machine)),
            (
                "What works, and with which rights",
                works::human(&self.doctor),
            ),
        ];
        for measured in &self.measured {
            parts.extend(measured.text.clone().map(|text| (&*measured.command, text)));
        }
        let names = self.names.as_ref().map(Names::text);
        parts.extend(names.map(|names| ("What the stand-ins are for", names)));
        for (heading, part) in parts {
            let line = "=".repeat(heading.chars().count());
            text += &format!("\n{heading}\n{line}\n\n{}\n", part.trim_end());
        }
        text
    }

    /// What is printed where it was written.
    pub(super) fn summary(&self, report: &Path, trace: &Path) -> String {
        let placement = &self.placement;
        let faults = match (&placement.nothing_because, placement.faults) {
            (Some(because), _) => because.clone(),
            (None, 0) if placement.programs.is_empty() => {
                "No program was seen at work; the report says what is missing.".to_owned()
            }
            (None, 0) => "Nothing is wrong with the placement of programs.".to_owned(),
            (None, 1) => "One program is misplaced.".to_owned(),
            (None, faults) => format!("{faults} programs are misplaced."),
        };
        let names = if self.names.is_some() {
            "It has names of programs, users, command lines and files; read it before you send it."
        } else {
            "Neither file has names of programs, users or files; read the report before you send it."
        };
        let [report, trace] = [report, trace].map(|path| printable(&path.to_string_lossy()));
        format!("{faults}\nreport     {report}\nrecording  {trace}\n{names}\n")
    }
}

/// For the reader.
const HELP: &str = "\
Would a steward help? The recording was made at the same time, and its file ends
in .trace. This says of each program what is wrong, and how much faster it would
probably be without that (an estimate of the planner):

  egeria diagnose --trace FILE

What each policy would do, window by window: egeria replay FILE --policy all
What the reads and writes of files would get on another machine, by the model:
egeria sim --machine MACHINE --trace FILE";

fn list(lines: &[String]) -> String {
    match lines {
        [] => "nothing\n".to_owned(),
        lines => lines.iter().map(|line| format!("- {line}\n")).collect(),
    }
}
