//! What `mount` and `run` ask of a volume.

use clap::Args;

use super::sharing::SharingArguments;
use crate::machine_choice::{Allocation, MachineArguments, MemoryArguments};

/// The machine that is emulated, where data goes, and who may use it at once.
#[derive(Args, Debug)]
pub(super) struct VolumeOptions {
    #[command(flatten)]
    pub(super) machine: MachineArguments,
    #[command(flatten)]
    pub(super) memory: MemoryArguments,
    /// Where new data goes: local (the writer's node), random, striped (over all nodes), node=N
    #[arg(long, value_name = "local|random|striped|node=N", value_parser = Allocation::parse)]
    pub(super) alloc: Option<Allocation>,
    #[command(flatten)]
    pub(super) sharing: SharingArguments,
}
