//! Where the memory of a pool failed last under each thread, for code that must explain why an operation failed: the
//! errors of the hot routines have no room for it.

use std::cell::Cell;

thread_local! {
    /// The address; 0: none.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// Forget where pool memory failed under this thread.
pub fn forget_failure() {
    let _ = LAST.try_with(|last| last.set(0));
}

pub(crate) fn note(address: usize) {
    let _ = LAST.try_with(|last| last.set(address));
}

pub(crate) fn last() -> Option<usize> {
    LAST.try_with(Cell::get).ok().filter(|last| *last != 0)
}
