//! An emulated machine as one process sees it: the shared state, and the costs of accesses. Each process computes the
//! costs from the machine's description in that state.

use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

use egeria_machine::costs::AccessCosts;
use egeria_machine::{Machine, MemoryKind};

use super::state::{EmulationError, EmulationState};

/// Memory that holds a state, for as long as it is used.
type Memory = Box<dyn Deref<Target = EmulationState> + Send + Sync>;

/// An emulated machine, or none.
pub struct Emulation {
    memory: Memory,
    costs: Option<AccessCosts>,
}

impl Emulation {
    /// No machine is emulated.
    pub fn off() -> Emulation {
        Emulation {
            memory: Box::new(EmulationState::boxed()),
            costs: None,
        }
    }

    /// A machine that this process alone emulates.
    ///
    /// # Errors
    /// [`EmulationError::NotEmulated`] when it declares no nodes, [`EmulationError::TooMany`] when it is too large.
    pub fn private(machine: &Machine) -> Result<Emulation, EmulationError> {
        let state = EmulationState::boxed();
        state.configure(machine)?;
        Emulation::over(Box::new(state))
    }

    /// The machine that a state was configured for.
    ///
    /// # Errors
    /// [`EmulationError::Damaged`] when it was not, or by another release.
    pub fn over(memory: Memory) -> Result<Emulation, EmulationError> {
        let costs = AccessCosts::of(&memory.machine()?);
        Ok(Emulation {
            memory,
            costs: Some(costs),
        })
    }

    /// What accesses of its memories take; none where nothing is emulated.
    pub fn costs(&self) -> Option<&AccessCosts> {
        self.costs.as_ref()
    }

    /// Bytes that all volumes of the machine have moved from and to the DRAM of a node; `None` where it has none.
    pub fn dram_bytes(&self, node: usize) -> Option<u64> {
        let place = self.costs.as_ref()?.place_of_kind(node, MemoryKind::Dram)?;
        Some(self.moved_bytes[place].load(Relaxed))
    }

    /// Bytes that the media of all memories of this kind wrote: see [`AccessCosts::medium_written_bytes`].
    pub fn medium_written_bytes(&self, kind: MemoryKind) -> u64 {
        let places = self.costs.iter().flat_map(|costs| &costs.places);
        let written = places.zip(&self.written_bytes);
        let of_kind = written.filter(|(place, _)| place.memory.kind == kind);
        of_kind.map(|(_, written)| written.load(Relaxed)).sum()
    }

    /// The memory that pools of a node lie on: the memory of this kind; without a kind the node's persistent memory,
    /// or else what memory it has.
    pub fn place_of(&self, node: usize, kind: Option<MemoryKind>) -> Option<usize> {
        let costs = self.costs.as_ref()?;
        let usual = [
            MemoryKind::Persistent,
            MemoryKind::Dram,
            MemoryKind::Expander,
        ];
        match kind {
            Some(kind) => costs.place_of_kind(node, kind),
            None => usual
                .into_iter()
                .find_map(|kind| costs.place_of_kind(node, kind)),
        }
    }
}

impl Deref for Emulation {
    type Target = EmulationState;

    fn deref(&self) -> &EmulationState {
        &self.memory
    }
}
