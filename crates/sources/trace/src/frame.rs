//! Frames: a length, two checksums, a payload. Little-endian.
//!
//! The head has a checksum of its own, so that a wrong length in the middle of a file is not taken
//! for a file that was cut. Both checksums cover the frame's number: frames cannot be missing,
//! repeated or exchanged unnoticed.

use std::io::{self, Read};

/// Length of the payload, its checksum, the checksum of these two.
pub(crate) const HEAD_BYTES: usize = 12;

/// What comes next in a file.
pub(crate) enum Next {
    /// A whole frame; its payload is in the buffer.
    Frame,
    /// The file ends here.
    End,
    /// The file ends within a frame; this number of the remaining bytes is lost.
    Cut(u64),
    /// It is not what was written.
    Damaged(String),
}

/// The bytes of frame `number`.
pub(crate) fn seal(number: u64, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame's length was checked");
    let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&checksum(number, payload).to_le_bytes());
    bytes.extend_from_slice(&checksum(number, &bytes).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Reads frame `number` into the buffer.
pub(crate) fn read(
    file: &mut impl Read,
    number: u64,
    max_bytes: usize,
    buffer: &mut Vec<u8>,
) -> io::Result<Next> {
    fill(file, HEAD_BYTES, buffer)?;
    match buffer.len() {
        0 => return Ok(Next::End),
        HEAD_BYTES => {}
        bytes => return Ok(Next::Cut(bytes as u64)),
    }
    if buffer.iter().all(|&byte| byte == 0) {
        return zeros(file, buffer);
    }
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| buffer[at + byte]));
    let (length, payload_sum, head_sum) = (word(0) as usize, word(4), word(8));
    if checksum(number, &buffer[..8]) != head_sum {
        return Ok(damaged("the head of a frame has a wrong checksum"));
    }
    if length == 0 || length > max_bytes {
        let what = format!("a frame of {length} bytes, at most {max_bytes} can be");
        return Ok(Next::Damaged(what));
    }
    fill(file, length, buffer)?;
    if buffer.len() < length {
        return Ok(Next::Cut((HEAD_BYTES + buffer.len()) as u64));
    }
    if checksum(number, buffer) != payload_sum {
        return Ok(damaged("a frame has a wrong checksum"));
    }
    Ok(Next::Frame)
}

/// As many bytes as there are, up to `length`; memory follows what was really read.
fn fill(file: &mut impl Read, length: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    file.take(length as u64).read_to_end(buffer)?;
    Ok(())
}

/// A file system that lost power may leave zeros where the last frame was.
fn zeros(file: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Next> {
    let mut lost = buffer.len() as u64;
    loop {
        fill(file, 1 << 16, buffer)?;
        if buffer.is_empty() {
            return Ok(Next::Cut(lost));
        }
        if buffer.iter().any(|&byte| byte != 0) {
            return Ok(damaged("zeros where a frame should be"));
        }
        lost = lost.saturating_add(buffer.len() as u64);
    }
}

fn damaged(what: &str) -> Next {
    Next::Damaged(what.to_owned())
}

fn checksum(number: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), bytes)
}
