//! File data: where it is, reading and writing it, its checksums.

mod api;
pub(crate) mod delegation;
pub(crate) mod evacuate;
pub(crate) mod fallocate;
pub(crate) mod in_place;
pub(crate) mod overwrite;
pub(crate) mod patient;
pub(crate) mod prefetch;
pub(crate) mod read;
pub(crate) mod relocate;
mod short;
pub(crate) mod verified;
pub(crate) mod write;
pub(crate) mod write_back;
pub(crate) mod write_rules;

use crate::session::volume::of_volume;

of_volume! {
    /// Reading the data of files, and verifying it.
    Reading;
    /// Writing the data of files.
    Writing;
    /// Allocating and freeing ranges of files, and finding holes.
    Reserving;
    /// Moving the data of files between pools.
    Relocating;
    /// Having long accesses done by other threads.
    Delegating;
}
