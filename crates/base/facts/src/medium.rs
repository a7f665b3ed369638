//! What is known about the memory of one node that data lies in.

use egeria_machine::NodeId;
use serde::{Deserialize, Serialize};

/// The mean of the requests of a window: `S` and `W_r` of Eq. 1.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Mix {
    /// The number of requests; with 0, the other two have no meaning.
    pub requests: u64,
    /// `S`, bytes: their mean size.
    pub mean_bytes: f64,
    /// `W_r`, 0 to 1: the share of them that write.
    pub write_share: f64,
}

/// The measurements of one window, all under the limit that the decision before it set.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measured {
    pub mix: Mix,
    /// The most threads that were admitted or waited at one time.
    pub demand: u32,
    /// Traffic to and from persistent memory, bytes/s.
    pub pm_bytes_s: f64,
    /// Traffic to and from DRAM behind the same memory controllers, bytes/s; `None` if it is not measured.
    pub dram_bytes_s: Option<f64>,
}

/// The memory of one node that data lies in, in the window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct MediumFacts {
    pub node: NodeId,
    /// Requests, threads at it and throughput, under the limit that the plan before set; of persistent memory only.
    pub measured: Measured,
    /// Room for more data there, bytes; `None` if it is not known, which counts as enough.
    #[serde(default)]
    pub free_bytes: Option<u64>,
    /// Whether any file is striped, so that delegates can access it; `None` if it is not known, which counts as yes.
    #[serde(default)]
    pub striped_files: Option<bool>,
}
