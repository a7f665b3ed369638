//! Windows recorded to a file, and read back: what `egeria run --record` writes and `egeria trace`
//! and `egeria replay` read. The bytes are described in `docs/reference/trace.md`.
//!
//! * [`Writer`] appends the facts of one window after another, each with one write: a killed recorder loses
//!   the window under way and nothing else.
//! * [`Reader`] gives the windows back one by one, each [validated](egeria_facts::Facts::validate)
//!   against the machine that the trace carries. It trusts nothing: memory stays bounded by the
//!   limits below, and whatever is wrong is a [`TraceError`] of one line. A recording that ends in
//!   the middle of a frame is no error but an [`Ending`] worth a [warning](Reader::warning).
//! * [`StandIns`] replace names, for recordings that other people get.
//!
//! Units: bytes, ns of the machine's own clock; `started_unix_ns` is wall time.

mod codec;
mod error;
mod frame;
mod header;
mod reader;
mod stand_ins;
mod writer;

pub use error::TraceError;
pub use header::TraceHeader;
pub use reader::{Ending, Reader};
pub use stand_ins::StandIns;
pub use writer::Writer;

/// The version of the format: postcard names no fields, so each change of [`Facts`](egeria_facts::Facts) is a new version, and
/// recordings of others are refused.
pub const VERSION: u32 = 7;

/// The first bytes of every trace.
pub const MAGIC: [u8; 8] = *b"\x89EGERIA\n";

/// Largest frame, and largest window before it is compressed, bytes.
pub const MAX_FRAME_BYTES: usize = 64 << 20;

/// Most bytes of facts other than file I/O in a window.
pub const MAX_OTHER_FACTS_BYTES: usize = 16 << 20;

/// Largest header, bytes.
pub const MAX_HEADER_BYTES: usize = 4 << 20;

/// Kinds of frames: the first byte of the payload.
const KIND_HEADER: u8 = 1;
const KIND_WINDOW: u8 = 2;
const KIND_END: u8 = 3;
