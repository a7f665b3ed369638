//! Who may attach volumes and make descriptors ours, and whether anybody tried.

use crate::settings;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static ADMITTED: AtomicUsize = AtomicUsize::new(0);
static TRIED: AtomicBool = AtomicBool::new(false);

/// Whether an attach was ever tried.
pub fn any() -> bool {
    TRIED.load(Ordering::Acquire)
}

/// An attach is tried, and its outcome about to be known.
pub fn note_attach() {
    TRIED.store(true, Ordering::Release);
}

/// Whether somebody is in [`admitted`].
pub fn is_anybody_admitted() -> bool {
    ADMITTED.load(Ordering::SeqCst) != 0
}

/// Run what makes the table or a volume ours; `None` when that is over. The caller is inside, so that no
/// handler of the program jumps out of it.
pub fn admitted<T>(body: impl FnOnce() -> T) -> Option<T> {
    struct Admission;
    impl Drop for Admission {
        fn drop(&mut self) {
            ADMITTED.fetch_sub(1, Ordering::SeqCst);
        }
    }
    ADMITTED.fetch_add(1, Ordering::SeqCst);
    let _admission = Admission;
    (!settings::is_off()).then(body)
}
