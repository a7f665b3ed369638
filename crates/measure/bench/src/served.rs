//! Whether the preload library itself served the calls that were measured. If not, the figures would be the kernel's.

use egeria_engine::Counters;
use egeria_harness::{Error, Result};

/// Fails unless the session counted all these calls as served by the preload library.
pub(crate) fn check(before: &Counters, after: &Counters, calls: u64, what: &str) -> Result<()> {
    let direct = after.direct_calls.saturating_sub(before.direct_calls);
    if direct >= calls {
        return Ok(());
    }
    let passed = after.passed_calls.saturating_sub(before.passed_calls);
    Err(not_direct(&format!(
        "{what}: of {calls} calls {direct} were served directly, {passed} passed to the kernel"
    )))
}

/// The preload library did not serve.
pub(crate) fn not_direct(how: &str) -> Error {
    Error::failed(format!(
        "the preload library did not serve the calls itself ({how}); unset EGERIA_PRELOAD and EGERIA_BYPASS, and is the library of this build?"
    ))
}
