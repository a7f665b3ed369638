//! One open description of ours: its record, and how threads use it at the same time. It builds on `sync` and `trust`.

pub(crate) mod deferral;
pub(crate) mod pin;
mod private_offset;
mod read_position;
pub(crate) mod record;
pub(crate) mod reply;
pub(crate) mod sole;
