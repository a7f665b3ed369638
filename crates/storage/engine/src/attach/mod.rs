//! Finding, making and attaching the pools of a volume.

mod api;
pub(crate) mod attach_volume;
pub(crate) mod create;
pub(crate) mod grown;
pub(crate) mod pool_locks;
pub(crate) mod pools;
pub(crate) mod private;
pub(crate) mod session_line;
pub(crate) mod superblocks;

use crate::session::volume::of_volume;

of_volume! {
    /// The end of an attachment.
    Leaving;
}
