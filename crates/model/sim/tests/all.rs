//! All tests of this crate in one program: it is built and linked once.

mod anything;
mod bad_input;
mod closed_form;
mod common;
mod edges;
mod memories;
mod policies;
mod recorded;
mod switches;
