//! Weights of nodes: how much of what is spread over several of them each gets, from what their memories give.

use std::path::Path;

use crate::{Machine, MemoryKind, Node, NodeId};

/// Shares of memories may differ from shares of bandwidths by this part.
const TOLERATED: f64 = 0.05;
/// The kernel's largest weight.
const MAX_WEIGHT: u8 = u8::MAX;
/// Where the kernel keeps its weights, below the root (Linux 6.9).
pub const KERNEL_WEIGHTS: &str = "sys/kernel/mm/mempolicy/weighted_interleave";

/// The smallest whole numbers that are in proportion to these bandwidths, each within a twentieth. None is 0, so a memory
/// of less than a 255th of the fastest gets more than its share. Nothing for what is no bandwidth.
pub fn weights(bandwidths: &[f64]) -> Vec<u8> {
    let most = bandwidths.iter().copied().fold(0.0, f64::max);
    let is_bandwidth = |bytes_s: &f64| bytes_s.is_finite() && *bytes_s > 0.0;
    if !bandwidths.iter().all(is_bandwidth) {
        return Vec::new();
    }
    let scaled = |largest: u8| {
        bandwidths
            .iter()
            .map(move |bytes_s| bytes_s / most * f64::from(largest))
    };
    let is_near = |wanted: f64| {
        let weight = wanted.round().max(1.0);
        (weight - wanted).abs() <= wanted * TOLERATED
    };
    let found = (1..=MAX_WEIGHT).find(|largest| scaled(*largest).all(is_near));
    let largest = found.unwrap_or(MAX_WEIGHT);
    // The cast is of a whole number from 1 to 255.
    scaled(largest)
        .map(|wanted| wanted.round().max(1.0) as u8)
        .collect()
}

/// Nodes in turn, each as often as its weight says and as evenly as can be; what is spread goes to them in this order,
/// again and again.
pub fn turns(weighted: &[(NodeId, u8)]) -> Vec<NodeId> {
    let all: i64 = weighted.iter().map(|(_, weight)| i64::from(*weight)).sum();
    let mut due = vec![0i64; weighted.len()];
    let mut turns = Vec::new();
    for _ in 0..all {
        for (due, (_, weight)) in due.iter_mut().zip(weighted) {
            *due += i64::from(*weight);
        }
        // The first of those that have waited longest.
        let next = (0..due.len()).rev().max_by_key(|index| due[*index]);
        if let Some(index) = next {
            due[index] -= all;
            turns.push(weighted[index].0);
        }
    }
    turns
}

impl Machine {
    /// The weight of each node with memory; `None` where what one of them gives is not known.
    pub fn weights(&self) -> Option<Vec<(NodeId, u8)>> {
        let has_memory = |node: &&Node| node.memory_bytes > 0 || self.read_bytes_s(node).is_some();
        let nodes: Vec<&Node> = self.nodes.iter().filter(has_memory).collect();
        let bandwidths: Option<Vec<f64>> =
            nodes.iter().map(|node| self.read_bytes_s(node)).collect();
        let weights = weights(&bandwidths?);
        let both = nodes.iter().zip(&weights);
        (!weights.is_empty()).then(|| both.map(|(node, weight)| (node.id, *weight)).collect())
    }

    /// What the volatile memory of a node gives to readers: measured or declared, else as firmware says.
    fn read_bytes_s(&self, node: &Node) -> Option<f64> {
        if let Some(declared) = self.emulated_node(node.id) {
            return Some(declared.read_bytes_s);
        }
        let memories = node.hardware.memories.iter();
        let memories = memories.filter(|memory| memory.kind != MemoryKind::Persistent);
        let sum: f64 = memories.map(|memory| memory.read_bytes_s).sum();
        let firmware = node.bandwidth.as_ref().map(|class| class.read_bytes_s);
        (sum > 0.0).then_some(sum).or(firmware)
    }
}

/// Weights that the kernel uses for memory of programs with the policy `MPOL_WEIGHTED_INTERLEAVE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelWeights {
    /// The weight of each node, ascending.
    pub nodes: Vec<(NodeId, u8)>,
    /// Whether they come from firmware's figures; `None` before Linux 6.16.
    pub is_auto: Option<bool>,
}

impl KernelWeights {
    /// Those below a root; `None` where the kernel has none.
    pub fn read(root: &Path) -> Option<KernelWeights> {
        let directory = root.join(KERNEL_WEIGHTS);
        let mut nodes: Vec<(NodeId, u8)> = std::fs::read_dir(&directory)
            .ok()?
            .filter_map(|entry| {
                let name = entry.ok()?.file_name();
                let node = name.to_str()?.strip_prefix("node")?.parse().ok()?;
                Some((NodeId(node), word(&directory.join(name))?.parse().ok()?))
            })
            .collect();
        nodes.sort_unstable();
        Some(KernelWeights {
            nodes,
            is_auto: word(&directory.join("auto")).map(|word| matches!(&*word, "true" | "Y" | "1")),
        })
    }
}

fn word(path: &Path) -> Option<String> {
    let text = crate::read_text(path, 64, "it is ignored").ok()?;
    Some(text.trim().to_owned())
}
