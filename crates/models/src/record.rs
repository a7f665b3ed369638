//! What a pin names.

use crate::sync::atomic::AtomicPtr;
use loom::cell::UnsafeCell;

/// An open description; `alive` until it was freed.
pub(crate) struct Record {
    pub(crate) next: AtomicPtr<Record>,
    pub(crate) alive: UnsafeCell<bool>,
}
