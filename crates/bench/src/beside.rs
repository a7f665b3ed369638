//! Programs of our own that measurements start.

use std::path::{Path, PathBuf};

use crate::error::{BenchError, Result};
use crate::process::is_executable;

/// The program: as given, as the environment's `variable` says, or beside this executable.
pub(crate) fn find(given: Option<&Path>, program: &str, variable: &str) -> Result<PathBuf> {
    let named = given
        .map(Path::to_owned)
        .or_else(|| std::env::var_os(variable).map(PathBuf::from));
    let here = std::env::current_exe().ok();
    let beside = |relative: &str| {
        here.as_deref()
            .and_then(Path::parent)
            .map(|parent| parent.join(relative))
    };
    let candidates = match named {
        Some(path) => vec![path],
        None => ["", "../lib/egeria"]
            .iter()
            .filter_map(|place| beside(place))
            .map(|place| place.join(program))
            .collect(),
    };
    let found = candidates.iter().find(|path| is_executable(path)).cloned();
    found.ok_or_else(|| {
        let looked: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        let looked = looked.join(", ");
        BenchError::failed(format!(
            "no {program} at {looked}; build it (cargo build --release -p egeria-bench) or set {variable}"
        ))
    })
}
