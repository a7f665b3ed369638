//! Requests that must wait for the holder of an inode, which may be a stopped process. Each waits on a thread of its
//! own, so that the few threads that serve requests never all wait.

use crate::replies::failures::{self, Operation};
use crate::state::adapter::Adapter;
use egeria_engine::{Errno, Outcome, within_patience};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a serving thread waits itself.
const PATIENCE: Duration = Duration::from_millis(5);
/// Requests that wait at the same time. More are refused: such a number usually waits for one file.
const MAX_WAITING: usize = 512;

/// A waiting request, as long as this lives.
struct Waiting(Arc<Adapter>);

impl Waiting {
    fn begin(adapter: &Arc<Adapter>) -> Option<Waiting> {
        let before = adapter.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(adapter.clone());
        (before < MAX_WAITING).then_some(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Try to do `work` now. `None`: it would have to wait.
pub(crate) fn soon<T>(work: impl FnOnce() -> Outcome<T>) -> Option<Outcome<T>> {
    within_patience(PATIENCE, work)
}

/// Do `work` on a thread that may wait, and answer.
pub(crate) fn elsewhere<T>(
    adapter: &Arc<Adapter>,
    operation: Operation,
    work: impl FnOnce(&Adapter) -> Outcome<T> + Send + 'static,
    answer: impl FnOnce(&Adapter, Outcome<T>) + Send + 'static,
) {
    let Some(waiting) = Waiting::begin(adapter) else {
        return answer(adapter, Err(Errno(libc::ENOMEM)));
    };
    let body = move || {
        let adapter = &waiting.0;
        adapter.leases.work_for_kernel();
        adapter.failures.watch(&adapter.volume, operation, || {
            let outcome = work(adapter);
            answer(adapter, outcome);
        });
    };
    failures::note_handed_on();
    let thread = std::thread::Builder::new()
        .name("egeria-waiting".to_owned())
        .stack_size(256 << 10)
        .spawn(body);
    // Without a thread the reply was dropped with `body`, which fuser answers with `EIO`.
    if let Err(error) = thread {
        adapter.failures.log_without_thread(operation, &error);
    }
}
