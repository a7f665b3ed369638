//! Whether the library works in this process, and whose mounts it believes. It builds on `system` and `sync`.

pub(crate) mod admission;
pub(crate) mod control_call;
pub(crate) mod devices;
mod place;
pub(crate) mod settings;

pub(crate) use place::Place;
