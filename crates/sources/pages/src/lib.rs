//! Which nodes hold the pages of files and processes, and which threads use them from where.
//!
//! * [`mod@file`]: the page cache of an open file, page by page.
//! * [`numa_maps`] and [`process`]: the memory of a process.
//! * [`threads`]: on which nodes threads run.
//! * [`users`]: which processes have a file open or mapped.
//! * [`tree`]: the files below a directory.
//!
//! * [`warm`]: files brought into the page cache of nodes.
//! * [`areas`], [`located`] and [`migrate`]: the memory of a process, and how it moves to other nodes.
//! * [`accesses`]: what processes access of it.
//! * [`file_counts`] and [`file_io`]: what they read and write of files, counted by the kernel or estimated.
//! * [`borrowed`]: files that processes have open, without an open that others see.
//! * [`found_files`]: the files among these, for code that acts on them.
//! * [`room`]: how much of a node's memory can be had for that.
//!
//! Looking changes nothing: no page is read into the cache, none counts as used. Only [`warm`] and [`migrate`] do.

/// What sources pass on that look at what another source found.
macro_rules! as_inner {
    () => {
        fn dilation(&self) -> f64 {
            self.inner.dilation()
        }

        fn masks(&self) -> SharedMasks {
            self.inner.masks()
        }

        fn members(&self) -> Arc<dyn Membership> {
            self.inner.members()
        }
    };
}

use as_inner;

pub mod accesses;
pub mod balancing;
mod cpu_time;
mod files;
mod kernel;
mod memory;
pub mod migrate;
pub mod node_bytes;
pub mod room;
pub mod threads;
pub mod warm;

pub use files::{file, file_counts, file_io, found_files, tree, users};
pub use kernel::{borrowed, cached, device, mount, numa_maps, probe};
pub use memory::{areas, located, process, sleepers};
pub use node_bytes::NodeBytes;
