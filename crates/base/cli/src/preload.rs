//! Where the preload library is, and how a child process is made to load it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// File name of the library.
const LIBRARY: &str = "libegeria_preload.so";

/// Path of the library if it is elsewhere; empty means: work without it.
pub const VARIABLE: &str = "EGERIA_PRELOAD_LIB";

/// The library: the path in [`VARIABLE`], else next to this executable, else in `../lib/egeria/`.
///
/// # Errors
/// When [`VARIABLE`] names no file.
pub fn find() -> Outcome<Option<PathBuf>> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return named_library(&named);
    }
    Ok(beside(LIBRARY))
}

/// A file that is installed with this program: next to it, else in `../lib/egeria/`.
pub fn beside(name: &str) -> Option<PathBuf> {
    let executable = std::env::current_exe().ok();
    let directory = executable.as_deref().and_then(Path::parent)?;
    let places = [
        directory.join(name),
        directory.join("../lib/egeria").join(name),
    ];
    let mut files = places.iter().filter_map(|place| place.canonicalize().ok());
    files.find(|place| place.is_file())
}

/// The library of [`find`], for commands that need it.
///
/// # Errors
/// When there is none.
pub fn require() -> Outcome<PathBuf> {
    find()?.ok_or_else(|| {
        Failure::new(format!(
            "{LIBRARY} is neither beside this program nor in ../lib/egeria; \
             run `make` (or `make install`), or name it in {VARIABLE}"
        ))
    })
}

fn named_library(named: &OsStr) -> Outcome<Option<PathBuf>> {
    if named.is_empty() {
        return Ok(None);
    }
    let path = Path::new(named);
    match path.canonicalize() {
        Ok(path) if path.is_file() => Ok(Some(path)),
        _ => Err(Failure::new(format!(
            "{VARIABLE} names {}, which is no file; correct it, or unset it",
            path.display()
        ))),
    }
}

/// The value of `LD_PRELOAD` that loads `library` after the present libraries.
pub fn with(existing: Option<OsString>, library: &Path) -> OsString {
    let mut value = existing
        .filter(|value| !value.is_empty())
        .unwrap_or_default();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(library);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_preload_stays_first() {
        let library = Path::new("/lib/e.so");
        assert_eq!(with(None, library), "/lib/e.so");
        assert_eq!(with(Some("".into()), library), "/lib/e.so");
        assert_eq!(
            with(Some("/a.so:/b.so".into()), library),
            "/a.so:/b.so:/lib/e.so"
        );
    }
}
