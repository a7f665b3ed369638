//! `egeria diagnose`: what is wrong with the placement of programs, what it costs, and the line that repairs it.

mod document;
mod elsewhere;
mod program;
pub(in crate::commands) mod recorded;
mod repair;
pub(super) mod subject;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use egeria_facts::Facts;
use egeria_machine::KernelWeights;
use egeria_pages::accesses::Way;
use egeria_proc::task;
use egeria_steward::Rehearsal;

use super::programs::{Contents, heaviest};
use super::top::watch;
use crate::commands::one_node;
use crate::commands::scope::{ScopeArguments, group_of_unit, process_id};
use crate::machine_choice::MachineArguments;
use crate::owner;
pub(in crate::commands) use document::Document;
use document::Program;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::signals::Signals;
use program::{Surroundings, program, shown};
use subject::Subject;

const NS_PER_MS: u64 = 1_000_000;

/// Arguments of `egeria diagnose`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo egeria diagnose
  sudo egeria diagnose 4711
  sudo egeria diagnose --unit postgresql
  sudo egeria diagnose --json | jq -r '.programs[].repairs[].line'
  egeria diagnose --trace egeria-report.trace

It only looks: at what `egeria steward` would look at, for one window, and
decides as its policy `all` would. It says of each program what is wrong, how
much faster it would probably be without that, and the lines that repair it; or
that nothing is wrong. Without an argument: the heaviest programs. As root it
sees programs of all users, their files and what their threads access.
With --trace it says so of a recording, perhaps of another machine (`egeria
doctor --report`): of each window by itself, and then what most windows say.
Exit status: 0 nothing is wrong, 1 a program is misplaced or it failed.
The fields of --json: docs/reference/output.md.")]
pub struct Arguments {
    /// This process and its descendants
    #[arg(value_name = "PID", value_parser = process_id, allow_negative_numbers = true)]
    process: Option<u32>,
    /// The processes of this control group and of those below
    #[arg(long, value_name = "PATH", conflicts_with_all = ["process", "unit"])]
    cgroup: Option<PathBuf>,
    /// The processes of this unit of systemd
    #[arg(long, value_name = "NAME", conflicts_with = "process")]
    unit: Option<String>,
    /// A recording instead of this machine, as `egeria doctor --report` makes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cgroup", "unit", "observe", "memory_source", "machine"])]
    trace: Option<PathBuf>,
    /// How long programs are observed, ms
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    observe: u64,
    /// How accesses to memory are seen: pmu, write-faults, page-tables or page-faults [default: the first that works]
    #[arg(long, value_name = "WAY", value_parser = <Way as std::str::FromStr>::from_str)]
    memory_source: Option<Way>,
    /// Machine file (TOML) that describes this machine [default: as the kernel and calibration have it]
    #[arg(long, value_name = "FILE")]
    machine: Option<String>,
}

/// Looks, and says what is wrong.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    if let Some(trace) = &arguments.trace {
        let document = recorded::document(trace, arguments.process)?;
        return show(&document, format);
    }
    let signals = Signals::install()?;
    let processes = arguments.scope()?;
    let machine = MachineArguments {
        machine: arguments.machine.clone(),
        dilation: None,
    };
    let machine = machine.resolve()?;
    let scope = processes.scope()?;
    if let Some(line) = one_node::line(&machine) {
        let document = Document {
            nothing_because: Some(line.to_owned()),
            ..Document::of(&machine)
        };
        return show(&document, format);
    }
    processes.check_own("diagnose")?;
    task::keep_many_open();
    let window_ns = arguments.observe * NS_PER_MS;
    let rehearsal = Rehearsal::begin(machine, scope, window_ns, arguments.memory_source);
    let mut rehearsal = rehearsal.map_err(|error| Failure::new(error.to_string()))?;
    if !rehearsal.sees_anything() {
        return Err(Failure::new(format!(
            "nothing is seen here of what programs access: {}; run as root, see `egeria doctor`",
            rehearsal.unseen.join("; ")
        )));
    }
    watch::wait(window_ns as f64, &signals)?;
    let Some(facts) = rehearsal.facts() else {
        return Err(Failure::new(
            "the kernel shows no processes any more; mount /proc",
        ));
    };
    let document = document(&rehearsal, &facts, arguments.process);
    if let (Some(process), true) = (arguments.process, document.programs.is_empty()) {
        return Err(Failure::new(format!(
            "process {process} ended while it was looked at; look at one that lives"
        )));
    }
    show(&document, format)
}

fn show(document: &Document, format: Format) -> Outcome<ExitCode> {
    format.print(document, Document::human)?;
    Ok(match document.faults {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

impl Arguments {
    fn scope(&self) -> Outcome<ScopeArguments> {
        Ok(match (self.process, &self.unit) {
            (Some(process), _) => ScopeArguments::of_process(process),
            (None, Some(unit)) => ScopeArguments::configured(Some(&group_of_unit(unit)?), false),
            (None, None) => {
                ScopeArguments::configured(self.cgroup.as_deref(), self.cgroup.is_none())
            }
        })
    }
}

/// The programs of the window, heaviest first; a process that was named is there also if it did nothing.
fn document(rehearsal: &Rehearsal, facts: &Facts, named: Option<u32>) -> Document {
    let machine = rehearsal.machine();
    let findings = rehearsal.diagnose(facts);
    let mut order = heaviest(&facts.window);
    order.retain(|process_id| {
        findings
            .iter()
            .any(|found| found.process.process_id == *process_id)
    });
    if let Some(named) = named.filter(|named| !order.contains(named)) {
        let lives = findings
            .iter()
            .any(|found| found.process.process_id == named);
        order.extend(lives.then_some(named));
    }
    let shown = shown(&order, &findings);
    let rows = Contents::default().rows_of(machine, facts, &shown);
    let programs = rows.into_iter().filter_map(|row| {
        let mut findings = findings.iter();
        let finding = findings.find(|found| found.process.process_id == row.process_id)?;
        let row = if rehearsal.counts_files() {
            row
        } else {
            row.without_files()
        };
        let process_id = row.process_id;
        Some(program(
            &Surroundings {
                machine,
                facts,
                subject: Subject::of(process_id),
                path: &|file| rehearsal.path(file),
                has_weights: KernelWeights::read(Path::new("/")).is_some()
                    && machine.weights().is_some(),
                as_root: owner::is_root(),
                is_shared_outside: &|node| subject::is_shared_outside(process_id, node),
            },
            row,
            finding,
        ))
    });
    let programs: Vec<Program> = programs.collect();
    Document {
        observed_ns: facts.window.duration_ns,
        faults: programs.iter().filter(|program| program.is_fault).count(),
        programs,
        sources: rehearsal.sources.clone(),
        unseen: rehearsal.unseen.clone(),
        ..Document::of(machine)
    }
}
