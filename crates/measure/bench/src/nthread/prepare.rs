//! What programs share that prepare files.

use std::sync::Arc;

use egeria_engine::Volume;
use egeria_harness::{Error, Result};

/// On a thread of its own, which is gone from the session afterwards: else it would count as one of
/// those that a scheduler spreads over the nodes.
pub(super) fn aside(
    volume: &Arc<Volume>,
    work: impl FnOnce(&Volume) -> Result<()> + Send,
) -> Result<()> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let done = work(volume);
            volume.thread_exit();
            done
        });
        thread
            .join()
            .unwrap_or_else(|_| Err(Error::failed("preparing files panicked")))
    })
}
