//! Metrics for Prometheus: numbers that exist anyway, read on request. Nothing is counted for them.

mod families;
mod reports;
mod site;

pub use families::{StewardMetrics, VolumeMetrics};
pub use reports::Reports;
pub use site::MetricsSite;
