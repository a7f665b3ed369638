//! The errors of this crate: each is one line that names the cause and what to do.

use std::path::PathBuf;

/// Why a machine could not be described.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A file could not be read.
    #[error("cannot read {}: {cause}; {hint}", path.display())]
    Unreadable {
        path: PathBuf,
        /// What the system (or the size or encoding check) said.
        cause: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// One of the kernel's files holds what the kernel would not write.
    #[error("{}: {problem}; {hint}", path.display())]
    Sysfs {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// A machine file is not TOML, or has keys or types that machine files do not have.
    #[error(
        "{}: line {line}: {problem}; correct that line",
        origin.display()
    )]
    Syntax {
        origin: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What the parser said, on one line.
        problem: String,
    },
    /// A machine file says something impossible.
    #[error("{}: {key}: {problem}; {hint}", origin.display())]
    Value {
        origin: PathBuf,
        /// The key, as `nodes[1].emulated.cores`.
        key: String,
        /// What is wrong with its value.
        problem: String,
        /// What to do about it.
        hint: String,
    },
    /// No profile has this name.
    #[error("no machine profile {name:?}; use one of {known}, or the path of a machine file")]
    UnknownProfile {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
}
