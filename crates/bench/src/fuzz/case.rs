//! Cases on disk: an input in which something was wrong, to be looked at again.

use super::board::MOST_STEPS;
use super::target::{Case, Target};
use crate::error::{BenchError, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the file.
const VERSION: u32 = 1;
/// A larger file is none of ours.
const MAX_BYTES: u64 = 1 << 16;

/// A saved case.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved {
    egeria_fuzz_case: u32,
    pub(super) target: Target,
    pub(super) case: Case,
    /// What was wrong.
    pub(super) why: String,
}

/// Save it; the file.
pub(super) fn save(
    directory: &Path,
    number: u64,
    target: Target,
    case: &Case,
    why: &str,
) -> Result<PathBuf> {
    let saved = Saved {
        egeria_fuzz_case: VERSION,
        target,
        case: case.clone(),
        why: why.to_owned(),
    };
    let path = directory.join(format!("fuzz-{target}-{number}.json"));
    let text = serde_json::to_string_pretty(&saved).map_err(BenchError::failed)?;
    let failed = |error| {
        let doing = format!("cannot save {}", path.display());
        BenchError::io(
            doing,
            error,
            "choose a directory that can be written with --out",
        )
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    std::fs::write(&path, text + "\n").map_err(failed)?;
    Ok(path)
}

/// Read a saved case.
pub(super) fn load(path: &Path) -> Result<Saved> {
    let failed = |error| {
        let doing = format!("cannot read {}", path.display());
        BenchError::io(doing, error, "name a case that `egeria bench fuzz` saved")
    };
    let no_case = |why: String| {
        let path = path.display();
        BenchError::failed(format!(
            "{path} is no fuzz case: {why}; name one that `egeria bench fuzz` saved"
        ))
    };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > MAX_BYTES {
        return Err(no_case(format!("it has {bytes} bytes")));
    }
    let text = std::fs::read(path).map_err(failed)?;
    let saved: Saved = serde_json::from_slice(&text).map_err(|error| no_case(error.to_string()))?;
    if saved.egeria_fuzz_case != VERSION {
        let version = saved.egeria_fuzz_case;
        return Err(no_case(format!(
            "it has version {version}, known here is {VERSION}"
        )));
    }
    match saved.case.steps.len() {
        0..=MOST_STEPS => Ok(saved),
        steps => Err(no_case(format!("it has {steps} changes"))),
    }
}
