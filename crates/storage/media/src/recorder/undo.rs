//! Taking stores back: restores the old bytes, newest store first.

use super::content::PoolSet;
use crate::address::{PoolIndex, PoolOffset};
use crate::pool::Pool;

/// The old bytes at each store, in order of the stores.
#[derive(Default)]
pub(super) struct Undo {
    stores: Vec<Stored>,
    /// The old bytes of all stores, one after the other.
    bytes: Vec<u8>,
}

struct Stored {
    pool: PoolIndex,
    at: PoolOffset,
    bytes: usize,
}

impl Undo {
    /// Bytes are about to be stored here.
    pub(super) fn note(&mut self, memory: &Pool, pool: PoolIndex, at: PoolOffset, bytes: usize) {
        let from = self.bytes.len();
        self.bytes.resize(from + bytes, 0);
        match memory.read_bytes(at, &mut self.bytes[from..]) {
            Ok(()) => self.stores.push(Stored { pool, at, bytes }),
            Err(_) => self.bytes.truncate(from),
        }
    }

    /// The ranges stored to, in order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (PoolIndex, PoolOffset, usize)> + '_ {
        let stores = self.stores.iter();
        stores.map(|stored| (stored.pool, stored.at, stored.bytes))
    }

    /// Puts everything back, and forgets it.
    pub(super) fn take_back(&mut self, pools: &PoolSet) {
        while let Some(stored) = self.stores.pop() {
            let from = self.bytes.len() - stored.bytes;
            if let Some(pool) = pools.get(stored.pool) {
                // In bounds: it was read from there.
                let _ = pool.store_unseen(stored.at, &self.bytes[from..]);
            }
            self.bytes.truncate(from);
        }
    }
}
