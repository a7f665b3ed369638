//! What is measured, and for how long.

use super::plan::{MAX_THREADS, Operation};

/// What is measured, and for how long.
#[derive(Clone)]
pub struct Selection {
    /// Time of the timed calls of one case on one place in a round, ms.
    pub measurement_ms: u64,
    /// What to measure, in this order.
    pub operations: Vec<Operation>,
    /// Names in the directories, ascending.
    pub entries: Vec<usize>,
    /// Most threads, 1 or 2.
    pub threads: usize,
    /// Names made, renamed and removed on volumes that were just made; one row of each operation for each number.
    pub fresh: Vec<usize>,
}

impl Selection {
    /// Everything, with directories of 10 and 100,000 names, and 20,000 names on fresh volumes.
    pub fn all() -> Selection {
        Selection {
            measurement_ms: 20,
            operations: Operation::ALL.to_vec(),
            entries: vec![10, 100_000],
            threads: MAX_THREADS,
            fresh: vec![20_000],
        }
    }

    /// Fresh volumes alone, with these numbers of names.
    pub fn fresh(names: Vec<usize>) -> Selection {
        Selection {
            operations: Vec::new(),
            fresh: names,
            ..Selection::all()
        }
    }

    /// In short: one thread, small directories.
    pub fn quick() -> Selection {
        Selection {
            measurement_ms: 10,
            entries: vec![10],
            threads: 1,
            fresh: Vec::new(),
            ..Selection::all()
        }
    }
}
