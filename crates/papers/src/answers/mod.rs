//! What becomes of each claim.

mod asymsched;
mod nthread;
mod odin;
mod pats;

use crate::answer::Entry;

/// Why rows about these two file systems stay open.
pub(crate) const OTHER_FILE_SYSTEMS: &str = "what ext4-dax and PMFS compute per operation is no property of a machine, and no paper \
     here gives a micro-benchmark of it";

/// All entries, in the table's order.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> {
    nthread::ENTRIES
        .iter()
        .chain(nthread::SLIDES)
        .chain(pats::ENTRIES)
        .chain(odin::ENTRIES)
        .chain(asymsched::ENTRIES)
}
