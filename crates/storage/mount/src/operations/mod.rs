//! One file per family of requests.

pub(crate) mod attributes;
pub(crate) mod control;
pub(crate) mod data;
pub(crate) mod directory;
mod handles;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod xattr;
