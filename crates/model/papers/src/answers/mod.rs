//! What becomes of each claim.

mod asymsched;
mod nthread;
mod odin;
mod pats;

use crate::answer::Entry;

/// All entries, in the table's order.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> {
    nthread::ENTRIES
        .iter()
        .chain(nthread::SLIDES)
        .chain(pats::ENTRIES)
        .chain(odin::ENTRIES)
        .chain(asymsched::ENTRIES)
}
