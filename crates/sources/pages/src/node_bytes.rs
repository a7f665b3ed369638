//! Bytes by node.

use std::collections::BTreeMap;

use egeria_machine::NodeId;

/// How many bytes each node holds; nodes without any are left out.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct NodeBytes(BTreeMap<NodeId, u64>);

impl NodeBytes {
    pub fn add(&mut self, node: NodeId, bytes: u64) {
        if bytes > 0 {
            let sum = self.0.entry(node).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Adds all of another.
    pub fn add_all(&mut self, other: &NodeBytes) {
        for (node, bytes) in other.iter() {
            self.add(node, bytes);
        }
    }

    /// What a node holds.
    pub fn of(&self, node: NodeId) -> u64 {
        self.0.get(&node).copied().unwrap_or(0)
    }

    /// What all hold together.
    pub fn total(&self) -> u64 {
        self.0
            .values()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Nodes that hold some, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.0.iter().map(|(node, bytes)| (*node, *bytes))
    }

    /// Scales a sample to `total` bytes, with the same shares.
    #[must_use]
    pub fn scaled_to(&self, total: u64) -> NodeBytes {
        let sampled = u128::from(self.total().max(1));
        let mut scaled = NodeBytes::default();
        for (node, bytes) in self.iter() {
            let share = u128::from(bytes) * u128::from(total) / sampled;
            scaled.add(node, u64::try_from(share).unwrap_or(u64::MAX));
        }
        // The rounding error goes to the node that holds most.
        let lost = total.saturating_sub(scaled.total());
        if let Some((node, _)) = self.iter().max_by_key(|(_, bytes)| *bytes) {
            scaled.add(node, lost);
        }
        scaled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_sample_keeps_shares_and_sums_to_the_total() {
        let mut sample = NodeBytes::default();
        sample.add(NodeId(0), 1);
        sample.add(NodeId(3), 2);
        let scaled = sample.scaled_to(u64::MAX);
        assert_eq!(scaled.total(), u64::MAX);
        assert_eq!(scaled.of(NodeId(0)), u64::MAX / 3);
        assert_eq!(NodeBytes::default().scaled_to(5).total(), 0);
    }
}
