//! The line on pool 0 that names the session in which the volume is attached now.

use crate::format::*;
use crate::requests::VolumeError;
use crate::requests::failure;
use crate::session::trust::boot_id;
use egeria_media::Pool;

/// State of the session that the line names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionLine {
    /// Processes may be attached.
    Current,
    /// The last process has detached. The session has ended, but the line is not yet that of another session.
    Ended,
}

impl SessionLine {
    fn magic(self) -> u64 {
        u64::from_le_bytes(match self {
            SessionLine::Current => *b"EGLINE01",
            SessionLine::Ended => *b"EGLINE00",
        })
    }
}

fn encode(line: SessionLine, session: &[u8; 16]) -> [u8; LINE] {
    let mut bytes = [0; LINE];
    put_u64(&mut bytes, 0, line.magic());
    bytes[8..24].copy_from_slice(&boot_id());
    bytes[24..40].copy_from_slice(session);
    let crc = crate::format::checksum::crc32c(&bytes[..60]);
    put_u32(&mut bytes, 60, crc);
    bytes
}

/// Session named on pool 0, if it is of this boot and has not ended.
pub(crate) fn read_session_line(pool: &Pool) -> Option<[u8; 16]> {
    let mut bytes = [0; LINE];
    pool.read_bytes(SESSION_LINE_BLOCK.offset(), &mut bytes)
        .ok()?;
    let session: [u8; 16] = bytes[24..40].try_into().ok()?;
    (bytes == encode(SessionLine::Current, &session)).then_some(session)
}

pub(crate) fn write_session_line(
    pool: &Pool,
    line: SessionLine,
    id: &[u8; 16],
) -> Result<(), VolumeError> {
    // Neither flushed nor fenced: after a power loss the line belongs to another boot and is ignored, torn or not.
    let line = encode(line, id);
    let written = pool.write_bytes(SESSION_LINE_BLOCK.offset(), &line);
    written.map_err(|error| failure(libc::EIO, error.to_string()))
}
