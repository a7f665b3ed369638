//! What is run, and on what.

use std::path::PathBuf;

use super::job::Job;

/// The tree that programs work on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A copy of this one.
    Directory(PathBuf),
    /// A small one, made for it.
    Made,
}

/// What is run, and on what.
#[derive(Clone)]
pub struct Selection {
    /// The jobs, in this order.
    pub jobs: Vec<Job>,
    pub source: Source,
}

impl Selection {
    /// All jobs on this tree.
    pub fn all(source: Source) -> Selection {
        Selection {
            jobs: Job::ALL.to_vec(),
            source,
        }
    }
}
