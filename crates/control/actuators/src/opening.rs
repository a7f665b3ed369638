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

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a journal with this line of a killed steward, where one set-up of DAMON has this update interval. Returns
    /// how many set-ups there are then.
    fn left_after(line: &str, update_us: &str) -> String {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let kdamonds = folder.path().join("sys/kernel/mm/damon/admin/kdamonds");
        let intervals = "0/contexts/0/monitoring_attrs/intervals";
        for (file, text) in [
            ("nr_kdamonds", "1\n"),
            ("0/state", "off\n"),
            ("0/contexts/nr_contexts", "1\n"),
            ("0/contexts/0/targets/nr_targets", "1\n"),
            (&format!("{intervals}/update_us"), update_us),
        ] {
            let path = kdamonds.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let path = folder.path().join("journal");
        let head = r#"{"steward":7,"log":"/log"}"#;
        std::fs::write(&path, format!("{head}\n{line}\n")).unwrap();
        let (groups, observers) = (Resctrl::below(folder.path()), Sysfs::below(folder.path()));
        let begun = std::time::Instant::now();
        // A program that another test starts has the journal's lock until it runs.
        while let Err(error) = Journal::open_on((&groups, &observers), &path, folder.path()) {
            assert!(begun.elapsed().as_secs() < 60, "{error}");
        }
        std::fs::read_to_string(kdamonds.join("nr_kdamonds")).unwrap()
    }

    #[test]
    fn a_killed_steward_s_set_up_of_damon_is_removed() {
        let made = r#"{"damon":"made","mark":7}"#;
        assert!(left_after(made, "10000007\n").starts_with('0'));
        assert_eq!(left_after(made, "10000008\n"), "1\n", "it is another's");
        assert_eq!(left_after(r#"{"damon":"over"}"#, "10000007\n"), "1\n");
        assert_eq!(left_after("nonsense", "10000007\n"), "1\n");
    }
}
