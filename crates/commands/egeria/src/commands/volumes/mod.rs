//! Making volumes, using them, and checking them.

pub mod check;
pub mod df;
pub mod mkfs;
pub mod mount;
pub(crate) mod options;
pub(crate) mod placement;
pub mod pool;
pub mod quota;
pub mod receive;
pub mod run;
pub mod scrub;
pub mod send;
mod sharing;
pub mod stat;
pub mod umount;
pub mod units;
pub mod upgrade;
