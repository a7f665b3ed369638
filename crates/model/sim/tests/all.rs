//! All tests of this crate in one program: it is built and linked once.

mod anything;
mod bad_input;
mod closed_form;
mod common;
mod edges;
mod falling_curves;
mod gather;
mod memories;
mod policies;
mod ranges;
mod recorded;
mod settings_act;
mod switches;
mod tiers;
