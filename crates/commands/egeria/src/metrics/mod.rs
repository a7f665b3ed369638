//! Metrics for Prometheus: numbers that exist anyway, read when somebody asks. Nothing is counted for them.

mod families;
mod site;

pub use families::{StewardMetrics, VolumeMetrics};
pub use site::MetricsSite;
