//! Why a trace cannot be read or written.

use std::io;
use std::path::{Path, PathBuf};

use egeria_facts::FactsError;

use crate::VERSION;

/// What is wrong with a trace: one line with cause and hint.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system refused.
    #[error("cannot {doing} {}: {source}; {hint}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What to do about it.
        hint: &'static str,
    },
    /// A directory, a device, a pipe.
    #[error("{} is {what}, not a trace; name a file that was recorded with `egeria run --record`", path.display())]
    NoFile { path: PathBuf, what: &'static str },
    /// Nothing was recorded.
    #[error("{} is empty; record again, its recorder ended before it began", path.display())]
    Empty { path: PathBuf },
    /// Some other file.
    #[error("{} is no trace; name a file that was recorded with `egeria run --record`", path.display())]
    NoTrace { path: PathBuf },
    /// Recorded by an older or newer Egeria.
    #[error("{} is a trace of version {version}, and this egeria reads version {VERSION}; read it with the egeria that recorded it", path.display())]
    OtherVersion { path: PathBuf, version: u32 },
    /// It ends before its first window could begin.
    #[error("{} is cut within its header; copy it again, or record again", path.display())]
    CutHeader { path: PathBuf },
    /// Something in it is not what was recorded.
    #[error("{} is damaged after {windows} windows: {what}; copy it again, or record again", path.display())]
    Damaged {
        path: PathBuf,
        /// Windows that were read before.
        windows: u64,
        what: String,
    },
    /// A window in it that cannot be.
    #[error("{}: {source}", path.display())]
    BadWindow { path: PathBuf, source: FactsError },
    /// A window that cannot be recorded.
    #[error("window {window} cannot be recorded: {what}; {hint}")]
    Unrecordable {
        window: u64,
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// The file to record to holds something else.
    #[error("{} is there already and is no trace; choose another name, or remove it", path.display())]
    Occupied { path: PathBuf },
    /// Another process records to it.
    #[error("{} is being recorded by another process; choose another name", path.display())]
    InUse { path: PathBuf },
}

impl TraceError {
    pub(crate) fn read(path: &Path, source: io::Error) -> TraceError {
        TraceError::Io {
            doing: "read",
            path: path.to_owned(),
            source,
            hint: "check the path and who may read it",
        }
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> TraceError {
        TraceError::Io {
            doing: "record to",
            path: path.to_owned(),
            source,
            hint: "choose a file with room that you may write to",
        }
    }
}
