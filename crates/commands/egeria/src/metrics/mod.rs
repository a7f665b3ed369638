//! Metrics for Prometheus: numbers that exist anyway, read on request. Nothing is counted for them.

mod families;
mod site;

pub use families::{StewardMetrics, VolumeMetrics};
pub use site::MetricsSite;
