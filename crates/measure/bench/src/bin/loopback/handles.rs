//! What the kernel has open, by handle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use fuser::FileHandle;
use rustix::io::Errno;

use crate::answers::Answer;

/// Open things of one kind.
pub struct Handles<T> {
    open: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Handles {
            open: RwLock::default(),
            next: AtomicU64::new(1),
        }
    }
}

impl<T> Handles<T> {
    /// Gives it a handle.
    pub fn keep(&self, thing: T) -> FileHandle {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.insert(handle, Arc::new(thing));
        FileHandle(handle)
    }

    /// What has this handle.
    pub fn get(&self, handle: FileHandle) -> Answer<Arc<T>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    /// Takes it away; it is closed without the lock.
    pub fn close(&self, handle: FileHandle) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let closed = open.remove(&handle.0);
        drop(open);
        drop(closed);
    }
}
