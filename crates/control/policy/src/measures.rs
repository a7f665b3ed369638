//! What is measured of processes, files and media: the same functions say what is, and what would be after an action.

use egeria_facts::{Facts, FileFacts, FileKey, MediumFacts, ProcessAccesses, ProcessKey};
use egeria_machine::{Machine, NodeId, Paths};

pub(crate) fn process(facts: &Facts, key: ProcessKey) -> Option<&ProcessAccesses> {
    let mut processes = facts.accesses.processes.iter();
    processes.find(|each| each.process == key)
}

pub(crate) fn file(facts: &Facts, key: FileKey) -> Option<&FileFacts> {
    facts.files.iter().find(|each| each.file == key)
}

/// The persistent memory of one node.
pub(crate) fn medium(facts: &Facts, node: NodeId) -> Option<&MediumFacts> {
    facts.media.iter().find(|each| each.node == node)
}

/// What a path carries that an access to another node takes, in the mean over a process's accesses, bytes/s; `place`
/// says where what is on a node (by position) will be. `None` without accesses to other nodes, or where paths are not
/// known.
pub(crate) fn path_bandwidth_bytes_s(
    machine: &Machine,
    process: &ProcessAccesses,
    paths: &Paths,
    place: impl Fn(usize) -> usize,
) -> Option<f64> {
    let (mut sum, mut all) = (0.0, 0.0);
    for each in &process.nodes {
        let Some(reader) = machine.index_of(each.node).map(&place) else {
            continue;
        };
        for memory in 0..machine.nodes.len() {
            let (rate, memory) = (each.rate_to(memory), place(memory));
            if memory != reader && rate > 0.0 {
                sum += rate * paths.widest_bytes_s(memory, reader);
                all += rate;
            }
        }
    }
    (all > 0.0 && sum.is_finite()).then(|| sum / all)
}

/// Share of a process's accesses that go to memory of chosen nodes (by position); `None` without any.
pub(crate) fn share_to(
    machine: &Machine,
    process: &ProcessAccesses,
    is_chosen: impl Fn(usize) -> bool,
) -> Option<f64> {
    let (mut chosen, mut all) = (0.0, 0.0);
    for each in &process.nodes {
        for memory in 0..machine.nodes.len() {
            let rate = each.rate_to(memory);
            all += rate;
            chosen += if is_chosen(memory) { rate } else { 0.0 };
        }
    }
    (all > 0.0).then(|| chosen / all)
}

/// Share of a process's accesses to memory of the accessing thread's node; `place` says where threads of a node (by
/// position) will be. `None` without any accesses.
pub(crate) fn local_share(
    machine: &Machine,
    process: &ProcessAccesses,
    place: impl Fn(usize) -> usize,
) -> Option<f64> {
    let (mut local, mut all) = (0.0, 0.0);
    for each in &process.nodes {
        let Some(reader) = machine.index_of(each.node) else {
            continue;
        };
        all += (0..machine.nodes.len())
            .map(|memory| each.rate_to(memory))
            .sum::<f64>();
        local += each.rate_to(place(reader));
    }
    (all > 0.0).then(|| local / all)
}

/// Positions of the nodes where a process has threads.
pub(crate) fn nodes_with_threads(machine: &Machine, process: &ProcessAccesses) -> Vec<usize> {
    let nodes = process.nodes.iter().filter(|each| each.threads > 0);
    nodes
        .filter_map(|each| machine.index_of(each.node))
        .collect()
}

/// Bytes read of a file, by all.
pub(crate) fn read_of(file: &FileFacts) -> f64 {
    let rows = file.read_bytes.iter().flatten();
    rows.map(|bytes| *bytes as f64).sum()
}

/// Share of a file's reads that are from the reader's own node; `None` without reads.
pub(crate) fn local_share_of_file(file: &FileFacts) -> Option<f64> {
    let all = read_of(file);
    let nodes = 0..file.read_bytes.len();
    let local: f64 = nodes.map(|node| file.read(node, node) as f64).sum();
    (all > 0.0).then(|| local / all)
}

/// Share of a file that lies on a node; `None` of an empty one.
pub(crate) fn share_on_node(file: &FileFacts, node: usize) -> Option<f64> {
    (file.bytes > 0).then(|| file.on(node) as f64 / file.bytes as f64)
}
