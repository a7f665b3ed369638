//! The threads that recall leases. A recall may wait for a look-up or a change in its directory, and these for the
//! process that holds the directory, which may be stopped. So there is always one more thread than there are recalls,
//! up to a limit.

use crate::point::error::MountError;
use crate::state::adapter::Adapter;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a thread with nothing to do looks whether the mount has ended.
const LOOK_AROUND: Duration = Duration::from_millis(500);
const MAX_THREADS: usize = 64;

struct Shared {
    adapter: Arc<Adapter>,
    is_over: AtomicBool,
    /// Threads that wait for a recall.
    idle: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Recalls of a mount.
pub(crate) struct Recalls(Arc<Shared>);

impl Recalls {
    pub(crate) fn start(adapter: Arc<Adapter>) -> Result<Recalls, MountError> {
        let shared = Arc::new(Shared {
            adapter,
            is_over: AtomicBool::new(false),
            idle: AtomicUsize::new(0),
            threads: Mutex::default(),
        });
        add_thread(&shared).map_err(|source| MountError::System {
            what: "cannot start a thread".to_owned(),
            hint: "raise the limit of processes (ulimit -u)",
            source,
        })?;
        Ok(Recalls(shared))
    }

    /// Stop recalls, after the last request was answered.
    pub(crate) fn stop(self) {
        drop(self);
    }
}

impl Drop for Recalls {
    fn drop(&mut self) {
        // Threads that wait for a recall need not wait any more, and no lease is granted that could not be recalled.
        self.0.adapter.leases.end();
        self.0.adapter.kernel.end();
        self.0.is_over.store(true, Ordering::Release);
        self.0.adapter.volume.ring_for_recalls();
        loop {
            let threads = std::mem::take(&mut *locked(&self.0.threads));
            if threads.is_empty() {
                return;
            }
            for thread in threads {
                let _ = thread.join();
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add_thread(shared: &Arc<Shared>) -> std::io::Result<()> {
    let mut threads = locked(&shared.threads);
    if threads.len() >= MAX_THREADS {
        return Ok(());
    }
    let own = shared.clone();
    let builder = std::thread::Builder::new()
        .name("egeria-recall".to_owned())
        .stack_size(256 << 10);
    threads.push(builder.spawn(move || serve(&own))?);
    Ok(())
}

fn serve(shared: &Arc<Shared>) {
    let adapter = &shared.adapter;
    let is_over = || shared.is_over.load(Ordering::Acquire);
    while !is_over() {
        adapter.leases.work_for_kernel();
        shared.idle.fetch_add(1, Ordering::AcqRel);
        let recall = adapter.volume.next_recall(LOOK_AROUND, is_over);
        let others = shared.idle.fetch_sub(1, Ordering::AcqRel) - 1;
        let Some(recall) = recall else {
            continue;
        };
        if others == 0 {
            // Without another thread, this one does all recalls one after the other.
            let _ = add_thread(shared);
        }
        let is_known = || adapter.known.is_known(recall.ino);
        let has_unsent = || adapter.coherence.has_unsent(recall.ino);
        adapter
            .leases
            .recall(recall, is_known, has_unsent, &adapter.kernel);
    }
}
