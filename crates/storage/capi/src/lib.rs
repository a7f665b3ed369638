//! Egeria's C library: `egeria_client` for C. `egeria.h` is generated from this crate and has the rules for callers.
//!
//! No panic crosses the C boundary ([`call::call`]). Of C's arguments only the documented promises are trusted: NULL,
//! handles of another kind and unmapped addresses of data give errors.
#![warn(missing_docs)]
#![allow(non_camel_case_types)] // They are C's names.

#[macro_use]
mod arguments;
mod call;

// In the order of the header.
mod volume;

mod file;

mod names;

mod links;

mod directory;

pub use arguments::*;
pub use directory::*;
pub use file::*;
pub use names::*;
pub use volume::*;

use call::LAST_MESSAGE;
use libc::c_char;
use std::ffi::CStr;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// Why the last call of this thread that failed did: one line, empty before the first. Valid until the next failure
/// in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_message() -> *const c_char {
    LAST_MESSAGE
        .try_with(|message| message.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// The version of the library: "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn egeria_version() -> *const c_char {
    VERSION.as_ptr()
}
