//! Messages on stderr.

use std::io::{self, Write};
use std::sync::OnceLock;

use egeria_machine::printable_lines;

static PROGRAM: OnceLock<&'static str> = OnceLock::new();

/// The program name at the beginning of lines of [`complain`]; `egeria` by default.
pub fn set_program(name: &'static str) {
    let _ = PROGRAM.set(name);
}

/// A remark on stderr, `PROGRAM: …`. A failed write is ignored.
pub fn complain(line: &str) {
    let program = PROGRAM.get().copied().unwrap_or("egeria");
    let _ = writeln!(io::stderr().lock(), "{program}: {}", printable_lines(line));
}

/// Lines on stderr. A failed write is ignored.
pub fn remark(text: &str) {
    let text = printable_lines(text.trim_end());
    let _ = writeln!(io::stderr().lock(), "{text}");
}
