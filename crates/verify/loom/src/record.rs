//! What a pin names.

use crate::cell::Watched;
use crate::sync::atomic::AtomicPtr;

/// An open description; `alive` until it was freed.
pub(crate) struct Record {
    pub(crate) next: AtomicPtr<Record>,
    pub(crate) alive: Watched<bool>,
}
