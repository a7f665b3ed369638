//! What threads read and write of files, counted by a small program in the kernel, on any file system.
//!
//! * [`FileCounter`]: attached for a part of the time, so that what is watched loses little; [`Pace`]: for which.
//! * [`btf`]: where the running kernel has the fields that the program needs.
//!
//! The program is assembled here for the running kernel, when it is loaded: so no compiler for it is needed, and none
//! of its output is kept. The kernel's verifier checks it as any other.

mod assembler;
pub mod btf;
mod calls;
mod counter;
mod error;
mod pace;
mod program;
mod runs;

pub use counter::{Counts, FileCounter, FileUse};
pub use error::{BpfError, Result};
pub use pace::Pace;

/// Whether this process may call `bpf` at all: a sandbox may forbid it to one that has the capabilities.
///
/// # Errors
/// `EPERM` where it may not.
pub fn check() -> std::io::Result<()> {
    calls::create_map(8, 8, 1).map(drop)
}
