//! Where a steward keeps its files, so that other programs find them.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

use crate::error::{Result, StewardError};

/// Variable that names the directory instead.
pub const VARIABLE: &str = "EGERIA_RUNTIME_DIR";

/// Directory of all stewards' files: `$EGERIA_RUNTIME_DIR`; for root `/run/egeria`; for other users
/// `$XDG_RUNTIME_DIR/egeria`, if that belongs to them, or `/tmp/egeria-UID`.
pub fn runtime_directory() -> PathBuf {
    if let Some(directory) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        return directory.into();
    }
    let user = egeria_files::user();
    if user == 0 {
        return "/run/egeria".into();
    }
    // After a change of user, this variable is still that of the former user.
    let private = std::env::var_os("XDG_RUNTIME_DIR")
        .and_then(|name| egeria_files::directory(Path::new(&name)).ok());
    match private {
        Some(directory) => directory.join("egeria"),
        None => format!("/tmp/egeria-{user}").into(),
    }
}

/// The runtime directory, if it exists and its content can be trusted: no other user may write there, or could have
/// replaced it.
pub fn trusted_runtime_directory() -> Option<PathBuf> {
    egeria_files::directory(&runtime_directory()).ok()
}

/// Makes the runtime directory if it is missing. It must be trusted, because lines in its files decide which threads
/// are restored.
pub(crate) fn make_runtime_directory() -> Result<PathBuf> {
    make_directory(&runtime_directory())
}

fn make_directory(directory: &Path) -> Result<PathBuf> {
    let failed = |what| {
        move |error: io::Error| StewardError::File {
            what,
            path: directory.to_owned(),
            error,
            hint: "set EGERIA_RUNTIME_DIR to a directory of your own",
        }
    };
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(directory);
    made.map_err(failed("make"))?;
    egeria_files::directory(directory).map_err(failed("trust"))
}

/// The decision log of a volume's steward, or of the steward that watches processes, by default.
pub fn decision_log_path(volume: Option<Uuid>) -> PathBuf {
    runtime_directory().join(format!("{}.decisions.jsonl", stem(volume)))
}

pub(crate) fn journal_name(volume: Option<Uuid>) -> String {
    format!("{}.journal.jsonl", stem(volume))
}

fn stem(volume: Option<Uuid>) -> String {
    volume.map_or_else(|| "processes".to_owned(), |volume| volume.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_behind_another_user_s_link_is_not_trusted() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (plain, link) = (
            directory.path().join("plain"),
            directory.path().join("link"),
        );
        make_directory(&plain).unwrap();
        std::os::unix::fs::symlink(&plain, &link).unwrap();
        make_directory(&link).unwrap();
        if !egeria_harness::testing::is_root() {
            return;
        }
        std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
        let refused = make_directory(&link).unwrap_err().to_string();
        assert!(refused.contains("a link of another user's"), "{refused}");
    }
}
