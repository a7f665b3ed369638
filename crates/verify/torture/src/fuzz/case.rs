//! Cases on disk: an input in which something was wrong, to be looked at again.

use super::status_page::MAX_STEPS;
use super::subject::Case;
use super::target::Target;
use crate::case_file::CaseFile;
use egeria_harness::Result;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const FILE: CaseFile = CaseFile {
    word: "fuzz",
    version_key: "egeria_fuzz_case",
    version: 2,
    max_bytes: 1 << 16,
    hint: "name one that `egeria-torture fuzz` saved",
};

/// A saved case.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved {
    egeria_fuzz_case: u32,
    pub(super) target: Target,
    pub(super) case: Case,
    /// What was wrong.
    pub(super) reason: String,
}

/// Save it; the file.
pub(super) fn save(directory: &Path, target: Target, case: &Case, why: &str) -> Result<PathBuf> {
    let saved = Saved {
        egeria_fuzz_case: FILE.version,
        target,
        case: case.clone(),
        reason: why.to_owned(),
    };
    FILE.save(directory, &format!("fuzz-{target}"), &saved)
}

/// Read a saved case.
pub(super) fn load(path: &Path) -> Result<Saved> {
    let saved: Saved = FILE.load(path)?;
    match saved.case.mutation_seeds.len() {
        0..=MAX_STEPS => Ok(saved),
        steps => Err(FILE.no_case(path, format!("it has {steps} changes"))),
    }
}
