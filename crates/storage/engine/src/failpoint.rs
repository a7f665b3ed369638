//! Failpoints: allocations fail on request, so that tests reach every place where space can run out.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// Blocks of a pool; fails with `ENOSPC`.
    Blocks,
    /// An inode number; fails with `ENOSPC`.
    InodeNumber,
    /// Pages of the session; fails with `ENOMEM`.
    SessionPages,
}

struct Plan {
    resource: Resource,
    failed: Range<u64>,
    asked: u64,
}

/// Threads that have a plan.
static PLANS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

/// Run `body`. While it runs, allocations of `resource` by this thread fail if their number (from 0) is in `failed`.
/// Also returns how many allocations there were.
pub fn with_failures<T>(
    resource: Resource,
    failed: Range<u64>,
    body: impl FnOnce() -> T,
) -> (T, u64) {
    let plan = Plan {
        resource,
        failed,
        asked: 0,
    };
    PLAN.set(Some(plan));
    PLANS.fetch_add(1, Ordering::Relaxed);
    let result = body();
    PLANS.fetch_sub(1, Ordering::Relaxed);
    (result, PLAN.take().map_or(0, |plan| plan.asked))
}

/// Whether this allocation is to fail. One predictable branch while no thread has a plan.
#[inline(always)]
pub(crate) fn should_fail(resource: Resource) -> bool {
    PLANS.load(Ordering::Relaxed) != 0 && is_planned(resource)
}

#[cold]
fn is_planned(resource: Resource) -> bool {
    PLAN.with_borrow_mut(|plan| match plan {
        Some(plan) if plan.resource == resource => {
            plan.asked += 1;
            plan.failed.contains(&(plan.asked - 1))
        }
        _ => false,
    })
}
