//! The model compared with the published measurements.
//!
//! The claims of four papers are a table ([`claims`]). Each is answered in one way, by a table of answers: the model
//! predicts its number, or puts two systems in order, or is calibrated on it, or gives a reason why it cannot answer.
//! [`run`] runs the experiments in the model and judges every claim; [`Report`] is the result.

#![forbid(unsafe_code)]

mod alike;
mod answer;
mod beyond;
mod claim;
mod code;
mod distance;
mod error;
mod experiment;
mod facts;
mod known_errors;
mod page;
mod quantile;
pub mod regret;
mod report;
mod results;
mod said;
mod score;
mod validation;
mod validation_machines;
mod validation_orderings;

pub use beyond::Beyond;
pub use claim::{Claim, Paper, claims, parse};
pub use distance::{FAR, distance, distances};
pub use error::{PapersError, Result};
pub use experiment::Extent;
pub use facts::{FactReport, FactRow, ProfileDistance, facts};
pub use page::page;
pub use report::{Listed, OrderingRow, Report, Row, run};
pub use results::Results;
pub use validation::{Distance, ValidationReport, ValidationSet, validation};
pub use validation_orderings::ValidationOrdering;
