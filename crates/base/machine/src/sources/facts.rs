//! Measurements that a profile cites, as data: its figures were taken from them, and can be compared with them.
//!
//! A file next to the profile has `[[series]]` of one source and setting each; its `rows` say what varies. A key of a
//! row replaces that of its series.

use serde::{Deserialize, Serialize};

use crate::sources::profile;
use crate::{MachineError, MemoryKind, NodeId};

/// One measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fact {
    /// The profile that stands for the machine it was measured on, where the file is not that profile's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Measured on a machine that the profile is calibrated on, and not cited by it.
    pub held_out: bool,
    /// The author, and where it was published.
    pub source: String,
    /// Which memory of the node.
    pub memory: MemoryKind,
    /// The node with that memory.
    pub node: NodeId,
    /// The node of the cores that access it.
    pub home: NodeId,
    /// Share of the accesses that read.
    pub read_share: f64,
    /// Whether accesses go anywhere, or one behind the other.
    pub random: bool,
    /// Bytes of an access.
    pub request_bytes: u64,
    /// Threads at once.
    pub threads: u64,
    /// Computing between two accesses, ns.
    pub think_ns: f64,
    /// A thread does not wait for an access before it begins the next.
    pub at_once: bool,
    /// What `threads` others read at the same time, bytes/s: the latency is one further thread's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_bytes_s: Option<f64>,
    /// What was measured.
    pub value: FactValue,
}

/// What a [`Fact`] says.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FactValue {
    /// All threads together, bytes/s.
    BytesPerSecond(f64),
    /// One access, ns.
    LatencyNs(f64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FactFile {
    #[serde(default)]
    series: Vec<Series>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    machine: Option<String>,
    #[serde(default)]
    held_out: bool,
    source: String,
    memory: MemoryKind,
    kind: Option<Kind>,
    pattern: Option<Pattern>,
    #[serde(default)]
    think_ns: f64,
    #[serde(default)]
    node: u16,
    /// The node itself, or the nearest with cores as the file says it.
    #[serde(default)]
    home: u16,
    #[serde(default)]
    at_once: bool,
    read_share: Option<f64>,
    request_bytes: Option<u64>,
    threads: Option<u64>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    kind: Option<Kind>,
    pattern: Option<Pattern>,
    home: Option<u16>,
    read_share: Option<f64>,
    request_bytes: Option<u64>,
    threads: Option<u64>,
    bandwidth_gb_s: Option<f64>,
    latency_ns: Option<f64>,
    /// Only with a latency.
    load_gb_s: Option<f64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Read,
    Write,
    Mix,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Pattern {
    Random,
    Sequential,
}

/// The facts that a profile cites; none for one that only assumes.
pub(crate) fn of(name: &str) -> Result<Vec<Fact>, MachineError> {
    let text = profile::facts_text(name).ok_or_else(|| profile::unknown(name))?;
    read(text, &format!("facts of {name}"))
}

/// The measurements of a text; `origin` names it in errors.
pub(crate) fn read(text: &str, origin: &str) -> Result<Vec<Fact>, MachineError> {
    parse(text).map_err(|problem| MachineError::Syntax {
        origin: origin.into(),
        line: 1,
        problem,
    })
}

fn parse(text: &str) -> Result<Vec<Fact>, String> {
    let file: FactFile = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let mut facts = Vec::new();
    for series in &file.series {
        for row in &series.rows {
            facts
                .push(fact(series, row).ok_or_else(|| format!("{} lacks a value", series.source))?);
        }
    }
    Ok(facts)
}

fn fact(series: &Series, row: &Row) -> Option<Fact> {
    let read_share = match row.kind.or(series.kind)? {
        Kind::Read => 1.0,
        Kind::Write => 0.0,
        Kind::Mix => row.read_share.or(series.read_share)?,
    };
    let value = match (row.bandwidth_gb_s, row.latency_ns) {
        (Some(bandwidth_gb_s), None) => FactValue::BytesPerSecond(bandwidth_gb_s * 1e9),
        (None, Some(latency_ns)) => FactValue::LatencyNs(latency_ns),
        _ => return None,
    };
    if row.load_gb_s.is_some() && row.latency_ns.is_none() {
        return None;
    }
    Some(Fact {
        machine: series.machine.clone(),
        held_out: series.held_out,
        think_ns: series.think_ns,
        source: series.source.clone(),
        memory: series.memory,
        node: NodeId(series.node),
        home: NodeId(row.home.unwrap_or(series.home)),
        read_share,
        random: row.pattern.or(series.pattern)? == Pattern::Random,
        request_bytes: row.request_bytes.or(series.request_bytes)?,
        threads: row.threads.or(series.threads).unwrap_or(1),
        at_once: series.at_once,
        load_bytes_s: row.load_gb_s.map(|load_gb_s| load_gb_s * 1e9),
        value,
    })
}
