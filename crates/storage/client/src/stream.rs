//! A file with a position, for code that takes std's traits.

use crate::file::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// An open file with a position of its own. Every read and write is one access of the volume: there is no buffer, and
/// what was written is durable when the call returns.
pub struct Stream {
    file: File,
    position_bytes: u64,
}

impl Stream {
    /// The file; its own calls leave the position as it is.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file, without the position.
    pub fn into_file(self) -> File {
        self.file
    }
}

impl From<File> for Stream {
    /// At the beginning of the file.
    fn from(file: File) -> Stream {
        Stream {
            file,
            position_bytes: 0,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let done = self.file.read_at(buffer, self.position_bytes)?;
        self.position_bytes += done as u64;
        Ok(done)
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let done = self.file.write_at(buffer, self.position_bytes)?;
        self.position_bytes += done as u64;
        Ok(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.file.sync()?)
    }
}

impl Seek for Stream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(bytes) => (bytes, 0),
            SeekFrom::End(by) => (self.file.size_bytes()?, by),
            SeekFrom::Current(by) => (self.position_bytes, by),
        };
        let position = from.checked_add_signed(by);
        let position = position.filter(|position| i64::try_from(*position).is_ok());
        self.position_bytes = position.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "the position would be before the beginning of the file, or too large",
            )
        })?;
        Ok(self.position_bytes)
    }
}
