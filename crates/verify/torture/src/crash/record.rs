//! Running a workload, whichever it is.

use super::workload::Workload;
use super::workspace::{Recorded, Workspace};

impl Workspace {
    /// Run a workload; `None` when it changes nothing on media.
    pub(super) fn record(&mut self, workload: &Workload) -> Result<Option<Recorded>, String> {
        match workload {
            Workload::Sequence { operations, loaded } => {
                let (_, prefix) = operations
                    .split_last()
                    .ok_or("a sequence of no operation")?;
                let before = self.after(prefix)?;
                self.record_last(operations, &before, *loaded)
            }
            Workload::Long { operations } => self.record_long(operations).map(Some),
            Workload::Pair { operations, switch } => {
                self.record_pair(operations, switch.unwrap_or(usize::MAX))
            }
            Workload::Making => self.record_making().map(Some),
            Workload::Repair => self.record_repair().map(Some),
            Workload::PoolChange(change) => self.record_pool_change(*change).map(Some),
        }
    }
}
