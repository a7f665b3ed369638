//! What `mount` and `run` ask of a volume.

use clap::Args;

use super::sharing::SharingArguments;
use crate::machine_choice::{Allocation, MachineArguments, MemoryArguments};

/// The machine that is emulated, where data goes, and who may use it at once.
#[derive(Args, Debug)]
pub(crate) struct VolumeOptions {
    #[command(flatten)]
    pub(crate) machine: MachineArguments,
    #[command(flatten)]
    pub(crate) memory: MemoryArguments,
    /// Where new data goes: local (the writer's node), random, striped (over all nodes), node=N
    #[arg(long, value_name = "local|random|striped|node=N", value_parser = Allocation::parse)]
    pub(crate) alloc: Option<Allocation>,
    #[command(flatten)]
    pub(crate) sharing: SharingArguments,
}

impl VolumeOptions {
    /// Whether any of it is given but a machine, which describes this one without a volume.
    pub(crate) fn is_given(&self) -> bool {
        let SharingArguments { limit, delegates } = self.sharing;
        let emulated = self.machine.dilation.is_some() || self.memory.memory.is_some();
        emulated || self.alloc.is_some() || limit.is_some() || delegates.is_some()
    }
}
