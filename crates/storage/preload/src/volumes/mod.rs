//! The volumes that this process attached, the mounts that lead to them, whose rights count there, and the files that it
//! watches. It builds on `descriptors` and `trust`.

pub(crate) mod identity;
pub(crate) mod mounts;
pub(crate) mod registry;
pub(crate) mod watched;
