//! Numbers that one thread alone has used: it closes them without asking the others.
//!
//! ```text
//! opener: opener = me ─ word names the record, SOLE … use it … take the word out as it is? then free
//! other:  SOLE, and opener is not me ─ take SOLE off the word ─ then as in `pin`
//! ```
//!
//! The word decides: either it is taken out with SOLE, and no other thread ever got at the record, or SOLE is taken off
//! first, and whoever takes the word out looks at all pins.

use crate::sync::atomic::{AtomicU64, Ordering};

/// In a word: only the thread that opened the number has used it.
pub const SOLE: u64 = 1 << 3;

/// Whether a thread may use what the word names as it is. The opener was stored before the word was.
#[inline(always)]
pub fn may_use(word: u64, opener: &AtomicU64, thread: u64) -> bool {
    word & SOLE == 0 || opener.load(Ordering::Relaxed) == thread
}

/// Others may use it from now on; false when the word is another one by now.
pub fn share(place: &AtomicU64, word: u64) -> bool {
    place
        .compare_exchange(word, word & !SOLE, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}
