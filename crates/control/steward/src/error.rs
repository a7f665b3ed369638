//! Why a steward cannot work.

use std::io;
use std::path::PathBuf;

/// One line with cause and remedy.
#[derive(Debug, thiserror::Error)]
pub enum StewardError {
    /// A steward is running already.
    #[error(
        "a steward is at work here already (process {process_id}); stop it, or use its log: {log}"
    )]
    Running {
        /// Process id of the steward.
        process_id: u32,
        /// Where it writes.
        log: PathBuf,
    },
    /// A file of its own cannot be used.
    #[error("cannot {what} {path}: {error}; {hint}")]
    File {
        /// What was tried.
        what: &'static str,
        path: PathBuf,
        /// The kernel's answer.
        error: io::Error,
        hint: &'static str,
    },
    /// The session's nodes are not those of the machine given.
    #[error(
        "the volume is in use with {session} nodes declared and {given} were given; use the machine it was mounted with"
    )]
    OtherMachine { session: usize, given: usize },
    /// Processes run on the real machine.
    #[error(
        "processes without a volume run on this machine, not on an emulated one; leave --machine out, or name a pool"
    )]
    NotReal,
    /// The window is too short or too long.
    #[error("a window of {0} ns makes no sense; use 1 ms to 1 h")]
    Window(u64),
    /// There is no such policy.
    #[error(transparent)]
    Policy(#[from] egeria_policy::SettingError),
    /// A setting that was given acts with a stage that is off here.
    #[error("{setting}: {}; leave it out", off.join("; "))]
    Idle {
        setting: egeria_policy::SettingError,
        /// The stages that are off, and why.
        off: Vec<String>,
    },
    /// No thread could be started.
    #[error("cannot start the steward's thread: {0}; free some processes or memory")]
    Thread(io::Error),
    /// The recording failed to start.
    #[error("{0}")]
    Record(String),
}

pub(crate) type Result<T> = std::result::Result<T, StewardError>;
