//! File data: where it lies, reading and writing it, its checksums.

pub(crate) mod checksums;
pub(crate) mod fallocate;
pub(crate) mod guess;
pub(crate) mod index;
pub(crate) mod overwrite;
pub(crate) mod read;
pub(crate) mod verified;
pub(crate) mod write;
