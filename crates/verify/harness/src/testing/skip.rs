//! Tests that cannot run here. The test runner knows only success and failure, and shows nothing of a success. So each skip is
//! a line of a file, which `make test` counts at its end (`egeria-lint skips`).

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Names the file that skips are noted in. Without it they are only printed.
pub const SKIPS: &str = "EGERIA_SKIPS";

/// Says and notes that the running test proves nothing here, or a part of it, and why. The test returns then.
///
/// # Panics
/// When the file cannot be written: a skip that is not counted must not look like a success.
pub fn skip(why: impl Display) {
    let line = line(&program(), &test(), &why.to_string());
    eprint!("SKIPPED: {line}");
    if let Some(file) = std::env::var_os(SKIPS).map(PathBuf::from) {
        let noted = note(&file, &line);
        noted.unwrap_or_else(|error| panic!("{SKIPS}: {}: {error}", file.display()));
    }
}

/// `PROGRAM TEST: WHY`, and the line's end. Scripts write the same.
fn line(program: &str, test: &str, why: &str) -> String {
    let why: Vec<&str> = why.split_whitespace().collect();
    format!("{program} {test}: {}\n", why.join(" "))
}

/// One write at the end, so that test programs that run at once do not mix their lines.
fn note(file: &Path, line: &str) -> io::Result<()> {
    let mut file = File::options().create(true).append(true).open(file)?;
    file.write_all(line.as_bytes())
}

/// The package that is tested, as cargo names it; else the program.
fn program() -> String {
    std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| {
        let path = std::env::current_exe().unwrap_or_default();
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    })
}

/// The test runner names threads after their tests.
fn test() -> String {
    let thread = std::thread::current();
    thread.name().unwrap_or("unnamed").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_names_program_test_and_reason_on_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("skips");
        for why in ["no FUSE", "two\nlines"] {
            note(&file, &line(&program(), &test(), why)).unwrap();
        }
        let test = "testing::skip::tests::a_skip_names_program_test_and_reason_on_one_line";
        let expected =
            format!("egeria-harness {test}: no FUSE\negeria-harness {test}: two lines\n");
        assert_eq!(std::fs::read_to_string(file).unwrap(), expected);
    }
}
