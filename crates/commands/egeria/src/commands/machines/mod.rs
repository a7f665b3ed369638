//! Describing machines, and predicting what they give.

pub mod machine;
mod self_test;
pub mod sim;
