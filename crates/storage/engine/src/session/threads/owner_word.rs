//! Words that name a thread or an attachment, and which incarnation of it.

use crate::session::layout::THREAD_SLOTS;

/// The owner word of an inode: slot and incarnation of the thread that holds its lock. Zero: no operation in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OwnerWord(pub(crate) u32);

impl OwnerWord {
    const SLOT_BITS: u32 = 13;
    const SLOT_MASK: u32 = (1 << OwnerWord::SLOT_BITS) - 1;
    const INCARNATION_MASK: u32 = u32::MAX >> OwnerWord::SLOT_BITS;

    /// The word of the thread in a slot, with the slot's present incarnation (low bits only).
    #[inline(always)]
    pub(crate) fn new(slot: usize, incarnation: u64) -> OwnerWord {
        OwnerWord((slot as u32 + 1) | ((incarnation as u32) << OwnerWord::SLOT_BITS))
    }

    /// The thread's slot; `None`: no thread.
    pub(crate) fn slot(self) -> Option<usize> {
        ((self.0 & OwnerWord::SLOT_MASK) as usize).checked_sub(1)
    }

    /// Whether the slot is in the incarnation that the word names.
    pub(crate) fn is_of(self, incarnation: u64) -> bool {
        incarnation as u32 & OwnerWord::INCARNATION_MASK == self.0 >> OwnerWord::SLOT_BITS
    }
}

const _: () = assert!(THREAD_SLOTS < 1 << OwnerWord::SLOT_BITS);

/// An attachment of this process (never 0), and the number of forks since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Era(pub(crate) u64);

impl Era {
    const FORK_BITS: u32 = 24;

    /// Of an attachment that begins.
    pub(crate) fn of_attachment(number: u64) -> Era {
        Era(number << Era::FORK_BITS)
    }

    /// Whether a fork happened since the attachment began.
    pub(crate) fn has_forked(self) -> bool {
        self.0 & ((1 << Era::FORK_BITS) - 1) != 0
    }

    /// Whether both are of one attachment.
    pub(crate) fn is_same_attachment(self, other: Era) -> bool {
        self.0 >> Era::FORK_BITS == other.0 >> Era::FORK_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_words_name_slot_and_incarnation() {
        assert_eq!(OwnerWord(0).slot(), None);
        for slot in [0, 1, THREAD_SLOTS - 1] {
            let word = OwnerWord::new(slot, 0x1_0007_ffff);
            assert_eq!(word.slot(), Some(slot));
            assert!(word.is_of(0x7ffff) && !word.is_of(0x7fffe));
        }
    }

    #[test]
    fn eras_count_forks_within_an_attachment() {
        let era = Era::of_attachment(7);
        let child = Era(era.0 + 1);
        assert!(!era.has_forked() && child.has_forked());
        assert!(era.is_same_attachment(child) && !era.is_same_attachment(Era::of_attachment(8)));
    }
}
