//! Opening the journal: what a killed steward left in it is undone first.

use std::path::Path;

use egeria_proc::masks::AppliedMask;

use crate::journal::{Journal, JournalError};
use crate::mba::{self, Change, Kernel, Resctrl};
use crate::restore;

impl Journal {
    /// Locks the file, and undoes what a killed steward left in it. Returns also how many threads were restored. `log`
    /// is where this process writes its decisions; it is reported to a process that finds the journal in use.
    ///
    /// # Errors
    /// When its writer is still running, or the file cannot be opened, locked or written.
    pub fn open(path: &Path, log: &Path) -> Result<(Journal, usize), JournalError> {
        Journal::open_on(&Resctrl::below(Path::new("/")), path, log)
    }

    /// The same, with groups of this kernel.
    pub(crate) fn open_on(
        kernel: &dyn Kernel,
        path: &Path,
        log: &Path,
    ) -> Result<(Journal, usize), JournalError> {
        Journal::open_with(path, log, |left, write| {
            let masks = left
                .iter()
                .filter_map(|line| serde_json::from_str(line).ok());
            let masks: Vec<AppliedMask> = masks.collect();
            let changes = left
                .iter()
                .filter_map(|line| serde_json::from_str(line).ok());
            let note = |change: &Change| {
                if let Ok(line) = serde_json::to_string(change) {
                    write(&line);
                }
            };
            restore::restore(&masks, &masks) + mba::restore(kernel, changes, &note)
        })
    }
}
