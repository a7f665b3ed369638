//! What is found.

use crate::emulated_run::Moved;

/// What one run gave.
pub(super) struct Found {
    pub(super) moved: Moved,
    /// Bytes of the files that lie on node 1 at the end.
    pub(super) elsewhere_bytes: u64,
    /// Threads moved, each time counted.
    pub(super) thread_moves: u64,
}
