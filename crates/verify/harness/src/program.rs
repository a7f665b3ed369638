//! Programs and libraries that measurements and tests start: where they are.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use egeria_files::{Error, Result};

/// The program: as given, as the environment's `variable` says, or beside this executable.
pub fn find_beside(given: Option<&Path>, program: &str, variable: &str) -> Result<PathBuf> {
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
        let looked: Vec<String> = candidates
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let looked = looked.join(", ");
        Error::failed(format!(
            "no {program} at {looked}; build it (cargo build --release) or set {variable}"
        ))
    })
}

/// Where a command lies in `PATH`.
pub fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| is_executable(file))
}

/// Whether this is a file that we may run.
pub fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file)
        .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// The library under a name that `LD_PRELOAD` takes: absolute, and without blanks and colons, which
/// separate names there. Where it has some, a link to it is made in `directory`.
pub fn loadable(library: &Path, directory: &Path) -> Result<PathBuf> {
    let missing = |error| {
        let doing = format!("no preload library at {}", library.display());
        Error::io(doing, error, "build it (cargo build --release)")
    };
    let library = library.canonicalize().map_err(missing)?;
    let separates = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
    if !library.as_os_str().as_bytes().iter().any(separates) {
        return Ok(library);
    }
    let link = directory.join("preload.so");
    match std::os::unix::fs::symlink(&library, &link) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let doing = format!("cannot link to {}", library.display());
            Err(Error::io(
                doing,
                error,
                "move it where names have no blanks",
            ))
        }
        _ => Ok(link),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_whose_name_separates_is_loaded_by_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let odd = directory.path().join("my libraries: new.so");
        std::fs::write(&odd, "").unwrap();
        let link = loadable(&odd, directory.path()).unwrap();
        assert!(!link.to_string_lossy().contains([' ', ':']));
        assert_eq!(link.canonicalize().unwrap(), odd.canonicalize().unwrap());
        assert_eq!(loadable(&odd, directory.path()).unwrap(), link, "again");
        let plain = directory.path().join("plain.so");
        std::fs::write(&plain, "").unwrap();
        assert_eq!(
            loadable(&plain, directory.path()).unwrap(),
            plain.canonicalize().unwrap()
        );
        let text = loadable(Path::new("/nonexistent.so"), directory.path())
            .unwrap_err()
            .to_string();
        assert!(
            text.starts_with("no preload library at /nonexistent.so"),
            "{text}"
        );
    }
}
