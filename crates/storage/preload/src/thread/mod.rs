//! What the library keeps for each thread and for the process, and the memory and stacks that its code runs on. It builds on
//! `system` and `sync`; a thread knows the pin (`description`) that it uses.

pub(crate) mod allocator;
pub(crate) mod endings;
pub(crate) mod process;
mod stack;
mod words;

pub(crate) use words::{FORKING, INSIDE, Thread, VFORK, current, inside, is_inside, set_delivery};
