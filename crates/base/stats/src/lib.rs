//! What measurements, models and tests compute with.
//!
//! - [`rng`]: random numbers that follow from a printed seed.
//! - [`aims`]: what a score is aimed at.
//! - [`statistics`]: figures of repeated measurements; [`text`]: numbers as text.

#![forbid(unsafe_code)]

pub mod aims;
pub mod rng;
pub mod statistics;
pub mod text;
