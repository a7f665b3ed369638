//! The kernel's open file descriptions.

use crate::state::coherence::Mark;
use egeria_engine::{DescriptionSlot, Errno, FileReference, InodeNumber, Outcome};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

const SHARDS: usize = 16;

/// One open file description of the kernel.
pub(crate) struct OpenFile {
    pub ino: InodeNumber,
    pub file: FileReference,
    /// Holds the file position shared with programs that bypass the kernel. Directories, and files when there are too
    /// many, have none.
    pub slot: Option<DescriptionSlot>,
    pub mark: Mark,
    /// It may change the file.
    pub writes: bool,
    /// Its reads and writes go through the page cache, under a lease.
    pub keeps_pages: bool,
    /// The directory is listed up to this position.
    pub end_cookie: AtomicU64,
    /// The kernel keeps the listing that it reads.
    pub keeps_listing: bool,
}

/// All open descriptions, by the number the kernel hands back.
#[derive(Default)]
pub(crate) struct OpenFiles {
    next: AtomicU64,
    shards: [RwLock<HashMap<u64, Arc<OpenFile>>>; SHARDS],
}

impl OpenFiles {
    fn shard(&self, handle: u64) -> &RwLock<HashMap<u64, Arc<OpenFile>>> {
        &self.shards[handle as usize % SHARDS]
    }

    pub(crate) fn insert(&self, file: OpenFile) -> u64 {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        let mut shard = self
            .shard(handle)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        shard.insert(handle, Arc::new(file));
        handle
    }

    /// The open description; `EBADF` for an unknown or released number.
    pub(crate) fn get(&self, handle: u64) -> Outcome<Arc<OpenFile>> {
        let shard = self
            .shard(handle)
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        shard.get(&handle).cloned().ok_or(Errno(libc::EBADF))
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<OpenFile>> {
        let mut shard = self
            .shard(handle)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        shard.remove(&handle)
    }

    pub(crate) fn drain(&self) -> Vec<Arc<OpenFile>> {
        let take = |shard: &RwLock<HashMap<u64, Arc<OpenFile>>>| {
            std::mem::take(&mut *shard.write().unwrap_or_else(PoisonError::into_inner))
        };
        self.shards
            .iter()
            .flat_map(|shard| take(shard).into_values())
            .collect()
    }
}
