//! Which callers a mount has slots for.

use std::collections::HashMap;
use std::sync::Mutex;

/// The callers that this process has slots for.
#[derive(Default)]
pub(crate) struct OwnCallers(pub(crate) Mutex<Known>);

#[derive(Default)]
pub(crate) struct Known {
    /// Slot and last use, by thread id.
    pub(crate) slots: HashMap<u32, (usize, u64)>,
    /// Counts requests.
    pub(crate) clock: u64,
}
