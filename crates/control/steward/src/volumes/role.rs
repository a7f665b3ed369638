//! What a steward may do with volumes.

use std::path::PathBuf;

/// What a steward does with the volumes that it follows.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// It decides about them, and keeps other stewards off. The decision log is named to processes that find a journal
    /// in use.
    Decides { log: PathBuf, watches_files: bool },
    /// It sees what its processes read and write there, and changes nothing of the volume.
    Sees,
}
