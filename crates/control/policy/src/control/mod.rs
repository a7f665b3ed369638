//! The control loop: facts, planner, decision, actuators. The steward, the replay of recordings and the
//! simulator run this one loop; they differ in where facts come from and in what an action does.
//!
//! ```text
//!   FactSource ──Facts──▶ ControlLoop ──▶ Planner::decide ──Decision──▶ Actuator::apply, action by action
//!        ▲                                     ▲                              │
//!        └──────────── the next window         └── results: measured against what was expected ◀──┘
//! ```
//!
//! A new source of facts implements [`egeria_facts::FactSource`], a new way to act implements [`Actuator`];
//! neither changes the loop. Nothing here does I/O or looks at a clock.

mod actuator;
mod control_loop;
mod replay;

pub use actuator::Actuator;
pub use control_loop::{ControlLoop, Turn};
pub use replay::Replay;
