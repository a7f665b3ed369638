//! Where the summary goes.

use std::path::{Path, PathBuf};

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output;
use serde::Serialize;

/// The `--report` file: opened before the command runs, so that a wrong path costs no run.
pub(super) struct ReportFile {
    path: PathBuf,
    file: std::fs::File,
}

impl ReportFile {
    pub(super) fn create(path: &Path) -> Outcome<ReportFile> {
        let file = egeria_files::create(path).map_err(|error| {
            Failure::io(
                "write the report",
                path,
                &error,
                "choose a file you may write to",
            )
        })?;
        Ok(ReportFile {
            path: path.to_owned(),
            file,
        })
    }

    /// Writes the summary.
    pub(super) fn write(mut self, summary: &impl Serialize) -> Outcome {
        use std::io::Write;
        let text = output::to_json(summary)? + "\n";
        self.file
            .write_all(text.as_bytes())
            .map_err(|error| Failure::io("write the report", &self.path, &error, "make room there"))
    }
}
