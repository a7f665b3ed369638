//! Handlers of the program run outside of the engine (docs/explanation/preload.md, "Memory and stacks"). It builds on
//! `thread`, which says whether a thread is inside.

mod actions;
mod delivery;
mod masks;
mod sets;
mod stops;
mod trampoline;

pub(crate) use actions::{has_taken_over, hook_action, interrupting};
pub(crate) use masks::{hook_mask, open_faults};
pub(crate) use sets::default_action;
pub(crate) use stops::{before_sleep, before_write, counts_no_writes};
pub(crate) use trampoline::{close_pools_later, give_back, take_over};
