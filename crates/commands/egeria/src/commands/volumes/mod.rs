//! Making volumes, using them, and checking them.

pub mod check;
pub mod df;
pub mod mkfs;
pub mod mount;
pub(crate) mod options;
pub(crate) mod placement;
pub mod pool;
pub mod quota;
pub mod run;
pub mod scrub;
mod sharing;
pub mod stat;
pub mod umount;
pub mod units;
pub mod upgrade;
