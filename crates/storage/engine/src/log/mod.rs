//! Logs of inodes: staging and committing entries, reading them, applying them to the session, compaction.

mod api;
pub(crate) mod apply;
pub(crate) mod checksums;
pub(crate) mod commit;
pub(crate) mod committed;
pub(crate) mod compaction;
pub(crate) mod deletion;
pub(crate) mod found_names;
pub(crate) mod layout_attribute;
pub(crate) mod mapping;
pub(crate) mod name_hash;
pub(crate) mod name_table;
pub(crate) mod staging;
pub(crate) mod unlocked;
pub(crate) mod walk;
pub(crate) mod xattrs;

use crate::session::volume::of_volume;

of_volume! {
    /// Logs of inodes.
    Log;
    /// Tables of directories: where the log has a name.
    NameTable;
}
