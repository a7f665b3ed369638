//! Weights of nodes, from bandwidths, and the kernel's.

use egeria_machine::{KERNEL_WEIGHTS, KernelWeights, Machine, NodeId, turns, weights};
use proptest::prelude::*;

#[test]
fn weights_are_small_numbers_in_proportion() {
    assert_eq!(weights(&[100e9, 100e9]), [1, 1]);
    // DRAM beside CXL: 277 to 47 GB/s.
    assert_eq!(weights(&[277e9, 47e9]), [6, 1]);
    assert_eq!(weights(&[30e9, 20e9]), [3, 2]);
    assert_eq!(weights(&[102e9, 100e9, 98e9]), [1, 1, 1]);
    assert_eq!(weights(&[5e9]), [1]);
    assert_eq!(weights(&[1e12, 1.0]), [255, 1]);
}

#[test]
fn what_is_no_bandwidth_has_no_weight() {
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(weights(&[1e9, wrong]), [0; 0]);
    }
    assert_eq!(weights(&[]), [0; 0]);
}

#[test]
fn turns_are_even() {
    let ids = |weighted: &[(u16, u8)]| -> Vec<u16> {
        let weighted: Vec<(NodeId, u8)> = weighted
            .iter()
            .map(|(id, weight)| (NodeId(*id), *weight))
            .collect();
        turns(&weighted).into_iter().map(|id| id.0).collect()
    };
    assert_eq!(ids(&[(0, 1), (2, 1)]), [0, 2]);
    assert_eq!(ids(&[(0, 3), (1, 2)]), [0, 1, 0, 1, 0]);
    assert_eq!(ids(&[(0, 4), (7, 1)]), [0, 0, 7, 0, 0]);
    assert_eq!(ids(&[]), [0; 0]);
}

#[test]
fn a_machine_has_weights_where_all_bandwidths_are_known() {
    let of = |name: &str| Machine::profile(name).unwrap().weights();
    let each = |weights: &[u8]| -> Option<Vec<(NodeId, u8)>> {
        Some((0..).map(NodeId).zip(weights.iter().copied()).collect())
    };
    assert_eq!(of("xeon-2s-dram"), each(&[1, 1]));
    assert_eq!(of("dram-2s"), each(&[1, 1]));
    // 415 to 47.3 GB/s is 8.8 to 1.
    assert_eq!(of("epyc-2s-cxl"), each(&[9, 9, 1, 1]));
    let mut unknown = Machine::profile("xeon-2s-dram").unwrap();
    unknown.nodes[1].hardware.memories.clear();
    assert_eq!(unknown.weights(), None);
}

#[test]
fn the_kernels_weights_are_read_as_far_as_they_make_sense() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(KernelWeights::read(root.path()), None);
    let directory = root.path().join(KERNEL_WEIGHTS);
    std::fs::create_dir_all(&directory).unwrap();
    let put = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    put("node10", "255\n");
    put("node0", "3\n");
    put("node1", "300\n");
    put("nodes", "1\n");
    let read = || KernelWeights::read(root.path()).unwrap();
    assert_eq!(read().nodes, [(NodeId(0), 3), (NodeId(10), 255)]);
    assert_eq!(read().is_auto, None);
    put("auto", "true\n");
    assert_eq!(read().is_auto, Some(true));
    put("auto", "N\n");
    assert_eq!(read().is_auto, Some(false));
}

proptest! {
    /// Each share is within a twentieth, unless a memory is far slower than the kernel's largest weight can say.
    #[test]
    fn shares_follow_bandwidths(bandwidths in proptest::collection::vec(1e9f64..20e9, 1..9)) {
        let weights = weights(&bandwidths);
        let most = bandwidths.iter().copied().fold(0.0, f64::max);
        let largest = f64::from(*weights.iter().max().unwrap());
        for (weight, bytes_s) in weights.iter().zip(&bandwidths) {
            let ratio = f64::from(*weight) / largest / (bytes_s / most);
            prop_assert!((ratio - 1.0).abs() <= 0.0501, "{weights:?} of {bandwidths:?}");
        }
    }
}
