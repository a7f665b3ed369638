//! What happens to pools.

use std::panic::Location;

use crate::address::{PoolIndex, PoolOffset};

/// One thing that happened to the recorded pools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Bytes were stored; visible, not yet durable.
    Store {
        /// The kernel's id of the thread.
        thread: u32,
        pool: PoolIndex,
        at: PoolOffset,
        /// What is there now.
        bytes: Box<[u8]>,
    },
    /// The lines that the range touches were written back.
    Flush {
        /// The kernel's id of the thread.
        thread: u32,
        pool: PoolIndex,
        at: PoolOffset,
        /// Length of the range.
        bytes: u64,
        /// Source location of the flush.
        caller: &'static Location<'static>,
    },
    /// What the thread flushed before is durable from here on.
    Fence {
        /// The kernel's id of the thread.
        thread: u32,
        /// Source location of the fence.
        caller: &'static Location<'static>,
    },
    /// A place the test marked, as "operation 7 returned".
    Mark(u64),
}
