//! Which CPUs, how large the buffers are, and getting them.

use std::path::Path;

use egeria_machine::{CpuId, Machine, MemoryKind};

use crate::caches::NodeCache;
use crate::cores::CpuNode;
use crate::mapping::Mapping;
use crate::target::{OpenPool, PoolRequest, Target, of_map_fault};
use crate::threads::allowed_cpus;
use crate::{CalibrateError, Options};

/// Buffers are whole pages of the largest kind that file systems map.
const PAGE_BYTES: u64 = 2 << 20;
/// A stream buffer is at least so many times the cache.
const MIN_CACHES: u64 = 2;
const USUAL_CACHES: u64 = 4;
const MIN_USUAL_BYTES: u64 = 64 << 20;
/// Larger ones take long to get; two caches are always taken.
const MAX_USUAL_BYTES: u64 = 1 << 30;

/// Nodes with CPUs that may be used, and a line for each that may not.
pub(crate) fn usable_nodes(
    root: &Path,
    machine: &Machine,
) -> Result<(Vec<CpuNode>, Vec<String>), CalibrateError> {
    let allowed = allowed_cpus().map_err(|_| CalibrateError::NoCpus)?;
    let (mut nodes, mut warnings) = (Vec::new(), Vec::new());
    for (index, node) in machine.nodes.iter().enumerate() {
        let is_allowed = |cpu: &CpuId| allowed.binary_search(cpu).is_ok();
        let cpus: Vec<CpuId> = node.cpus.iter().copied().filter(is_allowed).collect();
        if cpus.len() < node.cpus.len() {
            let (id, of, all) = (node.id.0, cpus.len(), node.cpus.len());
            let hint = "run it with a wider CPU affinity to measure all";
            warnings.push(format!(
                "only {of} of the {all} CPUs of node {id} may be used; {hint}"
            ));
        }
        if !cpus.is_empty() {
            nodes.push(CpuNode::of(root, index, &cpus));
        }
    }
    match nodes.is_empty() {
        true => Err(CalibrateError::NoCpus),
        false => Ok((nodes, warnings)),
    }
}

/// Bytes of each buffer and of each chain.
pub(crate) fn sizes(options: &Options, caches: &[NodeCache]) -> Result<(u64, u64), CalibrateError> {
    let cache_bytes = caches.iter().map(|cache| cache.bytes).max().unwrap_or(0);
    let part_bytes = caches
        .iter()
        .map(|cache| cache.part_bytes)
        .max()
        .unwrap_or(0);
    let least = MIN_CACHES * cache_bytes;
    let usual = (USUAL_CACHES * cache_bytes).clamp(MIN_USUAL_BYTES, MAX_USUAL_BYTES);
    let bytes = options.buffer_bytes.unwrap_or(usual.max(least));
    if bytes < least {
        return Err(CalibrateError::SmallBuffer {
            bytes,
            cache_bytes,
            least,
        });
    }
    let bytes = bytes
        .clamp(PAGE_BYTES, 1 << 50)
        .next_multiple_of(PAGE_BYTES);
    // One CPU sees one part of the cache only.
    let chain_bytes = (bytes / 2).max(bytes.min(USUAL_CACHES * part_bytes));
    Ok((bytes, chain_bytes.next_multiple_of(PAGE_BYTES)))
}

/// The memory of a node itself.
pub(crate) fn own_memory(
    machine: &Machine,
    index: usize,
    bytes: u64,
    buffer_lines: usize,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Target, CalibrateError> {
    let node = &machine.nodes[index];
    let home = (machine.nodes.len() > 1).then_some(node.id);
    let place = format!("node {}", node.id.0);
    let memory = Mapping::anonymous(bytes as usize, home, is_stopped)
        .map_err(|fault| of_map_fault(fault, place, bytes, home))?;
    Ok(Target {
        node: index,
        kind: match node.cpus.is_empty() {
            true => MemoryKind::Expander,
            false => MemoryKind::Dram,
        },
        path: None,
        is_direct: true,
        bytes: node.memory_bytes,
        memory,
        buffer_lines,
        at: 0,
    })
}

/// Persistent memory.
pub(crate) fn pool(
    machine: &Machine,
    request: &PoolRequest,
    options: &Options,
    bytes: u64,
    buffer_lines: usize,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Target, CalibrateError> {
    let path = &request.path;
    let node = machine
        .index_of(request.node)
        .ok_or_else(|| CalibrateError::Pool {
            path: path.clone(),
            problem: format!("this machine has no node {}", request.node.0),
            hint: "see `egeria machine` for its nodes",
        })?;
    let open = OpenPool::open(path, bytes, options.may_overwrite_devices)?;
    let (memory, is_direct) = open.map(path, bytes as usize, is_stopped)?;
    Ok(Target {
        node,
        kind: MemoryKind::Persistent,
        path: Some(path.clone()),
        is_direct,
        bytes: open.bytes(),
        memory,
        buffer_lines,
        at: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(bytes: u64, part_bytes: u64) -> NodeCache {
        NodeCache {
            bytes,
            part_bytes,
            is_known: true,
        }
    }

    fn chosen(buffer_bytes: Option<u64>, cache: NodeCache) -> (u64, u64) {
        let options = Options {
            buffer_bytes,
            ..Options::default()
        };
        sizes(&options, &[cache]).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Buffers hold the whole node's cache at least twice, chains the part that one CPU sees.
    #[test]
    fn buffers_are_well_above_the_caches() {
        const MIB: u64 = 1 << 20;
        assert_eq!(chosen(None, cache(MIB, MIB)), (64 * MIB, 32 * MIB));
        assert_eq!(
            chosen(None, cache(32 * MIB, 32 * MIB)),
            (128 * MIB, 128 * MIB)
        );
        assert_eq!(
            chosen(None, cache(384 * MIB, 32 * MIB)),
            (1024 * MIB, 512 * MIB)
        );
        assert_eq!(
            chosen(None, cache(768 * MIB, 96 * MIB)),
            (1536 * MIB, 768 * MIB)
        );
        assert_eq!(
            chosen(Some(64 * MIB + 1), cache(32 * MIB, 32 * MIB)),
            (66 * MIB, 66 * MIB)
        );
        let small = Options {
            buffer_bytes: Some(64 * MIB - 1),
            ..Options::default()
        };
        let error = sizes(&small, &[cache(32 * MIB, 32 * MIB)]).unwrap_err();
        assert!(
            error.to_string().contains("use at least 67108864"),
            "{error}"
        );
    }
}
