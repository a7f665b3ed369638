//! How a command fails: one line that names the cause and the hint, and an exit status.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::stderr;

/// Exit status of a wrong command line, as other tools have it.
const USAGE_STATUS: u8 = 2;

/// Why a command ends early.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// Something went wrong: cause and hint in one line. Exit status 1.
    Cause(String),
    /// The command line makes no sense. Exit status 2.
    Usage(String),
    /// With an exit status of its own: failures of `egeria run` itself, as shells give them (126, 127), and 128 +
    /// signal if work was stopped before it printed anything.
    Status(u8, String),
    /// A signal asked to stop; what was made is removed. Exit status 128 + signal.
    Interrupted(i32),
    /// The reader of the output has closed it: end as other tools do, without a message.
    BrokenPipe,
}

/// Result of every command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Cause and hint.
    pub fn new(line: impl Display) -> Failure {
        Failure::Cause(line.to_string())
    }

    /// A file operation failed: `doing` and the path, what the kernel said, what to do.
    pub fn io(doing: &str, path: &Path, error: &io::Error, hint: &str) -> Failure {
        Failure::Cause(format!(
            "cannot {doing} {}: {}; {hint}",
            path.display(),
            reason(error)
        ))
    }

    /// Prints it on stderr and returns the exit status.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Cause(line) => said(&line, 1),
            Failure::Usage(line) => said(&line, USAGE_STATUS),
            Failure::Status(status, line) => said(&line, status),
            Failure::Interrupted(signal) => ExitCode::from(128_u8.wrapping_add(signal as u8)),
            Failure::BrokenPipe => die_of_broken_pipe(),
        }
    }
}

/// The system's message, without Rust's `(os error N)`.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// The line without every `(os error N)`: the words before it say the same.
fn without_error_numbers(line: &str) -> String {
    let mut parts = line.split(" (os error ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        match part[digits..].strip_prefix(')') {
            Some(rest) if digits > 0 => text.push_str(rest),
            _ => text.extend([" (os error ", part]),
        }
    }
    text
}

/// Prints one line, whatever the text contains.
fn said(line: &str, status: u8) -> ExitCode {
    let line: Vec<&str> = line.split_whitespace().collect();
    let line = without_error_numbers(&line.join(" "));
    stderr::complain(&egeria_machine::printable(&line));
    ExitCode::from(status)
}

/// The status of a process that SIGPIPE killed, as shells expect of the left side of a pipe.
fn die_of_broken_pipe() -> ExitCode {
    ExitCode::from(128 + libc::SIGPIPE as u8)
}

/// Every error's text names cause and hint.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_are_left_out_and_nothing_else() {
        let line = "a: No space left on device (os error 28); free some (os error x) (os error 5)";
        let shown = "a: No space left on device; free some (os error x)";
        assert_eq!(without_error_numbers(line), shown);
        assert_eq!(without_error_numbers("plain"), "plain");
    }
}
