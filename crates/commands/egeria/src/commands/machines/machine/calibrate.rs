//! `egeria machine calibrate`: what this machine's memories give its CPUs, measured, as a table and a machine file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use egeria_calibrate::{CalibrateError, Calibration, Options, PoolRequest};
use egeria_machine::{Machine, NamedPath, NodeId, format_bandwidth, format_bytes};
use serde::Serialize;

use super::against::Against;
use crate::commands::whole_file::WholeFile;
use crate::paths;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;
use egeria_cli::sizes;

/// Arguments of `egeria machine calibrate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria machine calibrate
  egeria machine calibrate --output here.toml
  egeria machine calibrate --pool 0:/mnt/pmem0 --pool 1:/mnt/pmem1 --seconds 120
  egeria sim --machine here.toml --workload load.toml
  egeria machine calibrate --machine bulldozer-8n

From every node with CPUs to every memory: loads, stores, non-temporal stores,
and half loads half such stores, with 1, 2, 4 ... all CPUs of the node at once;
small accesses at random places; how long one CPU waits for a line, also while
others are at another memory of the node; and flows between nodes, two at once
on cores of their own, which tell links and routes. A machine that does other
things at the same time gives less. With --machine, that machine is emulated
and measured, and the result compared with its file: so one can see how far to
trust it.
The meaning: docs/how-to/calibrate.md.")]
pub struct Arguments {
    /// Time for all figures together, s; getting the memory comes on top
    #[arg(long, value_name = "S", default_value = "30", value_parser = parse_seconds)]
    seconds: f64,
    /// How often each figure is taken; medians count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Bytes of each memory to go through, at least twice its node's caches [default: four times]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    buffer: Option<u64>,
    /// Measure persistent memory of a node too: a directory, a new file, or a device; once per pool
    #[arg(long = "pool", value_name = "NODE:PATH", value_parser = parse_pool)]
    pools: Vec<PoolRequest>,
    /// Measure pools that are devices, which overwrites them
    #[arg(long)]
    overwrite: bool,
    /// Measure this machine (file or profile) as emulated here, and compare with what it says
    #[arg(long, value_name = "FILE|PROFILE", conflicts_with_all = ["pools", "overwrite", "buffer"])]
    machine: Option<String>,
    /// Write a machine file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a page with pictures of the figures
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    measured: Calibration,
    /// How often each node's turn is when something is spread by bandwidth; empty where one has no memory that was measured.
    weights: Vec<Weight>,
    /// The machine file, when one was written.
    machine_file: Option<NamedPath>,
    /// How far that is from the file of an emulated machine.
    against: Option<Against>,
    /// What such a file says, for the picture.
    #[serde(skip)]
    machine: Machine,
}

#[derive(Serialize)]
struct Weight {
    node: NodeId,
    weight: u8,
}

impl Document {
    fn of(measured: Calibration, machine: Machine) -> Document {
        let weights = machine.weights().unwrap_or_default().into_iter();
        Document {
            measured,
            weights: weights
                .map(|(node, weight)| Weight { node, weight })
                .collect(),
            machine_file: None,
            against: None,
            machine,
        }
    }
}

/// Measures, prints, writes.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let signals = Signals::install()?;
    // Before anything is measured: half a minute is not to be lost for a directory that is not there.
    let output = arguments
        .output
        .as_deref()
        .map(WholeFile::open)
        .transpose()?;
    let report = arguments
        .report
        .as_deref()
        .map(WholeFile::open)
        .transpose()?;
    let options = Options {
        seconds: arguments.seconds,
        rounds: arguments.rounds,
        buffer_bytes: arguments.buffer,
        pools: absolute(&arguments.pools)?,
        may_overwrite_devices: arguments.overwrite,
    };
    let declared = match &arguments.machine {
        Some(spec) => emulated(Machine::resolve(Some(spec), None)?)?,
        None => Machine::detect()?,
    };
    let measured = measure(&declared, &options, &signals)?;
    let mut machine = measured.machine(&declared);
    let against = match arguments.machine {
        Some(_) => Against::of(&declared, &machine, signals.stop_flag()),
        None => None,
    };
    if signals.check().is_err() {
        return Err(refusal(&signals, &CalibrateError::Stopped));
    }
    if let Some(name) = arguments.output.as_deref().and_then(machine_name) {
        machine.name = name.to_owned();
    }
    if let Some(output) = output {
        output.write(&file_text(&measured, &machine))?;
    }
    if let Some(report) = report {
        let figures = against.as_ref().map_or(&[][..], Against::figures);
        report.write(&measured.page(&machine, figures))?;
    }
    let document = Document {
        machine_file: arguments.output.clone().map(Into::into),
        against,
        ..Document::of(measured, machine)
    };
    format.print(&document, human)?;
    Ok(ExitCode::SUCCESS)
}

/// This machine as measured with the usual options, and what the command prints of it.
///
/// # Errors
/// When it cannot be measured, or a signal asks to stop.
pub(in crate::commands) fn of_this_machine(signals: &Signals) -> Outcome<(Machine, String)> {
    let declared = Machine::detect()?;
    let measured = measure(&declared, &Options::default(), signals)?;
    let machine = measured.machine(&declared);
    let document = Document::of(measured, machine);
    let text = human(&document);
    Ok((document.machine, text))
}

/// How slow the emulated machine is matters to no figure.
fn emulated(machine: Machine) -> Outcome<Machine> {
    if machine.is_emulated() {
        Ok(machine)
    } else {
        Ok(machine.emulate(1.0)?)
    }
}

fn measure(machine: &Machine, options: &Options, signals: &Signals) -> Outcome<Calibration> {
    let mut progress = Progress::bar("getting memory");
    let mut tell = |done: u64, total: u64, what: &str| {
        if done == 0 {
            // How long it took to get the memory says nothing of what comes.
            progress = Progress::bar(what);
        }
        progress.step(done, total, what);
    };
    egeria_calibrate::measure(machine, options, signals.stop_flag(), &mut tell)
        .map_err(|error| refusal(signals, &error))
}

/// A stopped measurement leaves nothing, and its error says so.
fn refusal(signals: &Signals, error: &CalibrateError) -> Failure {
    match signals.check() {
        Err(Failure::Interrupted(signal)) => {
            let status = 128_u8.wrapping_add(signal as u8);
            Failure::Status(status, CalibrateError::Stopped.to_string())
        }
        _ => Failure::new(error),
    }
}

fn absolute(pools: &[PoolRequest]) -> Outcome<Vec<PoolRequest>> {
    let absolute = |pool: &PoolRequest| {
        Ok(PoolRequest {
            node: pool.node,
            path: paths::absolute(&pool.path)?,
        })
    };
    pools.iter().map(absolute).collect()
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .filter(|seconds| (0.0..=86_400.0).contains(seconds) && *seconds > 0.0)
        .ok_or_else(|| format!("{text:?} is no time; write seconds, above 0 and at most 86400"))
}

fn parse_pool(text: &str) -> Result<PoolRequest, String> {
    let wrong = |what: &str| format!("{what}; write NODE:PATH, as 0:/mnt/pmem0");
    let (node, path) = text
        .split_once(':')
        .ok_or_else(|| wrong("a pool needs a node and a path"))?;
    let id = node.parse().ok().map(NodeId);
    let node = id.ok_or_else(|| wrong(&format!("{node:?} is no node number")))?;
    if path.is_empty() {
        Err(wrong("the path is empty"))
    } else {
        Ok(PoolRequest {
            node,
            path: PathBuf::from(path),
        })
    }
}

/// The file's name without its ending, where a machine may be called so.
fn machine_name(path: &Path) -> Option<&str> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.filter(|name| name.chars().count() <= 64 && !name.chars().any(char::is_control))
}

/// A comment on what follows from bandwidths; nothing where one is not known.
fn weights_line(machine: &Machine) -> String {
    machine.weights().map_or_else(String::new, |weights| {
        let each = weights
            .iter()
            .map(|(node, weight)| format!("node {}: {weight}", node.0));
        let each = each.collect::<Vec<_>>().join(", ");
        format!("# Weights by bandwidth (`egeria weights`): {each}.\n")
    })
}

/// A machine file.
fn file_text(measured: &Calibration, machine: &Machine) -> String {
    let of = match measured.buffer_bytes {
        0 => " on an emulated machine".to_owned(),
        bytes => format!(" over {} of each memory", format_bytes(bytes)),
    };
    format!(
        "# Measured by `egeria machine calibrate`: medians of {} rounds{of}, in {:.0} s.\n\
         # What else the machine did then is missing from these figures.\n{}\n{}",
        measured.rounds,
        measured.measured_s,
        weights_line(machine),
        machine.to_toml()
    )
}

fn human(document: &Document) -> String {
    let measured = &document.measured;
    let mut text = format!(
        "{}\n\n{}\n\n{}\n",
        document.machine.picture().trim_end(),
        streams(measured),
        latencies(measured)
    );
    for cache in &measured.caches {
        text.push_str(&format!(
            "\ncache of node {}: {}, {:.1} ns, {} to one thread",
            cache.node.0,
            format_bytes(cache.bytes),
            cache.latency_ns,
            format_bandwidth(cache.read_bytes_s)
        ));
    }
    if document.weights.len() > 1 {
        let each = document
            .weights
            .iter()
            .map(|each| format!("node {}: {}", each.node.0, each.weight));
        let each = each.collect::<Vec<_>>().join(", ");
        text.push_str(&format!(
            "\nweights by bandwidth: {each} (egeria weights set)"
        ));
    }
    if let Some(against) = &document.against {
        text.push_str(&format!("\n\n{}", against.text()));
    }
    for warning in &measured.warnings {
        text.push_str(&format!("\nwarning: {warning}"));
    }
    if let Some(path) = &document.machine_file {
        text.push_str(&format!("\nwritten to {}", path.display()));
    }
    text
}

fn streams(measured: &Calibration) -> String {
    let row = |stream: &egeria_calibrate::Stream| {
        vec![
            output::printable(&measured.memories[stream.memory].name()).to_string(),
            stream.cpu_node.0.to_string(),
            stream.threads.to_string(),
            format_bandwidth(stream.read_bytes_s),
            format_bandwidth(stream.write_bytes_s),
            format_bandwidth(stream.nontemporal_write_bytes_s),
            format_bandwidth(stream.mixed_bytes_s),
        ]
    };
    let headers = [
        "memory",
        ">from node",
        ">threads",
        ">loads",
        ">stores",
        ">non-temporal",
        ">loads + non-temporal",
    ];
    output::table(&headers, measured.streams.iter().map(row).collect())
}

fn latencies(measured: &Calibration) -> String {
    let row = |latency: &egeria_calibrate::Latency| {
        vec![
            output::printable(&measured.memories[latency.memory].name()).to_string(),
            latency.cpu_node.0.to_string(),
            format!("{:.1} ns", latency.read_ns),
            format!("{:.1} ns", latency.write_ns),
        ]
    };
    let headers = ["memory", ">from node", ">a load", ">a non-temporal store"];
    output::table(&headers, measured.latencies.iter().map(row).collect())
}
