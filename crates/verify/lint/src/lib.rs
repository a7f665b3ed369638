//! Checks of this repository that no other tool makes.
//!
//! - [`modules`]: no modules of a crate import each other, directly or in a ring.
//! - [`layers`]: crates and folders depend on what is below them.
//! - [`links`]: every relative link between documents, and every path that names one, leads somewhere.
//! - [`test_files`]: every file of tests is part of a test program, and names of tests are short.
//! - [`early_returns`]: no test returns before its end without a note that it was skipped.
//! - [`skips`]: how many tests were skipped, and that the gate knows each such skip.
//! - [`words`]: documents and comments use few words that readers of other languages stumble over.
//! - [`locks`]: the lock file of what is built apart from the workspace knows the crates as they are.

#![forbid(unsafe_code)]

pub mod early_returns;
mod files;
pub mod layers;
pub mod links;
pub mod locks;
pub mod modules;
pub mod skips;
pub mod test_files;
pub mod transcript;
pub mod words;

pub use files::crates;
