//! The model compared with the measurements that profiles cite.
//!
//! A profile's figures are taken from micro-benchmarks; whether the model, given these figures, gives the measurements
//! back is another question. Nothing here is a prediction: it is what the model was calibrated on.

use egeria_machine::{Fact, FactValue, LINE_BYTES, Machine, MemoryKind};
use egeria_policy::planner::System;
use egeria_sim::{
    Allocation, FileGroup, Layout, MediumKind, Options, Outcome, Pattern, Phase, ThreadGroup,
    Workload,
};
use egeria_stats::aims::Aim;
use serde::Serialize;

use crate::error::{Result, shipped};
use crate::quantile::quantile;
use crate::validation_machines::machine;

/// Data is so large where the machine does not say what it holds.
const DATA_BYTES: u64 = 1 << 40;

/// Between two accesses whose latency is asked for, ns.
const PAUSE_NS: f64 = 10_000.0;
/// What threads read at a time that are another's load.
const LOAD_REQUEST_BYTES: u64 = 4096;

/// A measurement and the model's.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FactRow {
    pub profile: String,
    /// The measurement and its setting.
    #[serde(flatten)]
    pub fact: Fact,
    /// The model's figure, in the unit of the measurement.
    pub model: f64,
    /// The model's over the measured one.
    pub ratio: f64,
    /// Its distance from 1.
    pub error: f64,
}

/// How far one profile is from what it cites.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProfileDistance {
    pub profile: String,
    pub rows: usize,
    /// Median of their errors, as a share.
    pub median_error: f64,
    pub worst_error: f64,
}

/// All profiles compared with the measurements that they cite.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FactReport {
    /// Median of all errors, as a share.
    pub median_error: f64,
    /// 90 % of them are at most this.
    pub p90_error: f64,
    pub worst_error: f64,
    /// What these figures are aimed at.
    pub aims: Vec<Aim>,
    /// Each profile that cites measurements.
    pub profiles: Vec<ProfileDistance>,
    /// Each measurement.
    pub rows: Vec<FactRow>,
}

/// Runs the model on what every profile cites.
///
/// # Errors
/// When a file that ships with Egeria is damaged.
pub fn facts() -> Result<FactReport> {
    let mut rows = Vec::new();
    let mut profiles = Vec::new();
    for name in Machine::profile_names() {
        let found = facts_of(name)?;
        if !found.is_empty() {
            let errors = sorted_errors(&found);
            profiles.push(ProfileDistance {
                profile: (*name).to_owned(),
                rows: found.len(),
                median_error: quantile(&errors, 0.5),
                worst_error: quantile(&errors, 1.0),
            });
        }
        rows.extend(found);
    }
    let errors = sorted_errors(&rows);
    let (median_error, worst_error) = (quantile(&errors, 0.5), quantile(&errors, 1.0));
    Ok(FactReport {
        median_error,
        p90_error: quantile(&errors, 0.9),
        worst_error,
        aims: vec![
            Aim::at_most("median error", 0.05, median_error),
            Aim::at_most("worst error", 0.15, worst_error),
        ],
        profiles,
        rows,
    })
}

pub(crate) fn sorted_errors(rows: &[FactRow]) -> Vec<f64> {
    let mut errors: Vec<f64> = rows.iter().map(|row| row.error).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

fn facts_of(name: &str) -> Result<Vec<FactRow>> {
    let facts = Machine::profile_facts(name).map_err(|error| shipped(name, error))?;
    facts.into_iter().map(|fact| row(name, fact)).collect()
}

/// A measurement, and the model's figure on a profile.
pub(crate) fn row(name: &str, fact: Fact) -> Result<FactRow> {
    let machine = machine(name)?;
    let model = figure(&machine, &fact)?;
    let (FactValue::BytesPerSecond(measured) | FactValue::LatencyNs(measured)) = fact.value;
    let ratio = model / measured;
    Ok(FactRow {
        profile: name.to_owned(),
        fact,
        model,
        ratio,
        error: (ratio - 1.0).abs(),
    })
}

/// What the model gives for a measurement.
fn figure(machine: &Machine, fact: &Fact) -> Result<f64> {
    let mut workload = workload(machine, fact);
    if let Some(load_bytes_s) = fact.load_bytes_s {
        add_load(machine, fact, load_bytes_s, &mut workload)?;
    }
    let outcome = run(machine, fact, &workload)?;
    Ok(match fact.value {
        FactValue::BytesPerSecond(_) => outcome.bytes_s,
        FactValue::LatencyNs(_) => outcome
            .groups
            .first()
            .map_or(0.0, |group| group.operation_ns - PAUSE_NS),
    })
}

fn run(machine: &Machine, fact: &Fact, workload: &Workload) -> Result<Outcome> {
    let options = Options {
        allocation: Allocation::InPlace,
        ..Options::of(System::Off)
    };
    egeria_sim::run(machine, workload, &options).map_err(|error| shipped(&fact.source, error))
}

/// Threads that read this much in all, next to one whose latency is asked for: each computes for as long as leaves it
/// that rate when it is alone.
fn add_load(
    machine: &Machine,
    fact: &Fact,
    load_bytes_s: f64,
    workload: &mut Workload,
) -> Result<()> {
    let mut load = workload.threads[0].clone();
    workload.threads[0].count = 1;
    load.name = "load".to_owned();
    load.count = 1;
    load.phases = vec![Phase {
        request_bytes: LOAD_REQUEST_BYTES,
        pattern: Pattern::Sequential,
        at_once: true,
        ..Phase::default()
    }];
    let alone = Workload {
        threads: vec![load.clone()],
        ..workload.clone()
    };
    let access_ns = 1e9 / run(machine, fact, &alone)?.operations_s;
    let turn_ns = LOAD_REQUEST_BYTES as f64 * fact.threads as f64 / load_bytes_s * 1e9;
    load.count = fact.threads;
    load.phases[0].think_ns = (turn_ns - access_ns).max(0.0);
    workload.threads.push(load);
    Ok(())
}

/// Threads that only access memory, in data far larger than caches.
fn workload(machine: &Machine, fact: &Fact) -> Workload {
    let node = machine.node(fact.node);
    let there = node.map_or(&[][..], |node| &node.hardware.memories);
    let memory = there.iter().find(|memory| memory.kind == fact.memory);
    let of_node = node.map_or(0, |node| node.memory_bytes);
    let regions = node.map_or(&[][..], |node| &node.persistent_regions);
    let of_node = regions
        .iter()
        .map(|region| region.bytes)
        .fold(of_node, u64::min);
    let bytes = memory.map_or(of_node, |memory| memory.bytes) / 2;
    let name = "data".to_owned();
    Workload {
        name: fact.source.chars().take(64).collect(),
        seconds: 1.0,
        warm_up_seconds: 0.0,
        files: vec![FileGroup {
            name: name.clone(),
            count: 1,
            bytes: if bytes > 0 { bytes } else { DATA_BYTES },
            node: Some(fact.node),
            nodes: Vec::new(),
            in_turn: false,
            medium: match fact.memory {
                MemoryKind::Dram => MediumKind::Memory,
                MemoryKind::Persistent | MemoryKind::Expander => MediumKind::Storage,
            },
            layout: Layout::Local,
        }],
        threads: vec![ThreadGroup {
            name: "threads".to_owned(),
            count: fact.threads,
            files: name,
            shared: true,
            start_node: Some(fact.home),
            start_nodes: Vec::new(),
            pinned: true,
            lockstep: false,
            phases: vec![Phase {
                read_share: fact.read_share,
                request_bytes: fact.request_bytes.max(LINE_BYTES),
                pattern: if fact.random {
                    Pattern::Random
                } else {
                    Pattern::Sequential
                },
                at_once: fact.at_once,
                think_ns: fact.think_ns,
                // A latency is that of an access now and then.
                idle_ns: match fact.value {
                    FactValue::BytesPerSecond(_) => 0.0,
                    FactValue::LatencyNs(_) => PAUSE_NS,
                },
                ..Phase::default()
            }],
        }],
    }
}
