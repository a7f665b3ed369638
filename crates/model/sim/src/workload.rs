//! Workloads: what programs do, in TOML.
//!
//! ```
//! let text = r#"
//!     name = "two readers and a log"
//!     seconds = 10.0             # of the machine's time
//!     warm_up_seconds = 2.0      # of these, not counted
//!
//!     [[files]]
//!     name = "tables"
//!     count = 2                  # files of this kind; default 1
//!     bytes = 4_000_000_000      # of each
//!     node = 0                   # where their data is at first; default: spread over all nodes
//!     medium = "storage"         # default; "memory" is a program's own (DRAM), no file
//!     layout = "local"           # default; "striped": in stripes over all nodes
//!
//!     [[files]]
//!     name = "log"
//!     bytes = 1_000_000_000
//!
//!     [[threads]]
//!     name = "reader"
//!     count = 2
//!     files = "tables"           # thread i uses file i; `shared = true`: every thread uses them all
//!     start_node = 1             # default: where the fewest threads are
//!     pinned = false             # true: must not be moved
//!     lockstep = false           # true: they wait for each other after every operation, as at a barrier
//!     [[threads.phases]]         # in turn, again and again
//!     seconds = 1.0              # default: for ever
//!     read_share = 0.8           # of the operations; the rest writes
//!     request_bytes = 4096
//!     think_ns = 1000.0          # computing per operation
//!     idle_ns = 0.0              # waiting for other work per operation, off the core
//!     serial_ns = 0.0            # of both, under a lock that all threads of the table share
//!     write_overhead = 0.0       # extra bytes per byte written: 1.0 where a file system zeroes new blocks first
//!     pattern = "sequential"     # default "random": what matters below a medium's granularity
//!     at_once = true             # default false: no access waits for the one before it
//!
//!     [[threads]]
//!     name = "logger"
//!     files = "log"
//!     [[threads.phases]]
//!     read_share = 0.0
//!     request_bytes = 4096
//!     think_ns = 2000.0
//! "#;
//! let workload = egeria_sim::Workload::from_toml(text, "two.toml")?;
//! assert_eq!(workload.thread_count(), 3);
//! # Ok::<(), egeria_sim::SimError>(())
//! ```
//!
//! Instead of `node`, files may name several `nodes`, over which each of them is spread, or with `in_turn = true` on one
//! of which each of them is, in turn; instead of `start_node`, threads may
//! name several `start_nodes`, on which they start in turn. Unknown keys are refused, so that a misspelt one cannot
//! pass unnoticed.

use egeria_machine::costs::Pattern;
use egeria_machine::{Machine, NodeId};
use serde::{Deserialize, Serialize};

use crate::error::{SimError, value};

/// Most threads of a workload.
pub const MAX_THREADS: u64 = 65_536;
/// Most files of a workload.
pub const MAX_FILES: u64 = 65_536;
const MAX_GROUPS: usize = 1024;
const MAX_SECONDS: f64 = 1e6;
const MAX_NS: f64 = 1e12;
const MAX_OVERHEAD: f64 = 1e3;
const MAX_REQUEST_BYTES: u64 = 1 << 30;
const MAX_FILE_BYTES: u64 = 1 << 60;
/// Shorter phases would make a run take for ever.
const MIN_PHASE_SECONDS: f64 = 1e-4;

/// What programs do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// A name for people.
    pub name: String,
    /// How long it runs, s of the machine's time.
    pub seconds: f64,
    /// How much of that is not counted, s.
    #[serde(default)]
    pub warm_up_seconds: f64,
    /// The files.
    #[serde(default)]
    pub files: Vec<FileGroup>,
    /// The threads.
    #[serde(default)]
    pub threads: Vec<ThreadGroup>,
}

/// Files of one kind.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileGroup {
    /// Threads name them by this.
    pub name: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u64,
    /// Size of each, bytes.
    pub bytes: u64,
    /// Where their data is at first; spread over all nodes when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The nodes their data is spread over at first, instead of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeId>,
    /// Each file is whole on one of these nodes, in turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_turn: bool,
    /// What they are.
    #[serde(default)]
    pub medium: MediumKind,
    /// How their data lies.
    #[serde(default)]
    pub layout: Layout,
}

/// What data is kept in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediumKind {
    /// Files: in a node's persistent memory; where it has none, in what memory it has.
    #[default]
    Storage,
    /// A program's own memory: DRAM; where a node has none, what memory it has. No file system sees it.
    Memory,
}

/// How the data of a file lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Written data goes where the allocation says (NThread).
    #[default]
    Local,
    /// In stripes over all nodes, so that large accesses can be delegated to all of them (OdinFS).
    Striped,
}

/// Threads of one process that do the same.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadGroup {
    /// A name for people.
    pub name: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u64,
    /// The files they use.
    pub files: String,
    /// Every thread uses all of them; else thread `i` uses file `i` modulo their number.
    #[serde(default)]
    pub shared: bool,
    /// Where they start; where the fewest threads are when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_node: Option<NodeId>,
    /// Where they start, in turn, instead of on one node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub start_nodes: Vec<NodeId>,
    /// Their owner bound them to that node.
    #[serde(default)]
    pub pinned: bool,
    /// They wait for each other, as parallel programs do at barriers: all go on as fast as the slowest.
    #[serde(default)]
    pub lockstep: bool,
    /// What they do, in turn, again and again.
    pub phases: Vec<Phase>,
}

/// What a thread does for a while: operations, one after the other.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// How long, s; for ever when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Share of the operations that read; the others write.
    pub read_share: f64,
    /// Bytes of each operation.
    pub request_bytes: u64,
    /// Computing per operation, ns.
    #[serde(default)]
    pub think_ns: f64,
    /// Waiting per operation for what is no memory and no core, ns.
    #[serde(default)]
    pub idle_ns: f64,
    /// Of computing and waiting, how much is under a lock that the threads of the group share, ns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub serial_ns: f64,
    /// Extra bytes written to the medium for each byte of an operation that writes: journals, blocks zeroed before
    /// they are filled. The program does not see it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub write_overhead: f64,
    /// Where accesses go.
    #[serde(default)]
    pub pattern: Pattern,
    /// No access waits for the one before it, as in micro-benchmarks and scans: as many are on their way at once as a
    /// core keeps. Else each is done before the next begins, as with system calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
}

fn one() -> u64 {
    1
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Workload {
    /// The workload that a TOML text describes; `origin` names it in errors.
    ///
    /// # Errors
    /// When the text is not TOML, has unknown keys, or says something impossible.
    pub fn from_toml(text: &str, origin: &str) -> Result<Workload, SimError> {
        let workload: Workload = toml::from_str(text).map_err(|error| SimError::Syntax {
            origin: origin.to_owned(),
            line: line_of(text, &error),
            problem: error.message().replace(['\n', '\r'], " "),
        })?;
        workload.check().map_err(|fault| fault.of(origin))?;
        Ok(workload)
    }

    /// Threads of all groups.
    pub fn thread_count(&self) -> u64 {
        self.threads.iter().map(|group| group.count).sum()
    }

    /// That nodes are the machine's.
    pub(crate) fn check_on(&self, machine: &Machine) -> Result<(), SimError> {
        let files = self.files.iter().map(|group| (group.node, &group.nodes));
        let threads = self
            .threads
            .iter()
            .map(|group| (group.start_node, &group.start_nodes));
        for (kind, groups) in [
            ("files", files.collect::<Vec<_>>()),
            ("threads", threads.collect()),
        ] {
            for (index, (one, several)) in groups.into_iter().enumerate() {
                for id in one.iter().chain(several) {
                    let problem = match machine.node(*id) {
                        None => format!("{} has no node {}", machine.name, id.0),
                        Some(node) if kind == "threads" && machine.core_count(node) == 0 => {
                            format!("node {} of {} has no CPUs", id.0, machine.name)
                        }
                        Some(_) => continue,
                    };
                    let hint = match kind {
                        "threads" => "name one of its nodes with CPUs",
                        _ => "name one of its nodes",
                    };
                    let fault = value(format!("{kind}[{index}]"), problem, hint);
                    return Err(fault.of(&self.name));
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), crate::error::Fault> {
        number("seconds", self.seconds, 1e-3..=MAX_SECONDS)?;
        let warm_up = self.warm_up_seconds;
        number("warm_up_seconds", warm_up, 0.0..=self.seconds * 0.99)?;
        for (key, groups) in [("files", self.files.len()), ("threads", self.threads.len())] {
            if !(1..=MAX_GROUPS).contains(&groups) {
                let hint = format!("have 1 to {MAX_GROUPS} [[{key}]] tables");
                return Err(value(key, format!("{groups} of them"), hint));
            }
        }
        for (index, group) in self.files.iter().enumerate() {
            group.check(&format!("files[{index}]"))?;
            if self.files[..index]
                .iter()
                .any(|other| other.name == group.name)
            {
                let problem = format!("a second group is called {:?}", group.name);
                let key = format!("files[{index}].name");
                return Err(value(key, problem, "give each group its own name"));
            }
        }
        for (index, group) in self.threads.iter().enumerate() {
            group.check(&format!("threads[{index}]"), &self.files)?;
        }
        let files = self.files.iter().map(|group| group.count).sum();
        count("files", files, MAX_FILES)?;
        count("threads", self.thread_count(), MAX_THREADS)
    }
}

impl FileGroup {
    fn check(&self, key: &str) -> Result<(), crate::error::Fault> {
        name(&format!("{key}.name"), &self.name)?;
        count(&format!("{key}.count"), self.count, MAX_FILES)?;
        one_or_several(key, ("node", "nodes"), self.node, &self.nodes)?;
        count(&format!("{key}.bytes"), self.bytes, MAX_FILE_BYTES)
    }
}

impl ThreadGroup {
    fn check(&self, key: &str, files: &[FileGroup]) -> Result<(), crate::error::Fault> {
        name(&format!("{key}.name"), &self.name)?;
        count(&format!("{key}.count"), self.count, MAX_THREADS)?;
        let keys = ("start_node", "start_nodes");
        one_or_several(key, keys, self.start_node, &self.start_nodes)?;
        if !files.iter().any(|group| group.name == self.files) {
            let problem = format!("there are no files {:?}", self.files);
            let hint = "name a [[files]] table of this workload";
            return Err(value(format!("{key}.files"), problem, hint));
        }
        if !(1..=MAX_GROUPS).contains(&self.phases.len()) {
            let problem = format!("{} phases", self.phases.len());
            let hint = format!("have 1 to {MAX_GROUPS} [[threads.phases]] tables");
            return Err(value(format!("{key}.phases"), problem, hint));
        }
        for (index, phase) in self.phases.iter().enumerate() {
            phase.check(&format!("{key}.phases[{index}]"))?;
        }
        let endless = self.phases.iter().position(|phase| phase.seconds.is_none());
        match endless {
            Some(index) if index + 1 < self.phases.len() => Err(value(
                format!("{key}.phases[{index}].seconds"),
                "missing, so that the phases after it never come",
                "say how long it lasts, or put it last",
            )),
            _ => Ok(()),
        }
    }
}

impl Phase {
    fn check(&self, key: &str) -> Result<(), crate::error::Fault> {
        let seconds = self.seconds.unwrap_or(1.0);
        number(
            &format!("{key}.seconds"),
            seconds,
            MIN_PHASE_SECONDS..=MAX_SECONDS,
        )?;
        number(&format!("{key}.read_share"), self.read_share, 0.0..=1.0)?;
        count(
            &format!("{key}.request_bytes"),
            self.request_bytes,
            MAX_REQUEST_BYTES,
        )?;
        number(&format!("{key}.think_ns"), self.think_ns, 0.0..=MAX_NS)?;
        number(&format!("{key}.idle_ns"), self.idle_ns, 0.0..=MAX_NS)?;
        let unlocked_too = 0.0..=self.think_ns + self.idle_ns;
        number(&format!("{key}.serial_ns"), self.serial_ns, unlocked_too)?;
        let overhead = self.write_overhead;
        number(
            &format!("{key}.write_overhead"),
            overhead,
            0.0..=MAX_OVERHEAD,
        )
    }
}

/// One node, or a list of nodes of which none is named twice.
fn one_or_several(
    key: &str,
    (one_key, several_key): (&str, &str),
    one: Option<NodeId>,
    several: &[NodeId],
) -> Result<(), crate::error::Fault> {
    let key = format!("{key}.{several_key}");
    if one.is_some() && !several.is_empty() {
        let problem = format!("present beside {one_key}");
        return Err(value(key, problem, "keep one of the two"));
    }
    let is_twice = |(index, id): (usize, &NodeId)| several[..index].contains(id);
    match several.iter().enumerate().find(|each| is_twice(*each)) {
        Some((_, id)) => {
            let problem = format!("node {} is named twice", id.0);
            Err(value(key, problem, "name every node once"))
        }
        None => Ok(()),
    }
}

fn line_of(text: &str, error: &toml::de::Error) -> usize {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let before = &text.as_bytes()[..start];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// NaN is in no range.
fn number(
    key: &str,
    found: f64,
    range: std::ops::RangeInclusive<f64>,
) -> Result<(), crate::error::Fault> {
    if range.contains(&found) {
        return Ok(());
    }
    let hint = format!("use a number from {} to {}", range.start(), range.end());
    Err(value(key, format!("{found}"), hint))
}

fn count(key: &str, found: u64, most: u64) -> Result<(), crate::error::Fault> {
    if (1..=most).contains(&found) {
        Ok(())
    } else {
        Err(value(key, format!("{found}"), format!("use 1 to {most}")))
    }
}

fn name(key: &str, name: &str) -> Result<(), crate::error::Fault> {
    let length = name.chars().count();
    if (1..=64).contains(&length) && !name.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(value(key, "not a name", "use 1 to 64 printable characters"))
    }
}
