//! What the kernel is asked to do with the pages of a process.

use std::io;

use egeria_machine::NodeId;
use egeria_proc::task;

use crate::kernel::calls;

/// Tells nodes, and moves.
pub(super) trait Kernel: Sync {
    /// The node of each page, or a negative error number.
    fn nodes(&self, addresses: &[usize]) -> io::Result<Vec<i32>>;

    /// Moves pages; what came of each, as far as the kernel says: the node, or a negative error number.
    fn move_to(&self, node: NodeId, addresses: &[usize], also_shared: bool)
    -> io::Result<Vec<i32>>;
}

/// A running process. Its number may be another's one day, so each call makes sure.
pub(super) struct Process {
    pub(super) id: u32,
    pub(super) start_ticks: u64,
}

impl Process {
    fn check(&self) -> io::Result<()> {
        if task::began(self.id) == Some(self.start_ticks) {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    }
}

impl Kernel for Process {
    fn nodes(&self, addresses: &[usize]) -> io::Result<Vec<i32>> {
        self.check()?;
        calls::nodes_of(self.id, addresses)
    }

    fn move_to(
        &self,
        node: NodeId,
        addresses: &[usize],
        also_shared: bool,
    ) -> io::Result<Vec<i32>> {
        self.check()?;
        calls::move_to(self.id, node, addresses, also_shared)
    }
}
