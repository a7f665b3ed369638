//! The errors of this crate: each is one line that names the cause and what to do.

/// Why a machine or a workload cannot be simulated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SimError {
    /// A workload is not TOML, or has keys or types that workloads do not have.
    #[error("{origin}: line {line}: {problem}; correct that line")]
    Syntax {
        origin: String,
        /// Line, from 1.
        line: usize,
        /// What the parser said, on one line.
        problem: String,
    },
    /// A workload says something impossible.
    #[error("{origin}: {key}: {problem}; {hint}")]
    Value {
        origin: String,
        /// The key, as `threads[1].phases[0].think_ns`.
        key: String,
        /// What is wrong with its value.
        problem: String,
        /// What to do about it.
        hint: String,
    },
    /// The speed of the machine's memory is not known.
    #[error(
        "{machine} does not say how fast the memory of node {node} is; use a profile such as optane-2s, or give \
         every node [[nodes.memories]] tables"
    )]
    NoSpeeds {
        machine: String,
        /// The first node that says nothing.
        node: u16,
    },
    /// A recording without any activity.
    #[error(
        "{origin}: no thread reads or writes in it; record a run that does, with `egeria run --record`"
    )]
    NothingRecorded { origin: String },
    /// It would take too much memory or time to follow.
    #[error("{workload} on {machine}: {problem}; {hint}")]
    TooMuchWork {
        workload: String,
        machine: String,
        /// What there is too much of.
        problem: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// More data than there is memory.
    #[error(
        "the files have {needed} bytes and the {what} of {machine} has {there}; make them smaller, or say that it \
         has more"
    )]
    TooMuchData {
        machine: String,
        /// Which kind of memory.
        what: &'static str,
        /// Bytes of the files that are kept there.
        needed: u64,
        /// Its bytes, all nodes together.
        there: u64,
    },
    /// Files on a node without memory.
    #[error(
        "{workload}: files are on node {node}, and {machine} has no memory there; name another node"
    )]
    NoMemory {
        workload: String,
        machine: String,
        node: u16,
    },
}

/// A key, what is wrong with its value, and what to do.
pub(crate) struct Fault {
    key: String,
    problem: String,
    hint: String,
}

impl Fault {
    pub(crate) fn of(self, origin: &str) -> SimError {
        SimError::Value {
            origin: origin.to_owned(),
            key: self.key,
            problem: self.problem,
            hint: self.hint,
        }
    }
}

pub(crate) fn value(
    key: impl Into<String>,
    problem: impl Into<String>,
    hint: impl Into<String>,
) -> Fault {
    Fault {
        key: key.into(),
        problem: problem.into(),
        hint: hint.into(),
    }
}
