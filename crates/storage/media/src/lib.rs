//! Pools of persistent memory: mapping, typed offsets, copies, flush and fence.
//!
//! Media assumptions (DESIGN.md): 8-byte aligned stores are atomic; a cache line
//! reaches the media whole; lines persist in any order until flush + fence.
//! [`Pool`] is the one small interface. Behind it are the plain back end and [`recorder`] (every store, flush and
//! fence, for crash tests). Next to it is [`emulation`] (timing of other machines). This crate does not know what the
//! bytes mean.

mod address;
mod caller;
pub mod clock;
mod create;
pub mod emulation;
mod error;
mod failures;
pub mod guard;
mod map;
mod map_ahead;
mod mapped_pieces;
mod pool;
mod private;
pub mod protection;
pub mod recorder;
mod sync;

pub use address::{
    BLOCK_BYTES, BlockNumber, CACHE_LINE_BYTES, HUGE_PAGE_BYTES, PoolIndex, PoolOffset,
};
pub use caller::{CallerDestination, CallerSource};
pub use error::{AccessFault, MediaError, Result};
pub use failures::forget_failure;
pub use map::{Access, Persistence};
pub use pool::{FailureHandler, Pool};
