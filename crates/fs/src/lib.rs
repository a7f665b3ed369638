//! Egeria's file system engine.
#![allow(unused_variables, dead_code)]
pub mod control;
mod types;
mod volume;
pub use types::*;
pub use volume::*;
