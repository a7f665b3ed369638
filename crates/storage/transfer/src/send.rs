//! Sending a tree of a snapshot.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{Read, Write};
use std::ops::Range;

use egeria_engine::{
    Attributes, Errno, FileKind, InodeNumber, LogEnd, Snapshot, SnapshotFile, SnapshotName,
};
use uuid::Uuid;

use crate::error::{Outcome, TransferError};
use crate::stream::{
    BaseFile, Begin, DATA_BYTES, Entry, Frame, Inode, Known, LeadsTo, StreamReader, StreamWriter,
};

/// What was sent.
#[derive(Debug)]
pub struct Sent {
    pub id: Uuid,
    pub base: Option<Uuid>,
    /// Files, directories, symbolic links and the like.
    pub inodes: u64,
    /// Files of which the base has all data.
    pub unchanged: u64,
    /// Of files.
    pub data_bytes: u64,
    /// Of the stream.
    pub stream_bytes: u64,
    /// For [`write_manifest`].
    pub known: Vec<Known>,
}

/// Which data follows an entry.
struct Data {
    ranges: Vec<Range<u64>>,
    /// What has no data is sent, too.
    with_holes: bool,
}

struct Sender<'a, W: Write> {
    snapshot: &'a Snapshot,
    writer: StreamWriter<W>,
    base: HashMap<u64, Known>,
    named: HashSet<u64>,
    sent: Sent,
    buffer: Vec<u8>,
    progress: &'a mut dyn FnMut(u64),
}

/// Send a directory of a snapshot and all that is below it. With a `base`, only data that changed since is sent, by blocks.
/// `progress` gets the number of inodes so far.
///
/// # Errors
/// What stopped it; the stream is then of no use.
pub fn send<W: Write>(
    snapshot: &Snapshot,
    top: InodeNumber,
    base: Option<(Uuid, Vec<Known>)>,
    to: W,
    progress: &mut dyn FnMut(u64),
) -> Outcome<Sent> {
    let id = Uuid::new_v4();
    let (base_id, known) = match base {
        Some((id, known)) => (Some(id), known),
        None => (None, Vec::new()),
    };
    let begin = Begin {
        id: id.into_bytes(),
        base: base_id.map(Uuid::into_bytes),
        volume: snapshot.volume().uuid().into_bytes(),
    };
    let mut sender = Sender {
        snapshot,
        writer: StreamWriter::begin(to, &begin)?,
        base: known.into_iter().map(|known| (known.ino, known)).collect(),
        named: HashSet::new(),
        sent: Sent {
            id,
            base: base_id,
            inodes: 0,
            unchanged: 0,
            data_bytes: 0,
            stream_bytes: 0,
            known: Vec::new(),
        },
        buffer: vec![0; DATA_BYTES],
        progress,
    };
    sender.tree(top)?;
    let Sender {
        writer, mut sent, ..
    } = sender;
    sent.stream_bytes = writer.end()?;
    Ok(sent)
}

/// Write what a later stream needs to know of this one.
///
/// # Errors
/// [`TransferError::Write`].
pub fn write_manifest(sent: &Sent, to: impl Write) -> Outcome<()> {
    let begin = Begin {
        id: sent.id.into_bytes(),
        base: None,
        volume: [0; 16],
    };
    let mut writer = StreamWriter::begin(to, &begin)?;
    for known in &sent.known {
        writer.frame(&Frame::Known(known.clone()))?;
    }
    writer.end().map(drop)
}

/// Read a manifest: which stream it belongs to, and what was in it.
///
/// # Errors
/// That it is none, or damaged.
pub fn read_manifest(from: impl Read) -> Outcome<(Uuid, Vec<Known>)> {
    let (mut reader, begin) = StreamReader::begin(from)?;
    let mut all = Vec::new();
    loop {
        match reader.frame()? {
            Frame::Known(known) => all.push(known),
            Frame::End => break,
            _ => return Err(TransferError::Damaged("it is no manifest")),
        }
    }
    reader.check_end()?;
    Ok((Uuid::from_bytes(begin.id), all))
}

impl Known {
    fn of(attributes: &Attributes, log_end: LogEnd, path: &[u8]) -> Known {
        Known {
            ino: attributes.ino.0,
            generation: attributes.generation,
            log_tail: log_end.tail,
            log_time_ns: log_end.time_ns,
            file: BaseFile {
                path: path.to_vec(),
                size_bytes: attributes.size_bytes,
                mtime_ns: attributes.mtime_ns,
            },
        }
    }

    fn log_end(&self) -> LogEnd {
        LogEnd {
            tail: self.log_tail,
            time_ns: self.log_time_ns,
        }
    }
}

impl<W: Write> Sender<'_, W> {
    fn tree(&mut self, top: InodeNumber) -> Outcome<()> {
        let name = SnapshotName {
            name: Vec::new(),
            ino: top,
            kind: FileKind::Directory,
        };
        self.entry(top, &name, &[])?;
        let mut directories = VecDeque::from([(top, Vec::new())]);
        while let Some((directory, path)) = directories.pop_front() {
            let names = self.snapshot.names(directory);
            for name in names.map_err(|errno| failed(errno, &path))? {
                let mut below = path.clone();
                if !below.is_empty() {
                    below.push(b'/');
                }
                below.extend(&name.name);
                self.entry(directory, &name, &below)?;
                if name.kind == FileKind::Directory {
                    directories.push_back((name.ino, below));
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, parent: InodeNumber, name: &SnapshotName, path: &[u8]) -> Outcome<()> {
        let is_new = self.named.insert(name.ino.0);
        let mut data = None;
        let leads_to = if is_new {
            self.sent.inodes += 1;
            (self.progress)(self.sent.inodes);
            let attributes = self.snapshot.attributes(name.ino);
            let attributes = attributes.map_err(|errno| failed(errno, path))?;
            let inode = self.inode(&attributes, path)?;
            let is_file = attributes.kind() == FileKind::Regular;
            let changes = is_file.then(|| self.changes(&attributes, path));
            match changes.transpose()?.flatten() {
                Some((base, ranges)) => {
                    self.sent.unchanged += u64::from(ranges.is_empty());
                    data = Some(Data {
                        ranges,
                        with_holes: true,
                    });
                    LeadsTo::Changed { inode, base }
                }
                None => {
                    if is_file || attributes.kind() == FileKind::Symlink {
                        data = Some(Data {
                            ranges: vec![Range {
                                start: 0,
                                end: u64::MAX,
                            }],
                            with_holes: false,
                        });
                    }
                    LeadsTo::Inode(inode)
                }
            }
        } else {
            LeadsTo::Link
        };
        self.writer.frame(&Frame::Entry(Entry {
            parent: parent.0,
            name: name.name.clone(),
            ino: name.ino.0,
            leads_to,
        }))?;
        match data {
            Some(data) => self.data(name.ino, path, &data),
            None => Ok(()),
        }
    }

    fn inode(&self, attributes: &Attributes, path: &[u8]) -> Outcome<Inode> {
        let xattrs = self.snapshot.xattrs(attributes.ino);
        Ok(Inode {
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            rdev: attributes.rdev,
            size_bytes: attributes.size_bytes,
            atime_ns: attributes.atime_ns,
            mtime_ns: attributes.mtime_ns,
            xattrs: xattrs.map_err(|errno| failed(errno, path))?,
        })
    }

    /// Note a file for the manifest. Returns what changed of it since the base, if the base has it, and that can be told.
    fn changes(
        &mut self,
        attributes: &Attributes,
        path: &[u8],
    ) -> Outcome<Option<(BaseFile, Vec<Range<u64>>)>> {
        let (snapshot, ino) = (self.snapshot, attributes.ino);
        let log_end = snapshot.log_end(ino).map_err(|errno| failed(errno, path))?;
        (self.sent.known).push(Known::of(attributes, log_end, path));
        let known = self.base.get(&ino.0);
        let Some(known) = known.filter(|known| known.generation == attributes.generation) else {
            return Ok(None);
        };
        let ranges = snapshot.changes_since(ino, known.log_end());
        let ranges = ranges.map_err(|errno| failed(errno, path))?;
        Ok(ranges.map(|ranges| (known.file.clone(), ranges)))
    }

    fn data(&mut self, ino: InodeNumber, path: &[u8], data: &Data) -> Outcome<()> {
        if data.ranges.is_empty() {
            return Ok(());
        }
        let file = self.snapshot.file(ino);
        let file = file.map_err(|errno| failed(errno, path))?;
        for range in &data.ranges {
            let mut at = range.start;
            while at < range.end {
                let found = file.data_from(at).filter(|found| found.start < range.end);
                let start = found.as_ref().map_or(range.end, |found| found.start);
                if data.with_holes && at < start {
                    self.writer.frame(&Frame::Hole {
                        offset_bytes: at,
                        length_bytes: start - at,
                    })?;
                }
                let Some(found) = found else { break };
                at = self.piece(&file, path, start..found.end.min(range.end))?;
            }
        }
        Ok(())
    }

    /// Send the first part of a range; returns where the next one begins.
    fn piece(&mut self, file: &SnapshotFile, path: &[u8], range: Range<u64>) -> Outcome<u64> {
        let length = (range.end - range.start).min(DATA_BYTES as u64) as usize;
        let into = &mut self.buffer[..length];
        let read = self.snapshot.read(file, range.start, into);
        let read = read.map_err(|errno| failed(errno, path))?;
        if read == 0 {
            return Ok(u64::MAX);
        }
        self.writer.frame(&Frame::Data {
            offset_bytes: range.start,
            bytes: self.buffer[..read].to_vec(),
        })?;
        self.sent.data_bytes += read as u64;
        Ok(range.start + read as u64)
    }
}

fn failed(errno: Errno, path: &[u8]) -> TransferError {
    let path = format!("/{}", String::from_utf8_lossy(path));
    match errno {
        Errno(libc::ESTALE) => TransferError::NoSpace,
        Errno(libc::EBUSY) => TransferError::Held(path),
        errno => TransferError::Source {
            path,
            what: errno.to_string(),
        },
    }
}
