//! What is said on stderr.

use std::io::{self, Write};
use std::sync::OnceLock;

static PROGRAM: OnceLock<&'static str> = OnceLock::new();

/// What the lines of [`complain`] begin with; without it `egeria`.
pub fn set_program(name: &'static str) {
    let _ = PROGRAM.set(name);
}

/// A remark on stderr, `PROGRAM: …`. Nobody may be there to read it.
pub fn complain(line: &str) {
    let program = PROGRAM.get().copied().unwrap_or("egeria");
    let _ = writeln!(io::stderr().lock(), "{program}: {line}");
}

/// Text on stderr as it is. Nobody may be there to read it.
pub fn remark(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
}

/// Text from elsewhere as it may be shown: who made a name is not who looks, and terminals obey bytes.
pub fn printable(text: &str) -> String {
    let shown = |letter: char| if letter.is_control() { '?' } else { letter };
    text.chars().map(shown).collect()
}
