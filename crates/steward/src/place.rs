//! Where a steward keeps its files, so that others find them.

use std::path::PathBuf;

use uuid::Uuid;

/// Variable that names the directory instead.
pub const VARIABLE: &str = "EGERIA_RUNTIME_DIR";

/// Directory of all stewards' files: `$EGERIA_RUNTIME_DIR`, for root `/run/egeria`, for others
/// `$XDG_RUNTIME_DIR/egeria` or `/tmp/egeria-UID`.
pub fn runtime_directory() -> PathBuf {
    if let Some(directory) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        return directory.into();
    }
    // SAFETY: no arguments, cannot fail.
    let user = unsafe { libc::geteuid() };
    if user == 0 {
        return "/run/egeria".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|name| !name.is_empty()) {
        Some(directory) => PathBuf::from(directory).join("egeria"),
        None => format!("/tmp/egeria-{user}").into(),
    }
}

/// The decision log of a volume's steward, unless it was told another.
pub fn decision_log_path(volume: Uuid) -> PathBuf {
    runtime_directory().join(format!("{volume}.decisions.jsonl"))
}

pub(crate) fn grants_path(volume: Uuid) -> PathBuf {
    runtime_directory().join(format!("{volume}.grants.jsonl"))
}
