//! What looking costs those who are looked at, and who looks: programs beside a steward's sources of facts, which are on and off in turn.

mod driver;
mod options;
mod plan;
mod report;
pub mod subject;

pub use driver::run;
pub use options::OverheadOptions;
pub use report::{OverheadReport, Row};
