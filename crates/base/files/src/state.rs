//! Where this user's Egeria keeps what it needs after a crash or a reboot.

use std::path::PathBuf;

use crate::user;

/// `$EGERIA_STATE_DIR`, for root `/var/lib/egeria`, for others `$XDG_STATE_HOME/egeria` or `~/.local/state/egeria`.
pub fn state_directory() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    match variable("EGERIA_STATE_DIR") {
        Some(directory) => PathBuf::from(directory),
        None if user() == 0 => "/var/lib/egeria".into(),
        None => {
            let home = || PathBuf::from(variable("HOME").unwrap_or_default());
            let state = variable("XDG_STATE_HOME").map(PathBuf::from);
            let state = state.unwrap_or_else(|| home().join(".local/state"));
            state.join("egeria")
        }
    }
}
