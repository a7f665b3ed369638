//! What can go wrong with scratch volumes, processes and measurements: one line with cause and hint each.

use std::fmt::Display;
use std::io;

/// Why something could not be made, run or measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Programs this machine lacks, and the Debian packages that have them.
    #[error("{programs} not found in PATH; apt-get install {packages}")]
    MissingPrograms {
        /// The commands that were looked for, with commas.
        programs: String,
        /// The Debian packages they come from, with blanks.
        packages: String,
    },
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
    /// The engine or the mount refused, or a measured program failed; the text says why and what to do.
    #[error("{0}")]
    Failed(String),
    /// A signal asked to stop; everything was cleaned up.
    #[error("interrupted; mounts and scratch files are removed")]
    Interrupted,
}

impl Error {
    /// An error whose text names cause and hint.
    pub fn failed(text: impl Display) -> Error {
        Error::Failed(text.to_string())
    }

    /// A failed call, what it was for, and what to do about it.
    pub fn io(doing: impl Into<String>, source: io::Error, hint: &'static str) -> Error {
        Error::Io {
            doing: doing.into(),
            source,
            hint,
        }
    }
}

/// The result of what fails so.
pub type Result<T, E = Error> = std::result::Result<T, E>;
