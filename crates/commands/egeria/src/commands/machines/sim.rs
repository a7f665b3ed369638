//! `egeria sim`: what a workload gets from a hypothetical machine.

use std::path::{Path, PathBuf};

use clap::Args;
use egeria_facts::Window;
use egeria_machine::{Machine, NodeId, format_bandwidth};
use egeria_policy::planner::{Place, Settings, System};
use egeria_report::what_if::{self, Prediction, WhatIf};
use egeria_sim::{
    Leaning, Options, Outcome as Predicted, Range, Uncertainty, WindowOutcome, Workload,
};
use serde::Serialize;

use crate::commands::control::recording;
use crate::machine_choice::Allocation;
use crate::policy_choice;
use egeria_cli::durations;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};

/// Workloads are small; more is not one.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Decisions shown per system.
const SHOWN_DECISIONS: usize = 10;

/// Arguments of `egeria sim`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria sim --machine optane-2s --workload fio.toml
  egeria sim --machine optane-1s --workload beside.toml --compare off,pats,all
  egeria sim --machine optane-2s --workload fio.toml --alloc node=0 --json
  egeria sim --machine odin-8s --trace yesterday.trace
  egeria sim --machine optane-2s --workload fio.toml --report what-if.html

Systems: off decides nothing; rl, cpu, nm and full are NThread's configurations,
pats limits how many are at persistent memory, odin stripes and delegates,
asymsched places processes and their memory; all is the planner with everything,
as one decision.

A prediction by a model, not a measurement: threads share cores, memory and
links fairly, and the policies' own code decides (docs/explanation/model.md).
Beside a prediction stands where four of five measurements of its kind were, and
whether that leaves open which system is faster (JSON: uncertainty,
vs_first_uncertainty, bytes_s_range, vs_first_range, is_decided).
The machine must say how fast its memory is, as
`egeria machine --machine optane-2s --toml` shows.

A workload is TOML: `name`, `seconds`, perhaps `warm_up_seconds`; [[files]]
with `name`, `count`, `bytes`, `node` or `nodes`, `medium`, `layout`;
[[threads]] with `name`, `count`, `files`, `shared`, `start_node` or
`start_nodes`, `pinned`, `lockstep`; and [[threads.phases]] with `seconds`,
`read_share`, `request_bytes`, `think_ns`, `idle_ns`, `serial_ns`,
`write_overhead`, `pattern`, `at_once`.")]
pub struct Arguments {
    /// Machine file (TOML) or profile (optane-1s, optane-2s, odin-8s, epyc-2s-cxl; any other name lists all)
    #[arg(long, value_name = "FILE|PROFILE")]
    machine: String,
    /// What programs do, a TOML file
    #[arg(long, value_name = "FILE", required_unless_present = "trace")]
    workload: Option<PathBuf>,
    /// What programs did, a recording as `egeria run --record` makes, instead of a workload
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    trace: Option<PathBuf>,
    /// Bytes of an operation in a recording, which does not say
    #[arg(long, value_name = "BYTES", default_value = "4096", requires = "trace",
          value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    request_bytes: u64,
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = policy_choice::policy,
          help = format!("Systems, side by side: {}", System::names(", ")),
          default_value = "off,full,pats,odin,asymsched,all")]
    compare: Vec<System>,
    /// Where written data goes: local, random, striped or node=N (odin always stripes)
    #[arg(long, value_name = "POLICY", value_parser = Allocation::parse, default_value = "local")]
    alloc: Allocation,
    /// Time between two decisions, ms of the machine's own time
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = durations::window_ns)]
    window: u64,
    /// What a move costs a thread, microseconds without doing anything
    #[arg(long, value_name = "US", default_value = "50", value_parser = pause_ns)]
    move_pause: f64,
    /// A setting of the planner, as cpu_limit=0.8 or pats.tolerated_loss=0.1; again for more
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Write a page here: bandwidth of nodes and links over time, where threads sat, who moved when and why
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn pause_ns(text: &str) -> Result<f64, String> {
    const NS_PER_US: f64 = 1e3;
    let number = text.parse::<f64>().ok().map(|number| number * NS_PER_US);
    number
        .filter(|pause_ns| (0.0..=1e9).contains(pause_ns))
        .ok_or_else(|| format!("{text:?} is no pause; write microseconds, 0 to 1000000"))
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    machine: String,
    workload: String,
    allocation: String,
    window_ns: u64,
    /// Not measured.
    predicted: bool,
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Run {
    configuration: &'static str,
    /// Operations/s divided by those of the first configuration.
    vs_first: f64,
    /// How far `operations_s` and `bytes_s` may be off.
    uncertainty: Uncertainty,
    /// How far `vs_first` may be off.
    vs_first_uncertainty: Uncertainty,
    /// Where four of five such predictions were right.
    bytes_s_range: Range,
    /// The range of `vs_first` in which four of five such predictions were right.
    vs_first_range: Range,
    /// Whether that leaves no doubt which of the two is faster.
    is_decided: bool,
    #[serde(flatten)]
    outcome: Predicted,
}

impl Run {
    fn of(system: System, outcome: Predicted, first: System, first_operations_s: f64) -> Run {
        let vs_first = ratio(outcome.operations_s, first_operations_s);
        let uncertainty = Uncertainty::of_speed(&outcome);
        let vs_first_uncertainty = Uncertainty::of_gain(system, first);
        let vs_first_range = vs_first_uncertainty.around(vs_first);
        Run {
            configuration: system.name(),
            vs_first,
            bytes_s_range: uncertainty.around(outcome.bytes_s),
            uncertainty,
            vs_first_uncertainty,
            vs_first_range,
            is_decided: system == first || !vs_first_range.has(1.0),
            outcome,
        }
    }
}

/// Predicts.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let machine = Machine::resolve(Some(&arguments.machine), None)?;
    let workload = workload(arguments, &machine)?;
    refuse_idle(arguments)?;
    let mut runs: Vec<Run> = Vec::new();
    for system in &arguments.compare {
        let options = options(*system, arguments, &machine)?;
        let outcome = egeria_sim::run(&machine, &workload, &options)
            .map_err(|error| Failure::new(error.to_string()))?;
        let first = runs.first().map_or(&outcome, |run| &run.outcome);
        let first_operations_s = first.operations_s;
        let first = *arguments.compare.first().unwrap_or(system);
        runs.push(Run::of(*system, outcome, first, first_operations_s));
    }
    if let Some(path) = &arguments.report {
        let allocation = arguments.alloc.name();
        output::write_page(path, &page(&machine, &workload, &allocation, &runs))?;
    }
    let report = Report {
        machine: machine.name,
        workload: workload.name,
        allocation: arguments.alloc.name(),
        window_ns: arguments.window,
        predicted: true,
        runs,
    };
    format.print(&report, human)
}

/// A setting must change something in one of the systems at least.
fn refuse_idle(arguments: &Arguments) -> Outcome {
    let set = |system: &System| policy_choice::set(*system, &arguments.settings);
    let all: Outcome<Vec<Settings>> = arguments.compare.iter().map(set).collect();
    let all = all?;
    policy_choice::refuse_idle(&arguments.settings, |name| {
        let mut checks = all
            .iter()
            .map(|settings| settings.check_acts(name, Place::Model));
        let first = checks.next()?.err()?;
        checks.all(|check| check.is_err()).then_some(first)
    })
}

fn page(machine: &Machine, workload: &Workload, allocation: &str, runs: &[Run]) -> String {
    let systems = runs.iter().map(|run| Prediction {
        name: run.configuration,
        outcome: &run.outcome,
        bytes_s_range: run.bytes_s_range,
        vs_first: run.vs_first,
        vs_first_range: run.vs_first_range,
        is_decided: run.is_decided,
    });
    what_if::what_if(&WhatIf {
        machine: &machine.name,
        workload,
        allocation,
        systems: &systems.collect::<Vec<_>>(),
    })
}

fn options(system: System, arguments: &Arguments, machine: &Machine) -> Outcome<Options> {
    let mut options = Options {
        planner: policy_choice::set(system, &arguments.settings)?,
        ..Options::of(system)
    };
    if !system.stripes() {
        options.allocation = allocation(arguments.alloc, machine)?;
    }
    options.window_ns = arguments.window;
    options.move_pause_ns = arguments.move_pause;
    Ok(options)
}

/// One rate divided by another; 1 if `first` is 0.
fn ratio(rate: f64, first: f64) -> f64 {
    if first > 0.0 { rate / first } else { 1.0 }
}

fn workload(arguments: &Arguments, machine: &Machine) -> Outcome<Workload> {
    if let Some(path) = &arguments.trace {
        let mut reader = recording::open(path)?;
        let facts = recording::facts(&mut reader);
        let windows: Outcome<Vec<Window>> = facts.map(|facts| Ok(facts?.window)).collect();
        let (windows, origin) = (windows?, path.display().to_string());
        let recorded =
            Workload::recorded(&origin, reader.machine(), &windows, arguments.request_bytes);
        let recorded = recorded.map_err(|error| Failure::new(error.to_string()))?;
        return Ok(recorded.onto(machine));
    }
    // clap asks for one of the two.
    read(arguments.workload.as_deref().unwrap_or(Path::new("")))
}

fn read(path: &Path) -> Outcome<Workload> {
    const HINT: &str =
        "give the path of a TOML workload; docs/reference/workload-file.md describes it";
    let text = egeria_machine::read_text(path, MAX_FILE_BYTES, HINT)?;
    let origin = path.display().to_string();
    Workload::from_toml(&text, &origin).map_err(|error| Failure::new(error.to_string()))
}

fn allocation(typed: Allocation, machine: &Machine) -> Outcome<egeria_sim::Allocation> {
    match typed {
        Allocation::Striped => Ok(egeria_sim::Allocation::Striped),
        Allocation::Local => Ok(egeria_sim::Allocation::Local),
        Allocation::Random => Ok(egeria_sim::Allocation::Spread),
        Allocation::Node(node) => match machine.index_of(NodeId(node)) {
            Some(index) => Ok(egeria_sim::Allocation::Node(index)),
            None => Err(Failure::new(format!(
                "{} has no node {node}; see `egeria machine --machine {}`",
                machine.name, machine.name
            ))),
        },
    }
}

fn human(report: &Report) -> String {
    let headers = [
        "system",
        ">operations/s",
        ">times the first",
        ">(four of five)",
        ">bytes/s",
        ">(four of five)",
        ">local",
        ">moves",
        "last window, per node: read, written, cores in use, threads",
    ];
    let rows = report.runs.iter().map(row).collect();
    let mut text = format!(
        "{} on {} ({} allocation): predicted by a model, not measured\n\n{}\n",
        report.workload,
        report.machine,
        report.allocation,
        output::table(&headers, rows)
    );
    text.push_str(&uncertainties(report));
    if report.runs.iter().any(|run| run.outcome.groups.len() > 1) {
        text.push_str(&groups(report));
    }
    for run in &report.runs {
        text.push_str(&decisions(run));
    }
    text
}

/// What the ranges come from, and what they leave open.
fn uncertainties(report: &Report) -> String {
    let mut sources: Vec<String> = Vec::new();
    let all = report.runs.iter();
    for of in all.flat_map(|run| [&run.uncertainty, &run.vs_first_uncertainty]) {
        if of.measurements > 0 {
            let leaning = match of.leaning {
                Leaning::Neither => "",
                Leaning::TooHigh => " (the model was too high in nearly all)",
                Leaning::TooLow => " (the model was too low in nearly all)",
            };
            let source = format!(
                "{:.2} to {:.2} times what the model gives, of {} measured {}{leaning}",
                of.low, of.high, of.measurements, of.of
            );
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    let mut text = format!("\nFour of five: {}.\n", sources.join("; "));
    let open = report.runs.iter().filter(|run| !run.is_decided);
    let open: Vec<&str> = open.map(|run| run.configuration).collect();
    if let (Some(first), false) = (report.runs.first(), open.is_empty()) {
        text.push_str(&format!(
            "Not decided: whether {} would be faster than {}: the model has been farther off than they are apart.\n",
            open.join(", "),
            first.configuration
        ));
    }
    text
}

/// What each group of threads gets.
fn groups(report: &Report) -> String {
    let headers = [
        "system",
        "threads",
        ">operations/s",
        ">bytes/s",
        ">time of one",
    ];
    let of = |run: &Run| {
        let name = run.configuration.to_owned();
        let group = move |group: &egeria_sim::GroupOutcome| {
            vec![
                name.clone(),
                format!("{} {}", group.threads, group.name),
                format!("{:.0}", group.operations_s),
                format_bandwidth(group.bytes_s),
                format!("{:.2} us", group.operation_ns / 1e3),
            ]
        };
        run.outcome.groups.iter().map(group).collect::<Vec<_>>()
    };
    let rows = report.runs.iter().flat_map(of).collect();
    format!("\n{}\n", output::table(&headers, rows))
}

fn row(run: &Run) -> Vec<String> {
    let outcome = &run.outcome;
    vec![
        run.configuration.to_owned(),
        format!("{:.0}", outcome.operations_s),
        format!("{:.2}x", run.vs_first),
        match run.vs_first_uncertainty.measurements {
            0 => String::new(),
            _ => {
                let range = run.vs_first_range;
                format!("{:.2}-{:.2}x", range.low, range.high)
            }
        },
        format_bandwidth(outcome.bytes_s),
        format!(
            "{} - {}",
            format_bandwidth(run.bytes_s_range.low),
            format_bandwidth(run.bytes_s_range.high)
        ),
        format!("{:.0} %", outcome.local_share * 100.0),
        outcome.moves.to_string(),
        outcome.windows.last().map_or_else(String::new, nodes),
    ]
}

fn nodes(window: &WindowOutcome) -> String {
    let node = |node: &egeria_sim::NodeOutcome| {
        format!(
            "{}: {}, {}, {:.0} %, {}",
            node.node.0,
            format_bandwidth(node.read_bytes_s),
            format_bandwidth(node.written_bytes_s),
            node.busy_share * 100.0,
            node.threads
        )
    };
    window.nodes.iter().map(node).collect::<Vec<_>>().join("\n")
}

/// What was decided, when and why.
fn decisions(run: &Run) -> String {
    let windows = run.outcome.windows.iter();
    let all: Vec<String> = windows
        .flat_map(|window| {
            let at = format!("  {:.1} s: ", window.end_s);
            let moves = window.moves.iter().map(|each| {
                let (from, to) = (each.from.0, each.to.0);
                format!(
                    "{} goes from node {from} to node {to}: {}",
                    each.thread, each.why
                )
            });
            let lines = moves.chain(window.steps.iter().cloned());
            lines.map(move |line| format!("{at}{line}\n"))
        })
        .collect();
    if all.is_empty() {
        return nothing_decided(run);
    }
    let more = match all.len() - all.len().min(SHOWN_DECISIONS) {
        0 => String::new(),
        more => format!("  and {more} more (--json has all)\n"),
    };
    let shown: String = all.into_iter().take(SHOWN_DECISIONS).collect();
    format!("\n{}\n{shown}{more}", run.configuration)
}

/// Why a system decided nothing; `off` needs no reason.
fn nothing_decided(run: &Run) -> String {
    let lines = &run.outcome.nothing_because;
    if lines.is_empty() || run.configuration == System::Off.name() {
        return String::new();
    }
    let (name, lines) = (run.configuration, lines.join("\n  "));
    format!("\n{name} decided nothing:\n  {lines}\n")
}
