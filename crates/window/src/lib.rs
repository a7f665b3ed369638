//! The `window` room: plain facts about a short stretch of time.
//!
//! A [`Window`] says, for every thread under the steward, how many bytes it read and wrote on
//! which node, how long it ran, where it runs and where it may run ([`ThreadFacts`]); and for
//! every node what went through its memory and CPUs, whoever did it ([`NodeFacts`]). The room
//! `watch` fills windows, traces keep them, policies and the simulator read them. Nothing here
//! decides or does I/O.
//!
//! A window read from a file or a socket is not trusted: call [`Window::validate`] first, then
//! every vector has the machine's length, every node exists and no sum can overflow.
//!
//! Units: bytes, ns of the machine's own clock (on an emulated machine: machine time), bytes/s.

#![forbid(unsafe_code)]

mod cpu_set;
mod error;
mod facts;
mod validate;
mod window;

pub use cpu_set::CpuSet;
pub use error::WindowError;
pub use facts::{
    FileKey, FileUse, MAX_NAME_CHARS, NodeFacts, ThreadFacts, ThreadKey, printable_name,
};
pub use validate::{MAX_COUNTER, MAX_DURATION_NS, MAX_FILES, MAX_THREADS};
pub use window::Window;
