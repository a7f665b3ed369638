//! Reading untrusted files: bounded, and with errors that name them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::MachineError;

/// The text of a regular file of at most `limit` bytes; `hint` says what to give instead.
///
/// # Errors
/// When it cannot be read, is no regular file, too large or no text.
pub fn read_text(path: &Path, limit: u64, hint: &'static str) -> Result<String, MachineError> {
    let unreadable = |cause: String| MachineError::Unreadable {
        path: path.to_owned(),
        cause,
        hint,
    };
    // A FIFO or a terminal would block for ever.
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if !metadata.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > limit {
        return Err(unreadable(format!("it is larger than {limit} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))
}
