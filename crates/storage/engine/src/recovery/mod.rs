//! Recovery: after a crash, after the death of a process, and on request.

mod api;
pub(crate) mod check;
pub(crate) mod reap;
pub(crate) mod recover;
pub(crate) mod scrub;
pub(crate) mod undo;

use crate::session::volume::of_volume;

of_volume! {
    /// Recovery of the whole volume, and writing a repair back.
    Recovery;
    /// Gives back what dead processes held.
    Reaper;
}
