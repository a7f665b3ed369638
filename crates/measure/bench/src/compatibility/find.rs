//! What jobs need, and where it is.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use egeria_harness::program::is_executable;
use egeria_harness::{Error, Result};

use super::job::Job;
use super::user::is_root;

/// Where programs of Debian are; a caller's own additions are not for other users.
const PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Programs from PyPI, npm and crates.io, in a directory of their own.
pub(super) struct Tools {
    directory: PathBuf,
}

impl Tools {
    /// In this directory, or in the usual one of this user.
    ///
    /// # Errors
    /// When there is no usual one.
    pub(super) fn at(directory: Option<&Path>) -> Result<Tools> {
        let usual = || {
            if is_root() {
                return Some(PathBuf::from("/opt/egeria-programs"));
            }
            let home = std::env::var_os("HOME")?;
            Some(Path::new(&home).join(".cache/egeria-programs"))
        };
        let directory = directory.map(Path::to_owned).or_else(usual);
        let directory = directory
            .ok_or_else(|| Error::failed("HOME is not set; name a directory by --tools"))?;
        let directory = std::path::absolute(&directory)
            .map_err(|error| Error::io("cannot find the tools", error, "name another directory"))?;
        Ok(Tools { directory })
    }

    /// Makes the directory, if it is not there.
    ///
    /// # Errors
    /// When it cannot be made, or other users may write there: what is in it is run.
    pub(super) fn make(&self) -> Result<&Path> {
        let failed = |error| {
            let doing = format!("cannot install into {}", self.directory.display());
            Error::io(doing, error, "name a directory of your own by --tools")
        };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o755);
        builder.create(&self.directory).map_err(failed)?;
        egeria_files::directory(&self.directory).map_err(failed)?;
        Ok(&self.directory)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The virtual environment of Python.
    pub(super) fn python(&self) -> PathBuf {
        self.directory.join("python")
    }

    /// The directory that has npm's `node_modules`.
    pub(super) fn node(&self) -> PathBuf {
        self.directory.join("node")
    }

    /// What `cargo install` calls the root.
    pub(super) fn crates(&self) -> PathBuf {
        self.directory.join("crates")
    }

    /// Where a job finds its programs.
    pub(super) fn path(&self, job: &Job) -> OsString {
        let own = [
            self.python().join("bin"),
            self.node().join("node_modules/.bin"),
            self.crates().join("bin"),
        ];
        let named = job.path.iter();
        let named = named.filter_map(|pattern| newest(&self.directory.join(pattern)));
        let usual = PATH.iter().map(PathBuf::from);
        std::env::join_paths(named.chain(own).chain(usual)).unwrap_or_default()
    }

    /// What the job needs and is not there.
    pub(super) fn missing(&self, job: &Job) -> Vec<String> {
        let is_missing = |need: &&String| !self.has(job, need);
        job.needs.iter().filter(is_missing).cloned().collect()
    }

    /// A need is a program, a file by its path, `python:MODULE` or `node:MODULE`.
    fn has(&self, job: &Job, need: &str) -> bool {
        if let Some(module) = need.strip_prefix("python:") {
            return self.imports(module);
        }
        if let Some(module) = need.strip_prefix("node:") {
            return self.node().join("node_modules").join(module).is_dir();
        }
        if need.starts_with('/') {
            return Path::new(need).exists();
        }
        let path = self.path(job);
        std::env::split_paths(&path).any(|directory| is_executable(&directory.join(need)))
    }

    fn imports(&self, module: &str) -> bool {
        let mut command = Command::new(self.python().join("bin/python3"));
        command.args(["-c", &format!("import {module}")]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

/// The last directory, by its name, that a pattern with one `*` as a whole component stands for.
fn newest(pattern: &Path) -> Option<PathBuf> {
    let text = pattern.to_str()?;
    let Some((before, after)) = text.split_once("/*/") else {
        return Some(pattern.to_owned());
    };
    let entries = std::fs::read_dir(before).ok()?.flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path().join(after))
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_its_newest_directory() {
        let root = tempfile::tempdir().unwrap();
        for version in ["14", "15"] {
            std::fs::create_dir_all(root.path().join(version).join("bin")).unwrap();
        }
        std::fs::create_dir(root.path().join("16")).unwrap();
        let pattern = root.path().join("*/bin");
        assert_eq!(newest(&pattern), Some(root.path().join("15/bin")));
        let plain = Path::new("/usr/bin");
        assert_eq!(newest(plain), Some(plain.to_owned()));
        assert_eq!(newest(Path::new("/nonexistent/*/bin")), None);
    }
}
