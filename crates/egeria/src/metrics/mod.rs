//! Metrics for Prometheus: numbers that exist anyway, read when somebody asks. Nothing is counted for them.

mod address;
mod families;
mod server;

pub use address::Address;
pub use families::{StewardMetrics, VolumeMetrics};
pub use server::Server;
