//! Paths that lead into volumes, answered by the engine without the kernel.
//!
//! ```text
//!  hooks/{status, naming, changing}   the C functions
//!    │ serve        a path from the program, into the engine and back
//!    │ start        where a path begins: a mount, the working directory, a directory's descriptor
//!    ├ mounts       the mounts of volumes that this process sees, and whether they still lead there
//!    └ identity     whose rights count, and the umask
//! ```
//!
//! The plain case is served here; everything else (errors other than `ENOENT`, special files, links that lead out,
//! other mounts inside the volume) goes to the kernel, which answers through the mount.

mod identity;
mod mounts;
mod serve;
mod start;

pub use identity::{note_umask, note_umasks_of_threads, without_umask};
pub use mounts::{SpaceWords, note as note_mount, reset_in_child, ticks};
pub use serve::{
    Answer, CallerPlace, Way, answered, before_path, by_kernel, by_kernel_at, on_descriptor,
    on_open_descriptor, on_path, on_two_paths, with_caller_string,
};
pub use start::note_directory_change;
