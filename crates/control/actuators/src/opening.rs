//! Opening the journal: what a killed steward left in it is undone first.

use std::path::Path;

use egeria_pages::accesses::damon::{self, Sysfs};
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
        let root = Path::new("/");
        let kernels = (&Resctrl::below(root) as _, &Sysfs::below(root) as _);
        Journal::open_on(kernels, path, log)
    }

    /// Opens it, with groups and observers of these kernels.
    pub(crate) fn open_on(
        (kernel, observers): (&dyn Kernel, &dyn damon::Kernel),
        path: &Path,
        log: &Path,
    ) -> Result<(Journal, usize), JournalError> {
        Journal::open_with(path, log, |left, write| {
            stop_observing(observers, left);
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

/// Removes what a killed steward left of DAMON. It disturbs nothing, so a failure does not keep a steward from its start.
fn stop_observing(kernel: &dyn damon::Kernel, left: &[String]) {
    let changes = left
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok());
    match damon::restore(kernel, changes) {
        Ok(true) => tracing::info!("what a killed steward left of DAMON was removed"),
        Ok(false) => {}
        Err(error) => tracing::warn!(
            "what a killed steward left of DAMON stays: {error}; \
             echo off >/sys/kernel/mm/damon/admin/kdamonds/0/state"
        ),
    }
}
