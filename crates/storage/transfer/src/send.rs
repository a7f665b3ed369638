//! Sending a tree of a snapshot.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{Read, Write};

use egeria_engine::{Attributes, Errno, FileKind, InodeNumber, Snapshot, SnapshotName};
use uuid::Uuid;

use crate::error::{Outcome, TransferError};
use crate::stream::{
    Begin, DATA_BYTES, Entry, Frame, Inode, Known, LeadsTo, StreamReader, StreamWriter,
};

/// What was sent.
#[derive(Debug)]
pub struct Sent {
    pub id: Uuid,
    pub base: Option<Uuid>,
    /// Files, directories, symbolic links and the like.
    pub inodes: u64,
    /// Files of which the base has the data.
    pub unchanged: u64,
    /// Of files.
    pub data_bytes: u64,
    /// Of the stream.
    pub stream_bytes: u64,
    /// For [`write_manifest`].
    pub known: Vec<Known>,
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

/// Send a directory of a snapshot and all that is below it. With a `base`, data of files that did not change since is left out.
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
    fn of(attributes: &Attributes, log_end: u64, path: &[u8]) -> Known {
        Known {
            ino: attributes.ino.0,
            generation: attributes.generation,
            log_end,
            ctime_ns: attributes.ctime_ns,
            mtime_ns: attributes.mtime_ns,
            path: path.to_vec(),
        }
    }

    /// Whether it is the same file, unchanged, under whatever name.
    fn is_same(&self, other: &Known) -> bool {
        let without_path = |known: &Known| Known {
            path: Vec::new(),
            ..known.clone()
        };
        without_path(self) == without_path(other)
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
        let mut data = false;
        let leads_to = if is_new {
            self.sent.inodes += 1;
            (self.progress)(self.sent.inodes);
            let attributes = self.snapshot.attributes(name.ino);
            let attributes = attributes.map_err(|errno| failed(errno, path))?;
            let inode = self.inode(&attributes, path)?;
            let is_file = attributes.kind() == FileKind::Regular;
            match is_file
                .then(|| self.unchanged(&attributes, path))
                .transpose()?
            {
                Some(Some(base_path)) => {
                    self.sent.unchanged += 1;
                    LeadsTo::Unchanged { inode, base_path }
                }
                _ => {
                    data = is_file || attributes.kind() == FileKind::Symlink;
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
        if data {
            self.data(name.ino, path)?;
        }
        Ok(())
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

    /// Note a file for the manifest; where the base has its data.
    fn unchanged(&mut self, attributes: &Attributes, path: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let log_end = self.snapshot.log_end(attributes.ino);
        let now = Known::of(
            attributes,
            log_end.map_err(|errno| failed(errno, path))?,
            path,
        );
        let known = self.base.get(&now.ino);
        let same = known.filter(|known| known.is_same(&now));
        let base_path = same.map(|known| known.path.clone());
        self.sent.known.push(now);
        Ok(base_path)
    }

    fn data(&mut self, ino: InodeNumber, path: &[u8]) -> Outcome<()> {
        let snapshot = self.snapshot;
        let file = snapshot.file(ino).map_err(|errno| failed(errno, path))?;
        let mut at = 0;
        while let Some(range) = file.data_from(at) {
            let length = (range.end - range.start).min(DATA_BYTES as u64) as usize;
            let read = snapshot.read(&file, range.start, &mut self.buffer[..length]);
            let read = read.map_err(|errno| failed(errno, path))?;
            self.writer.frame(&Frame::Data {
                offset_bytes: range.start,
                bytes: self.buffer[..read].to_vec(),
            })?;
            self.sent.data_bytes += read as u64;
            at = range.start + read as u64;
            if read == 0 {
                break;
            }
        }
        Ok(())
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
