//! `egeria doctor --report`: one file about this machine and its programs for other people, and a recording next to it.
//!
//! What the report says of programs is read from the recording, which has stand-ins for names. So it can have no name
//! that the recording does not have, and other people find the same in the recording.

mod document;
mod lab;
mod names;
mod observe;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use egeria_doctor::Facts;
use egeria_machine::Machine;
use egeria_pages::accesses::Way;
use egeria_trace::StandIns;

use super::works;
use crate::commands::look::diagnose::recorded;
use crate::commands::machines::machine::calibrate;
use crate::commands::whole_file::WholeFile;
use crate::machine_choice::MachineArguments;
use document::{Document, Measurement, Parts};
use egeria_cli::durations;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};
use egeria_cli::signals::Signals;
use observe::{Observed, Wish};

/// The file when none is named.
const REPORT: &str = "egeria-report.txt";
/// The ending of the recording next to it.
const TRACE: &str = "trace";

/// Arguments of `egeria doctor --report`.
#[derive(Args, Debug)]
#[group(skip)]
pub struct Arguments {
    /// Write a report for other people, and a recording next to it that ends in `.trace`
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = REPORT)]
    pub(super) report: Option<PathBuf>,
    /// How long programs are observed
    #[arg(long, value_name = "TIME", default_value = "1m", requires = "report", value_parser = durations::parse)]
    observe: Duration,
    /// List in the report which programs, users, command lines and files the stand-ins are for
    #[arg(long, requires = "report")]
    names: bool,
    /// Measure what memories give first, half a minute at full load
    #[arg(long, requires = "report", conflicts_with = "machine")]
    calibrate: bool,
    /// Measure how fast memory moves, and what looking costs, with `egeria-lab`: some minutes at full load, on two nodes
    #[arg(long, requires = "report")]
    bench: bool,
    /// How accesses to memory are seen: pmu, write-faults, page-tables or page-faults [default: the first that works]
    #[arg(long, value_name = "WAY", requires = "report", value_parser = <Way as std::str::FromStr>::from_str)]
    memory_source: Option<Way>,
    /// Machine file (TOML) that describes this machine [default: as the kernel and calibration have it]
    #[arg(long, value_name = "FILE", requires = "report")]
    machine: Option<String>,
}

/// Observes, and writes the report and the recording.
pub(super) fn run(path: &Path, arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let signals = Signals::install()?;
    let trace = trace_next_to(path)?;
    let file = WholeFile::open_private(path)?;
    let document = make(&trace, arguments, &signals)?;
    file.write(&output::printable_lines(&document.text()))?;
    format.print(&document, |document| document.summary(path, &trace))?;
    Ok(ExitCode::SUCCESS)
}

/// The recording next to a report.
fn trace_next_to(report: &Path) -> Outcome<PathBuf> {
    if report.extension().is_some_and(|ending| ending == TRACE) {
        return Err(Failure::Usage(format!(
            "the report cannot end in .{TRACE}, as the recording next to it does; name it {REPORT}"
        )));
    }
    Ok(report.with_extension(TRACE))
}

fn make(trace: &Path, arguments: &Arguments, signals: &Signals) -> Outcome<Document> {
    let chosen = MachineArguments {
        machine: arguments.machine.clone(),
        dilation: None,
    };
    let (mut machine, mut measured) = (chosen.resolve()?, Vec::new());
    if arguments.calibrate {
        let figures = calibrate::of_this_machine(signals);
        signals.check()?;
        let text = figures.map(|(calibrated, text)| {
            machine = calibrated;
            text
        });
        measured.push(Measurement::of("egeria machine calibrate", text));
    }
    let wish = Wish {
        length: arguments.observe,
        names: arguments.names,
        memory_source: arguments.memory_source,
    };
    let observed = Observed::take(&machine, trace, &wish, signals)?;
    // What it loads is not to be seen in the recording.
    if arguments.bench {
        measured.extend(benches(&machine, signals)?);
    }
    Ok(Document::new(Parts {
        machine: StandIns::machine(&machine),
        works: works::Document::take(facts()?),
        placement: recorded::document(trace, None)?,
        measured,
        observed,
    }))
}

/// What `doctor` goes by. An error in the machine file quotes it, and it may have names.
fn facts() -> Outcome<Facts> {
    let mut facts = Facts::read(Path::new("/"))?;
    if let Some(Err(why)) = &mut facts.described {
        *why = format!("{} cannot be used", egeria_machine::CALIBRATED);
    }
    Ok(facts)
}

/// What the laboratory measures on two nodes.
fn benches(machine: &Machine, signals: &Signals) -> Outcome<Vec<Measurement>> {
    const BENCHES: [&str; 2] = ["migration", "overhead"];
    if machine.nodes.len() < 2 {
        let why = Err(Failure::new("it needs a machine with two nodes"));
        return Ok(vec![Measurement::of("egeria-lab bench", why)]);
    }
    let mut measured = Vec::new();
    for bench in BENCHES {
        let figures = lab::bench(bench, signals);
        signals.check()?;
        measured.push(Measurement::of(
            &format!("egeria-lab bench {bench}"),
            figures,
        ));
    }
    Ok(measured)
}
