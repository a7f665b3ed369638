//! The memory that a node's files lie in, and whether many threads at once get less of it than few.

use crate::{Machine, Medium, Memory, MemoryKind, Node, PoolBandwidth};

/// A medium that gives this part of the most it can is not overcrowded.
pub const NEARLY_ALL: f64 = 0.95;

impl Machine {
    /// The medium of a node's files (by position): what it emulates, else its persistent memory, else what was measured of
    /// its pool, else (as where DRAM plays persistent memory) the first of its memories.
    pub fn file_medium(&self, index: usize) -> Option<Medium<'_>> {
        let node = self.nodes.get(index)?;
        match self.emulated_node(node.id) {
            Some(emulated) => Some(emulated.medium()),
            None => declared_or_measured(node).or_else(|| node.file_memory().map(Memory::medium)),
        }
    }

    /// The medium of a node's files, if it is persistent (as declared, or as measured of its pool), or if it gives less to
    /// many threads than to few, whatever its kind.
    pub fn bounded_medium(&self, index: usize) -> Option<Medium<'_>> {
        let node = self.nodes.get(index)?;
        let is_persistent = match self.emulated_node(node.id) {
            Some(emulated) => emulated.kind == MemoryKind::Persistent,
            None => self.has_persistent_memory(node),
        };
        if is_persistent && self.emulated_node(node.id).is_none() {
            return declared_or_measured(node);
        }
        let medium = self.file_medium(index)?;
        (is_persistent || medium.falls()).then_some(medium)
    }

    /// Whether it matters how many threads are at the memory of a node's files: persistent memory, or another that gives less
    /// to many threads than to few.
    pub fn has_bounded_medium(&self, node: &Node) -> bool {
        let falls = || {
            let index = self.index_of(node.id)?;
            Some(self.file_medium(index)?.falls())
        };
        self.has_persistent_memory(node) || falls() == Some(true)
    }
}

impl Node {
    /// The memory that files lie in, as declared: a persistent one, or else the first.
    pub fn file_memory(&self) -> Option<&Memory> {
        let memories = &self.hardware.memories;
        let mut persistent = memories.iter();
        let persistent = persistent.find(|memory| memory.kind == MemoryKind::Persistent);
        persistent.or_else(|| memories.first())
    }
}

fn declared_or_measured(node: &Node) -> Option<Medium<'_>> {
    let memory = node.file_memory();
    let declared = memory.filter(|memory| memory.kind == MemoryKind::Persistent);
    let measured = || node.pool_bandwidth.as_ref().map(PoolBandwidth::medium);
    declared.map(Memory::medium).or_else(measured)
}

impl Medium<'_> {
    /// Whether many threads at once get less of it than few.
    pub fn falls(&self) -> bool {
        knee(self.read.curve).is_some() || knee(self.write.curve).is_some()
    }

    /// The most threads with which it still gives nearly all it has, where it falls for this share of writes; `None` where
    /// it does not.
    pub fn knee(&self, write_share: f64) -> Option<u32> {
        let reads = knee(self.read.curve).filter(|_| write_share < 1.0);
        let writes = knee(self.write.curve).filter(|_| write_share > 0.0);
        reads.into_iter().chain(writes).min()
    }
}

/// Where a curve begins to fall; `None` if it never does.
fn knee(curve: &[(u32, f64)]) -> Option<u32> {
    let most = curve.iter().map(|point| point.1).fold(0.0, f64::max);
    let is_good = |point: &&(u32, f64)| point.1 >= NEARLY_ALL * most;
    let last = curve.iter().rev().find(is_good)?;
    (last.0 < curve.last()?.0).then_some(last.0)
}
