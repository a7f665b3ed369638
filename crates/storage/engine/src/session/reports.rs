//! Reports of damage to the operator of the volume: once for each place.

use crate::failure_cause::FailureCause;
use crate::session::Reports;
use crate::session::volume::{Reported, Severity};
use egeria_media::{BlockNumber, PoolIndex};
use std::sync::PoisonError;

/// Reports remembered, so that none is made twice. When the set is full, it is cleared.
const MAX_REPORTED: usize = 4096;

impl Reports<'_> {
    pub(super) fn find(self, line: &str) {
        if let Ok(mut findings) = self.volume.findings.lock()
            && let Some(findings) = findings.as_mut()
        {
            findings.push(line.to_owned());
        }
    }

    #[cold]
    pub(super) fn report_block(self, pool: usize, block: u64) {
        if self.is_new(Reported::Block { pool, block }) {
            let path = self.volume.paths.get(pool).cloned().unwrap_or_default();
            let cause = FailureCause::Medium {
                pool: PoolIndex(pool as u8),
                block: BlockNumber(block),
            };
            self.volume
                .report(Severity::Error, &format!("{}: {cause}", path.display()));
        }
    }

    /// Whether there is a reporter that has not received this yet.
    pub(crate) fn is_new(self, reported: Reported) -> bool {
        if self.volume.reporter.get().is_none() {
            return false;
        }
        let mut known = self
            .volume
            .reported
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REPORTED {
            known.clear();
        }
        known.insert(reported)
    }
}
