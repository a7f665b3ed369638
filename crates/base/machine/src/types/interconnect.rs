//! What lies between the nodes: links, and routes over them.

use serde::{Deserialize, Serialize};

use crate::types::ids::NodeId;

/// A wire between two nodes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub from: NodeId,
    pub to: NodeId,
    /// Data it carries from `from` to `to`, bytes/s.
    pub bytes_s: f64,
    /// Data it carries from `to` to `from`, bytes/s; missing where it carries none that way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_bytes_s: Option<f64>,
    /// What crossing it adds to the latency of an access, ns.
    #[serde(default)]
    pub latency_ns: f64,
}

/// The way that data takes from one node to another, where it is not the default one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Where the data is.
    pub from: NodeId,
    pub to: NodeId,
    /// The nodes in between, in order.
    #[serde(default)]
    pub via: Vec<NodeId>,
}

/// Links and routes of a machine; no links where nothing is known of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interconnect {
    /// The links.
    #[serde(default)]
    pub links: Vec<Link>,
    /// Routes that differ from the default. The default is the way with the fewest links; of these the widest; of
    /// these the first by order of its nodes.
    #[serde(default)]
    pub routes: Vec<Route>,
}
