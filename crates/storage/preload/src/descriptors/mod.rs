//! What each descriptor number is, and what happens to its record: positions, writes, placeholders for files that the kernel
//! has not opened, and the end. It builds on `description`, `signals` and `bare_calls`.

pub(crate) mod late_open;
pub(crate) mod offset;
pub(crate) mod placeholder;
pub(crate) mod reclaim;
pub(crate) mod table;
pub(crate) mod writing;
