//! File data: where it is, reading and writing it, its checksums.

pub(crate) mod delegation;
pub(crate) mod fallocate;
pub(crate) mod in_place;
pub(crate) mod overwrite;
pub(crate) mod patient;
pub(crate) mod prefetch;
pub(crate) mod read;
pub(crate) mod relocate;
pub(crate) mod verified;
pub(crate) mod write;
pub(crate) mod write_back;
pub(crate) mod write_rules;
