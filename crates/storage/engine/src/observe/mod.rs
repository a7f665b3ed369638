//! What threads do with files, for observers of a session.

mod api;
pub(crate) mod callers;
pub(crate) mod notes;
pub(crate) mod reports;
mod watchers;

use crate::session::volume::of_volume;

of_volume! {
    /// Threads that use the volume, and what they use.
    Users;
    /// Threads that a mount works for.
    Callers;
}
