//! What a decision about data hangs on.

use std::collections::HashMap;

use egeria_facts::{Facts, ThreadKey};
use egeria_machine::{Machine, NodeId, Paths};

use super::super::setbacks::Setbacks;
use super::super::settings::Settings;
use crate::Plan;

/// Threads that others decide about.
pub(in crate::planner) type Held = HashMap<ThreadKey, NodeId>;

/// What the decision hangs on.
pub(in crate::planner) struct Scene<'a> {
    pub(in crate::planner) machine: &'a Machine,
    pub(in crate::planner) paths: Option<&'a Paths>,
    pub(in crate::planner) facts: &'a Facts,
    pub(in crate::planner) settings: &'a Settings,
    /// Where threads go.
    pub(in crate::planner) threads: &'a Plan,
    /// Threads that others decide about, and where they will be.
    pub(in crate::planner) held: &'a Held,
    /// What brought too little before.
    pub(in crate::planner) setbacks: &'a Setbacks,
    /// Nothing new sets off.
    pub(in crate::planner) is_still: bool,
}
