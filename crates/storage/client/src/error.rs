//! Errors: an errno, and a line with details.

use egeria_engine::{Errno, VolumeError};
use std::fmt;

/// Result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    errno: i32,
    message: String,
}

impl Error {
    pub(crate) fn new(errno: i32, message: impl Into<String>) -> Error {
        Error {
            errno,
            message: message.into(),
        }
    }

    /// The error number, as the corresponding system call would set it.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// Cause and remedy, in one line.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<VolumeError> for Error {
    fn from(error: VolumeError) -> Error {
        Error::new(error.errno, error.message)
    }
}

impl From<Error> for std::io::Error {
    /// The kind follows from the errno; the message is kept.
    fn from(error: Error) -> std::io::Error {
        let kind = std::io::Error::from_raw_os_error(error.errno).kind();
        std::io::Error::new(kind, error)
    }
}

/// The text of an errno, without the number that std adds.
pub(crate) fn words(errno: Errno) -> String {
    let said = errno.to_string();
    match said.rfind(" (os error") {
        Some(end) => said[..end].to_owned(),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_no_number() {
        assert_eq!(words(Errno(libc::ENOENT)), "No such file or directory");
    }

    #[test]
    fn an_error_of_io_keeps_kind_and_message() {
        let error = std::io::Error::from(Error::new(libc::ENOENT, "/a: not there"));
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert_eq!(error.to_string(), "/a: not there");
    }
}
