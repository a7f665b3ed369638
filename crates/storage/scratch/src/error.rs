//! What can go wrong with scratch volumes: one line with cause and hint each.

use std::fmt::Display;
use std::io;

/// Why there is no scratch volume, pool or mount point.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or system call failed.
    #[error("{doing}: {source}; {hint}")]
    Io {
        /// What was tried.
        doing: String,
        /// What the kernel said.
        source: io::Error,
        /// What to do about it.
        hint: &'static str,
    },
    /// The engine or the mount refused; the text names cause and hint.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    pub(crate) fn failed(text: impl Display) -> Error {
        Error::Failed(text.to_string())
    }

    pub(crate) fn io(doing: impl Into<String>, source: io::Error, hint: &'static str) -> Error {
        Error::Io {
            doing: doing.into(),
            source,
            hint,
        }
    }
}

/// Result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;
