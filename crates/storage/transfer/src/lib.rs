//! Streams of snapshots: a directory tree of a volume as it was at one instant, sent while programs change it, and received into a
//! directory of any file system.

mod error;
mod receive;
mod send;
mod stream;

pub use error::TransferError;
pub use receive::{Received, receive};
pub use send::{Sent, read_manifest, send, write_manifest};
pub use stream::Known;
