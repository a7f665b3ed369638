//! What looks at files, directories and processes have in common.

use std::path::Path;
use std::time::Duration;

use egeria_machine::Machine;
use egeria_pages::file::Locator;

use egeria_cli::failure::{Failure, Outcome, reason};

/// What every look needs.
pub(super) struct Look {
    pub(super) machine: Machine,
    pub(super) observe: Duration,
    /// Pages to locate.
    pub(super) budget: u64,
}

impl Look {
    pub(super) fn locator(&self, many: bool) -> Outcome<Locator> {
        let locator = if many {
            Locator::for_many(self.budget)
        } else {
            Locator::for_one(self.budget)
        };
        locator.map_err(|error| {
            Failure::new(format!(
                "cannot locate pages: {}; raise the limit on files (ulimit -n)",
                reason(&error)
            ))
        })
    }
}

/// Why a path cannot be looked at.
pub(super) fn unreachable_path(path: &Path, error: &std::io::Error) -> Failure {
    let hint = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => "check the path",
        Some(libc::EACCES | libc::EPERM) => "ask its owner, or run as root",
        Some(libc::ENOTCONN) => {
            "the program that serves it has ended: unmount it and mount it again"
        }
        _ => "check the path and its file system",
    };
    Failure::io("look at", path, error, hint)
}
