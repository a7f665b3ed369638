//! Counts of the lines that the log of a mount has of a volume.

use std::sync::atomic::{AtomicU64, Ordering};

use egeria_engine::Severity;

/// How many lines were reported of a volume.
#[derive(Default, Debug)]
pub struct Reports {
    warnings: AtomicU64,
    errors: AtomicU64,
}

impl Reports {
    pub fn count(&self, severity: Severity, lines: u64) {
        let count = match severity {
            Severity::Information => return,
            Severity::Warning => &self.warnings,
            Severity::Error => &self.errors,
        };
        count.fetch_add(lines, Ordering::Relaxed);
    }

    /// Lines by severity.
    pub fn counts(&self) -> [(&'static str, u64); 2] {
        [("warning", &self.warnings), ("error", &self.errors)]
            .map(|(severity, count)| (severity, count.load(Ordering::Relaxed)))
    }
}
