//! All tests of this crate in one program: it is built and linked once.

mod asymsched;
mod asymsched_history;
mod asymsched_rules;
mod asymsched_settings;
#[path = "common/brute_force.rs"]
mod brute_force;
#[path = "common/clusters.rs"]
mod clusters;
mod common;
mod corners;
#[path = "common/data.rs"]
mod data;
mod diagnosis_rules;
mod equations;
mod falling_curves;
mod feedback;
mod judging;
mod mba;
#[path = "common/memory.rs"]
mod memory;
mod paper;
mod pats_change;
mod pats_learned;
mod pats_model;
mod pats_settings;
mod planner_budget;
mod planner_compare;
mod planner_expectations;
mod planner_feedback;
mod planner_outcomes;
mod planner_properties;
mod planner_relocation;
mod planner_rules;
mod planner_systems;
mod planner_trials;
mod properties;
mod rules;
mod settings;
mod short_lived;
mod tiers;
mod together;
#[path = "common/whole.rs"]
mod whole;
