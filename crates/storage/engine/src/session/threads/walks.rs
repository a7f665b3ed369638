//! Hints of each process: where listings of directories stopped.

use crate::format::LogPosition;
use std::collections::HashMap;
use std::sync::Mutex;

/// Walks kept at once.
const MAX_WALKS: usize = 4096;

/// Where a walk over a directory stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) cookie: u64,
    pub(crate) position: LogPosition,
    pub(crate) pages_before: u32,
    pub(crate) epoch: u64,
    pub(crate) generation: u32,
}

/// The walks of this process, by directory and cookie.
#[derive(Default)]
pub(crate) struct Walks(Mutex<HashMap<(u64, u64), Walk>>);

impl Walks {
    /// The walk that stopped at a cookie.
    pub(crate) fn at(&self, ino: u64, cookie: u64) -> Option<Walk> {
        let walks = self.0.lock().ok()?;
        walks.get(&(ino, cookie)).copied()
    }

    /// Keep a position; the others are dropped when there are too many.
    pub(crate) fn keep(&self, ino: u64, walk: Walk) {
        if let Ok(mut walks) = self.0.lock() {
            if walks.len() >= MAX_WALKS {
                walks.clear();
            }
            walks.insert((ino, walk.cookie), walk);
        }
    }
}
