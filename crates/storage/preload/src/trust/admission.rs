//! Who may attach volumes and make descriptors ours, and whether anybody tried.

use super::settings;
use std::sync::atomic::{AtomicBool, Ordering};

static TRIED: AtomicBool = AtomicBool::new(false);

/// Whether an attach was ever tried.
pub fn any() -> bool {
    TRIED.load(Ordering::Acquire)
}

/// An attach is tried, and its outcome about to be known.
pub fn note_attach() {
    TRIED.store(true, Ordering::Release);
}

/// Wait until nobody is in [`admitted`], when the library is off.
pub fn wait_until_none() {
    settings::GATE.wait_until_empty();
}

/// Run what makes the table or a volume ours; `None` when that is over. The caller is inside, so that no
/// handler of the program jumps out of it.
pub fn admitted<T>(body: impl FnOnce() -> T) -> Option<T> {
    settings::GATE.inside(body)
}
