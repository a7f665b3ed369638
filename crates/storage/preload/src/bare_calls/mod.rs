//! Calls that close or replace descriptors past the library: whether they may happen, and the signs of them in the program's
//! machine code. It builds on `description` and `thread`.

mod code;
mod expected;
mod objects;
pub(crate) mod signs;

pub(crate) use expected::{expect, is_placeholder, may_happen, means};
