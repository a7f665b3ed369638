//! Blocks so small that an index page has two words, and files few levels.

pub(crate) use egeria_engine::format::BlockWord;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 16;
