//! Where pages should be.

use std::collections::BTreeMap;

use egeria_machine::NodeId;

/// What goes to one node of several at once, so that huge pages stay whole.
const STRIPE_BYTES: usize = 2 << 20;

/// Where pages should be.
#[derive(Clone, Debug)]
pub enum Target {
    /// On these nodes, in turn by 2 MiB; at least one.
    Nodes(Vec<NodeId>),
    /// Those of a node on another: each pair's first is left for its second.
    Follow(Vec<(NodeId, NodeId)>),
    /// Single pages, by address, each on its node.
    Pages(BTreeMap<usize, NodeId>),
}

impl Target {
    /// Where the page at an address, which is on this node, should be.
    pub(super) fn wanted(&self, address: usize, now: NodeId) -> NodeId {
        match self {
            Target::Nodes(nodes) => nodes[address / STRIPE_BYTES % nodes.len()],
            Target::Follow(pairs) => {
                let pair = pairs.iter().find(|(from, _)| *from == now);
                pair.map_or(now, |(_, to)| *to)
            }
            Target::Pages(pages) => pages.get(&address).copied().unwrap_or(now),
        }
    }

    /// The nodes that get pages, each once.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = match self {
            Target::Nodes(nodes) => nodes.clone(),
            Target::Follow(pairs) => pairs.iter().map(|(_, to)| *to).collect(),
            Target::Pages(pages) => pages.values().copied().collect(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}
