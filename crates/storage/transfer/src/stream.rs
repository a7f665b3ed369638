//! What a stream consists of.
//!
//! ```text
//! "EGSEND02" │ frame │ frame │ …
//! frame:  length of the body, u32 │ CRC-32C of all bodies so far, u32 │ body: a `Frame`, as postcard encodes it
//! ```
//!
//! The checksum covers all bodies before, so that no frame can be missing, repeated or moved. The last frame is `End`.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::error::{Outcome, TransferError};

const MAGIC: [u8; 8] = *b"EGSEND02";
/// Data of one frame.
pub(crate) const DATA_BYTES: usize = 1 << 20;
/// More than any frame has: names, attributes and data are bounded.
const MAX_FRAME_BYTES: usize = 4 << 20;

/// A part of a stream.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
pub(crate) enum Frame {
    /// The first one.
    Begin(Begin),
    /// A name, and what it leads to. The first one is the top of the tree, without a name.
    Entry(Entry),
    /// Data of the entry before: of a file, or the target of a symbolic link.
    Data { offset_bytes: u64, bytes: Vec<u8> },
    /// Zeros in the file of the entry before, where its base has data.
    Hole {
        offset_bytes: u64,
        length_bytes: u64,
    },
    /// What a manifest has of an inode.
    Known(Known),
    /// The last one.
    End,
}

/// Which tree it is.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq, Debug)]
pub(crate) struct Begin {
    /// Of this stream, 16 bytes.
    pub(crate) id: [u8; 16],
    /// Of the stream before, if this one has only what changed since.
    pub(crate) base: Option<[u8; 16]>,
    /// The volume that it is of.
    pub(crate) volume: [u8; 16],
}

#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// Inode number of the directory that the name is in; an earlier entry.
    pub(crate) parent: u64,
    pub(crate) name: Vec<u8>,
    pub(crate) ino: u64,
    pub(crate) leads_to: LeadsTo,
}

#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
pub(crate) enum LeadsTo {
    /// An inode that had no name so far, with its data.
    Inode(Inode),
    /// A file that is in the base, with what changed of its data since.
    Changed { inode: Inode, base: BaseFile },
    /// Another name of an earlier entry.
    Link,
}

/// A file as it was sent before.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq, Debug)]
pub(crate) struct BaseFile {
    /// In the tree that was sent, without a `/` at the beginning.
    pub(crate) path: Vec<u8>,
    pub(crate) size_bytes: u64,
    pub(crate) mtime_ns: i64,
}

#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    /// Type and permissions.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u32,
    pub(crate) size_bytes: u64,
    pub(crate) atime_ns: i64,
    pub(crate) mtime_ns: i64,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What a manifest keeps of a file that was sent, so that a later stream need not have its data.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq, Debug)]
pub struct Known {
    pub(crate) ino: u64,
    pub(crate) generation: u32,
    pub(crate) log_tail: u64,
    pub(crate) log_time_ns: i64,
    pub(crate) file: BaseFile,
}

/// Writes a stream.
pub(crate) struct StreamWriter<W: Write> {
    to: W,
    crc: u32,
    pub(crate) written_bytes: u64,
}

impl<W: Write> StreamWriter<W> {
    pub(crate) fn begin(to: W, begin: &Begin) -> Outcome<StreamWriter<W>> {
        let mut writer = StreamWriter {
            to,
            crc: 0,
            written_bytes: 0,
        };
        writer.bytes(&MAGIC)?;
        writer.frame(&Frame::Begin(begin.clone()))?;
        Ok(writer)
    }

    pub(crate) fn frame(&mut self, frame: &Frame) -> Outcome<()> {
        let body = postcard::to_stdvec(frame)
            .map_err(|_| TransferError::Write(io::Error::from(io::ErrorKind::OutOfMemory)))?;
        self.crc = crc32c::crc32c_append(self.crc, &body);
        let length = (body.len() as u32).to_le_bytes();
        self.bytes(&length)?;
        self.bytes(&self.crc.to_le_bytes())?;
        self.bytes(&body)
    }

    pub(crate) fn end(mut self) -> Outcome<u64> {
        self.frame(&Frame::End)?;
        self.to.flush().map_err(TransferError::Write)?;
        Ok(self.written_bytes)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.written_bytes += bytes.len() as u64;
        self.to.write_all(bytes).map_err(TransferError::Write)
    }
}

/// Reads a stream, which is not trusted.
pub(crate) struct StreamReader<R: Read> {
    from: R,
    crc: u32,
    body: Vec<u8>,
}

impl<R: Read> StreamReader<R> {
    pub(crate) fn begin(from: R) -> Outcome<(StreamReader<R>, Begin)> {
        let mut reader = StreamReader {
            from,
            crc: 0,
            body: Vec::new(),
        };
        let mut magic = [0; MAGIC.len()];
        match reader.bytes(&mut magic) {
            Ok(()) if magic == MAGIC => {}
            Ok(()) | Err(TransferError::EndsEarly) => return Err(TransferError::NoStream),
            Err(error) => return Err(error),
        }
        match reader.frame()? {
            Frame::Begin(begin) => Ok((reader, begin)),
            _ => Err(TransferError::Damaged("it has no beginning")),
        }
    }

    pub(crate) fn frame(&mut self) -> Outcome<Frame> {
        let mut word = [0; 4];
        self.bytes(&mut word)?;
        let length = u32::from_le_bytes(word) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(TransferError::Damaged("a part is too long"));
        }
        self.bytes(&mut word)?;
        let mut body = std::mem::take(&mut self.body);
        body.resize(length, 0);
        let read = self.bytes(&mut body);
        self.body = body;
        read?;
        self.crc = crc32c::crc32c_append(self.crc, &self.body);
        if self.crc != u32::from_le_bytes(word) {
            return Err(TransferError::Damaged("a part does not match its checksum"));
        }
        postcard::from_bytes(&self.body)
            .map_err(|_| TransferError::Damaged("a part has no meaning"))
    }

    /// Nothing may follow the last frame.
    pub(crate) fn check_end(mut self) -> Outcome<()> {
        let mut more = [0];
        match self.from.read(&mut more).map_err(TransferError::Read)? {
            0 => Ok(()),
            _ => Err(TransferError::Damaged("something follows its end")),
        }
    }

    fn bytes(&mut self, bytes: &mut [u8]) -> Outcome<()> {
        self.from
            .read_exact(bytes)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => TransferError::EndsEarly,
                _ => TransferError::Read(error),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Begin = Begin {
        id: [1; 16],
        base: None,
        volume: [2; 16],
    };

    fn data(offset_bytes: u64) -> Frame {
        Frame::Data {
            offset_bytes,
            bytes: vec![7; 100],
        }
    }

    fn stream() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::begin(&mut bytes, &BEGIN).unwrap();
        for offset in 0..3 {
            writer.frame(&data(offset)).unwrap();
        }
        writer.end().unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Outcome<Vec<Frame>> {
        let (mut reader, begin) = StreamReader::begin(bytes)?;
        assert_eq!(begin, BEGIN);
        let mut frames = Vec::new();
        loop {
            match reader.frame()? {
                Frame::End => break,
                frame => frames.push(frame),
            }
        }
        reader.check_end()?;
        Ok(frames)
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&stream()).unwrap(), [data(0), data(1), data(2)]);
    }

    #[test]
    fn a_stream_that_ends_early_is_refused() {
        let whole = stream();
        for length in 0..whole.len() {
            let refused = read(&whole[..length]).unwrap_err();
            let expected = matches!(refused, TransferError::EndsEarly | TransferError::NoStream);
            assert!(expected, "{length}: {refused}");
        }
    }

    #[test]
    fn a_changed_byte_is_found() {
        let whole = stream();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            assert!(read(&changed).is_err(), "byte {at}");
        }
        let mut longer = whole.clone();
        longer.push(0);
        assert!(read(&longer).is_err());
    }

    #[test]
    fn a_missing_part_is_found() {
        let whole = stream();
        let one = 8 + postcard::to_stdvec(&data(0)).unwrap().len();
        let end = whole.len() - 8 - postcard::to_stdvec(&Frame::End).unwrap().len();
        let mut shorter = whole[..end - one].to_vec();
        shorter.extend(&whole[end..]);
        assert!(matches!(read(&shorter), Err(TransferError::Damaged(_))));
    }
}
