//! The errors of this crate: each is one line that names the cause and what to do.

/// Why the papers could not be held against the model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PapersError {
    /// The table of claims is not one.
    #[error("line {line}: {problem}; restore the table of claims that ships with Egeria")]
    Table {
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A profile or a workload that ships with Egeria is not usable.
    #[error("{what}: {problem}; restore the files that ship with Egeria")]
    Shipped {
        what: String,
        /// What is wrong, one line.
        problem: String,
    },
}

/// Something that ships with Egeria and failed.
pub(crate) fn shipped(what: &str, problem: impl ToString) -> PapersError {
    PapersError::Shipped {
        what: what.to_owned(),
        problem: problem.to_string(),
    }
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, PapersError>;
