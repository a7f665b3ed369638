//! Which CPUs, how large the buffers are, and getting them.

use std::path::Path;

use egeria_machine::{CpuId, Machine, MemoryKind, format_bytes};

use crate::hardware::mapping::Mapping;
use crate::hardware::target::{OpenPool, PoolRequest, Target, of_map_fault};
use crate::hardware::threads::allowed_cpus;
use crate::host::caches::NodeCache;
use crate::host::cores::CpuNode;
use crate::{CalibrateError, Options};

/// Buffers are whole pages of the largest kind that file systems map.
const PAGE_BYTES: u64 = 2 << 20;
/// What threads of a node go through is at least so many times its caches. Caches that keep a part of what is too large for them
/// answer up to half of the accesses to that, and a quarter of those to the usual.
const MIN_CACHES: u64 = 2;
const USUAL_CACHES: u64 = 4;
const MIN_USUAL_BYTES: u64 = 64 << 20;
/// Larger ones take long to get; the least is always taken.
const MAX_USUAL_BYTES: u64 = 4 << 30;

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
    if nodes.is_empty() {
        Err(CalibrateError::NoCpus)
    } else {
        Ok((nodes, warnings))
    }
}

/// Bytes of each buffer and of each chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    pub(crate) buffer_bytes: u64,
    pub(crate) chain_bytes: u64,
    /// Where caches may still answer a part of the accesses.
    pub(crate) warning: Option<String>,
}

/// Well above the caches of each of the nodes whose CPUs are used.
pub(crate) fn sizes(options: &Options, caches: &[NodeCache]) -> Result<Sizes, CalibrateError> {
    let most = |of: fn(&NodeCache) -> u64| caches.iter().map(of).max().unwrap_or(0);
    let (cache_bytes, part_bytes) = (
        most(|cache| cache.all_bytes),
        most(|cache| cache.part_bytes),
    );
    // Two flows to a memory, which only more than two nodes have, go through half of its buffer each.
    let flows = if caches.len() > 2 { 2 } else { 1 };
    let [least, usual] = [MIN_CACHES, USUAL_CACHES].map(|times| flows * times * cache_bytes);
    let chosen = usual.clamp(MIN_USUAL_BYTES, MAX_USUAL_BYTES).max(least);
    let bytes = options.buffer_bytes.unwrap_or(chosen);
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
    let warning = (bytes < usual).then(|| {
        format!(
            "buffers of {} are less than {} times the {} of a node's caches: what these answer may shorten latencies and hide what flows share; use --buffer {}MiB",
            format_bytes(bytes),
            flows * USUAL_CACHES,
            format_bytes(cache_bytes),
            usual.div_ceil(1 << 20)
        )
    });
    Ok(Sizes {
        buffer_bytes: bytes,
        chain_bytes: chain_bytes.next_multiple_of(PAGE_BYTES),
        warning,
    })
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
        kind: if node.cpus.is_empty() {
            MemoryKind::Expander
        } else {
            MemoryKind::Dram
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

    const MIB: u64 = 1 << 20;

    fn cache(bytes: u64, part_bytes: u64) -> NodeCache {
        NodeCache {
            bytes,
            all_bytes: bytes,
            part_bytes,
            is_known: true,
        }
    }

    fn asked(buffer_bytes: Option<u64>, caches: &[NodeCache]) -> Result<Sizes, CalibrateError> {
        let options = Options {
            buffer_bytes,
            ..Options::default()
        };
        sizes(&options, caches)
    }

    fn chosen(buffer_bytes: Option<u64>, cache: NodeCache) -> (u64, u64) {
        let sizes = asked(buffer_bytes, &[cache]).unwrap_or_else(|error| panic!("{error}"));
        (sizes.buffer_bytes, sizes.chain_bytes)
    }

    /// Buffers hold the whole node's cache at least twice, chains the part that one CPU sees.
    #[test]
    fn buffers_are_well_above_the_caches() {
        assert_eq!(chosen(None, cache(MIB, MIB)), (64 * MIB, 32 * MIB));
        assert_eq!(
            chosen(None, cache(32 * MIB, 32 * MIB)),
            (128 * MIB, 128 * MIB)
        );
        assert_eq!(
            chosen(None, cache(384 * MIB, 32 * MIB)),
            (1536 * MIB, 768 * MIB)
        );
        assert_eq!(
            chosen(None, cache(3072 * MIB, 96 * MIB)),
            (6144 * MIB, 3072 * MIB)
        );
        assert_eq!(
            chosen(Some(64 * MIB + 1), cache(32 * MIB, 32 * MIB)),
            (66 * MIB, 66 * MIB)
        );
    }

    /// What two flows at a memory have each is above the caches, too, and those below the last level count.
    #[test]
    fn the_least_buffer_grows_with_all_caches_and_flows() {
        let mut with_others = cache(32 * MIB, 32 * MIB);
        with_others.all_bytes = 48 * MIB;
        for (caches, least) in [
            (vec![cache(32 * MIB, 32 * MIB)], 64 * MIB),
            (vec![with_others], 96 * MIB),
            (vec![cache(MIB, MIB), with_others], 96 * MIB),
            (
                vec![cache(MIB, MIB), with_others, cache(MIB, MIB)],
                192 * MIB,
            ),
        ] {
            let error = asked(Some(least - 1), &caches).unwrap_err().to_string();
            assert!(
                error.ends_with(&format!("use at least {}MiB", least / MIB)),
                "{error}"
            );
            let few = asked(Some(least), &caches).unwrap();
            assert_eq!(few.buffer_bytes, least);
            let warning = few.warning.unwrap();
            let remedy = format!("use --buffer {}MiB", 2 * least / MIB);
            assert!(warning.ends_with(&remedy), "{warning}");
            for enough in [Some(2 * least), None] {
                let sizes = asked(enough, &caches).unwrap();
                assert_eq!((sizes.buffer_bytes, sizes.warning), (2 * least, None));
            }
        }
    }
}
