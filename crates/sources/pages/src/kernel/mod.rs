//! What this crate asks the kernel: system calls, and the files of `/proc` and `/sys`.

pub mod borrowed;
pub mod cached;
pub(crate) mod calls;
pub mod device;
pub(crate) mod mapping;
pub mod mount;
pub mod numa_maps;
pub(crate) mod present;
pub mod probe;
