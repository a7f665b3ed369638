//! Names and attributes: directories, the inodes of their names, and the numbers and leases given to kernels.

mod api;
pub(crate) mod attributes;
pub(crate) mod directory;
pub(crate) mod extended;
pub(crate) mod named;
pub(crate) mod names;
pub(crate) mod path;
pub(crate) mod quotas;
pub(crate) mod rename;
pub(crate) mod unlocked;

use crate::session::volume::of_volume;

of_volume! {
    /// Reading attributes, names and listings without waiting for other threads.
    Lookups;
    /// Changes of attributes.
    Metadata;
    /// Making and removing names.
    Naming;
    /// Changes of names between or within directories.
    Renaming;
    /// Counting what is in directory trees with limits.
    TreeWalks;
}
