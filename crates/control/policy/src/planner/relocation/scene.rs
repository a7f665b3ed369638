//! The inputs of a decision about data.

use std::collections::HashMap;

use egeria_facts::{Facts, ThreadKey};
use egeria_machine::{Machine, NodeId, Paths};

use super::super::experiments::Setbacks;
use super::super::settings::Settings;
use crate::Plan;

/// Threads that other policies decide about.
pub(in crate::planner) type Held = HashMap<ThreadKey, NodeId>;

/// The inputs of the decision.
pub(in crate::planner) struct Scene<'a> {
    pub(in crate::planner) machine: &'a Machine,
    pub(in crate::planner) paths: Option<&'a Paths>,
    pub(in crate::planner) facts: &'a Facts,
    pub(in crate::planner) settings: &'a Settings,
    /// Where threads go.
    pub(in crate::planner) threads: &'a Plan,
    /// Threads that other policies decide about, and their nodes after that.
    pub(in crate::planner) held: &'a Held,
    /// Actions that brought too little before.
    pub(in crate::planner) setbacks: &'a Setbacks,
    /// No new step may start.
    pub(in crate::planner) is_still: bool,
}
