//! Takings refused on request: how tests meet every place where room can run out.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// Blocks of a pool; refused with `ENOSPC`.
    Blocks,
    /// An inode number; refused with `ENOSPC`.
    InodeNumber,
    /// Pages of the session; refused with `ENOMEM`.
    SessionPages,
}

struct Plan {
    resource: Resource,
    refused: Range<u64>,
    asked: u64,
}

/// Threads that have a plan.
static PLANS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

/// Run `body`; of what this thread takes of `resource` meanwhile, those whose number (from 0) is in
/// `refused` are refused. Also tells how many were asked for.
pub fn refusing<T>(resource: Resource, refused: Range<u64>, body: impl FnOnce() -> T) -> (T, u64) {
    let plan = Plan {
        resource,
        refused,
        asked: 0,
    };
    PLAN.set(Some(plan));
    PLANS.fetch_add(1, Ordering::Relaxed);
    let result = body();
    PLANS.fetch_sub(1, Ordering::Relaxed);
    (result, PLAN.take().map_or(0, |plan| plan.asked))
}

/// Whether this taking is to fail. One predictable branch while nobody plans.
#[inline(always)]
pub(crate) fn is_refused(resource: Resource) -> bool {
    PLANS.load(Ordering::Relaxed) != 0 && is_planned(resource)
}

#[cold]
fn is_planned(resource: Resource) -> bool {
    PLAN.with_borrow_mut(|plan| match plan {
        Some(plan) if plan.resource == resource => {
            plan.asked += 1;
            plan.refused.contains(&(plan.asked - 1))
        }
        _ => false,
    })
}
