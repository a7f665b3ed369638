//! How well ways to see accesses tell used from unused memory of a program, and what that takes: a program whose used and
//! unused memory is known, looked at by each way.

mod driver;
mod options;
mod ranking;
mod report;
pub mod subject;

pub use driver::run;
pub use options::SharpnessOptions;
pub use report::{Row, SharpnessReport};
