//! Changing the pools of a volume: adding, draining and removing one, and upgrading the format.

mod add;
mod drain;
mod exclusive;
mod remove;
mod upgrade;

pub use add::{AddedPool, add_pool, add_pool_private};
pub use drain::{DrainProgress, DrainReport, GoOn, LostRange, Unreadable};
pub use remove::{RemovedPool, remove_pool, remove_pool_private};
pub use upgrade::{Upgraded, upgrade_private, upgrade_volume};
