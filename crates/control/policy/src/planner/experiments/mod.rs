//! What the planner learns from results (the stage `feedback`).

pub(super) mod compare;
pub(super) mod data;
pub(super) mod progress;
pub(super) mod setbacks;
pub(super) mod trials;
pub(super) mod undo;
