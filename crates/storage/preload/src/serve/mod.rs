//! The way of a call into the engine and back, by a descriptor or by a path. It builds on `descriptors` and `volumes`.
//!
//! ```text
//!  descriptor   a call by a number            path    a call by a path
//!    │ identify    what the number is           │ start   where the path begins: a mount, the working
//!    │             (at its first data call)     │         directory, a directory's descriptor
//!    └ ownership   the tables are this process's, also after a fork
//!  guarded      arguments that scattered calls point to
//! ```
//!
//! The plain case is served here. Everything else goes to the kernel, which answers through the mount: of paths, errors other
//! than `ENOENT`, special files, links that lead out, and other mounts inside the volume.

mod bracket;
mod descriptor;
pub(crate) mod guarded;
mod identify;
pub(crate) mod ownership;
pub(crate) mod path;
pub(crate) mod start;

pub(crate) use descriptor::{
    expect_bare_calls, is_deferred, look_for_signs, open_all_in_kernel, open_in_kernel, publish,
    publish_all, publish_if_open, quietly, serve, serve_cancellable, serve_quickly, share,
    try_open_in_kernel, while_open,
};
