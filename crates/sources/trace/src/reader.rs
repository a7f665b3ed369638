//! Reading a recording.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufReader, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use egeria_facts::{FactSource, Facts};
use egeria_machine::Machine;

use crate::codec::{self, Damage, Dictionary};
use crate::frame::{self, Next};
use crate::header::{self, TraceHeader};
use crate::{
    KIND_END, KIND_HEADER, KIND_WINDOW, MAGIC, MAX_FRAME_BYTES, MAX_HEADER_BYTES, TraceError,
    VERSION,
};

/// Opening must not wait for the other end of a pipe.
const DO_NOT_WAIT: i32 = libc::O_NONBLOCK;

/// How a recording ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Its recorder finished it.
    Finished,
    /// Its recorder is still at it.
    StillRecording,
    /// Its recorder was killed between two windows.
    Unfinished,
    /// Its recorder was killed within a window, or the file was cut: the last bytes are of no use.
    Cut {
        /// Bytes behind the last whole frame.
        lost_bytes: u64,
    },
}

/// Reads a recording: its header at once, its windows one by one.
///
/// An iterator over the facts of windows, each valid on [`Reader::machine`]; after an error there are no more.
pub struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    header: TraceHeader,
    machine: Machine,
    last: Dictionary,
    buffer: Vec<u8>,
    frames: u64,
    windows: u64,
    state: State,
}

enum State {
    Reading,
    Ended(Ending),
    Failed,
}

impl Reader {
    /// Opens a recording and reads its header.
    ///
    /// # Errors
    /// When it is no regular file, cannot be read, is no trace, is too new, or its header is cut
    /// or damaged.
    pub fn open(path: &Path) -> Result<Reader, TraceError> {
        let mut file = BufReader::new(open(path)?);
        check_start(path, &mut file)?;
        let mut buffer = Vec::new();
        let damaged = |what: String| TraceError::Damaged {
            path: path.to_owned(),
            windows: 0,
            what,
        };
        let next = frame::read(&mut file, 0, MAX_HEADER_BYTES, &mut buffer);
        match next.map_err(|error| TraceError::read(path, error))? {
            Next::Frame => {}
            Next::End | Next::Cut(_) => {
                return Err(TraceError::CutHeader {
                    path: path.to_owned(),
                });
            }
            Next::Damaged(what) => return Err(damaged(what)),
        }
        let header = match buffer.split_first() {
            Some((&KIND_HEADER, document)) => header::read(document, path),
            _ => Err(Damage::new("it does not begin with a header")),
        };
        let (header, machine) = header.map_err(|Damage(what)| damaged(what))?;
        Ok(Reader {
            path: path.to_owned(),
            file,
            header,
            machine,
            last: Dictionary::default(),
            buffer,
            frames: 1,
            windows: 0,
            state: State::Reading,
        })
    }

    /// What was recorded.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// The machine it was recorded on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Windows read so far.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// How the recording ends, once all windows were read.
    pub fn ending(&self) -> Option<Ending> {
        match self.state {
            State::Ended(ending) => Some(ending),
            State::Reading | State::Failed => None,
        }
    }

    /// What is worth telling about how it ends: one line, once all windows were read.
    pub fn warning(&self) -> Option<String> {
        let (path, windows) = (self.path.display(), self.windows);
        let whole = format!("the {windows} windows before that are whole");
        match self.ending()? {
            Ending::Finished => None,
            Ending::StillRecording => Some(format!(
                "{path} is still being recorded; these are its first {windows} windows"
            )),
            Ending::Unfinished => Some(format!(
                "{path} was not finished, its recorder was killed; {whole}"
            )),
            Ending::Cut { lost_bytes } => Some(format!(
                "{path} is cut: its last {lost_bytes} bytes are part of a window; {whole}"
            )),
        }
    }

    fn next_window(&mut self) -> Result<Option<Facts>, TraceError> {
        let next = frame::read(
            &mut self.file,
            self.frames,
            MAX_FRAME_BYTES,
            &mut self.buffer,
        );
        match next.map_err(|error| TraceError::read(&self.path, error))? {
            Next::Frame => self.frames += 1,
            Next::End => return Ok(self.end(Ending::Unfinished)),
            Next::Cut(lost_bytes) => return Ok(self.end(Ending::Cut { lost_bytes })),
            Next::Damaged(what) => return Err(self.damaged(what)),
        }
        match self.buffer.split_first() {
            Some((&KIND_WINDOW, _)) => {
                let facts = self.last.unpack(&self.buffer);
                let facts = facts.map_err(|Damage(what)| self.damaged(what))?;
                self.check(&facts)?;
                self.windows += 1;
                Ok(Some(facts))
            }
            Some((&KIND_END, _)) => self.last_frame(),
            _ => Err(self.damaged("a frame of unknown kind".to_owned())),
        }
    }

    fn check(&self, facts: &Facts) -> Result<(), TraceError> {
        let checked = facts.validate(&self.machine);
        checked.map_err(|source| TraceError::BadWindow {
            path: self.path.clone(),
            source,
        })
    }

    /// The last frame counts the windows, and nothing follows it.
    fn last_frame(&mut self) -> Result<Option<Facts>, TraceError> {
        let counted = codec::whole(&self.buffer[1..], "its end");
        let counted: u64 = counted.map_err(|Damage(what)| self.damaged(what))?;
        if counted != self.windows {
            return Err(self.damaged(format!("{counted} windows were recorded")));
        }
        match self.file.read(&mut [0]) {
            Ok(0) => Ok(self.end(Ending::Finished)),
            Ok(_) => Err(self.damaged("something follows its end".to_owned())),
            Err(error) => Err(TraceError::read(&self.path, error)),
        }
    }

    fn end(&mut self, ending: Ending) -> Option<Facts> {
        self.state = State::Ended(match ending {
            Ending::Finished => Ending::Finished,
            _ if is_recorded(self.file.get_ref()) => Ending::StillRecording,
            _ => ending,
        });
        None
    }

    fn damaged(&self, what: String) -> TraceError {
        TraceError::Damaged {
            path: self.path.clone(),
            windows: self.windows,
            what,
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Facts, TraceError>;

    fn next(&mut self) -> Option<Result<Facts, TraceError>> {
        if !matches!(self.state, State::Reading) {
            return None;
        }
        let next = self.next_window();
        if next.is_err() {
            self.state = State::Failed;
        }
        next.transpose()
    }
}

impl FactSource for Reader {
    type Error = TraceError;

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, TraceError> {
        self.next().transpose()
    }
}

fn open(path: &Path) -> Result<File, TraceError> {
    let failed = |error| TraceError::read(path, error);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(DO_NOT_WAIT)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let what = match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a pipe",
        _ => "a device",
    };
    Err(TraceError::NoFile {
        path: path.to_owned(),
        what,
    })
}

/// Whether a [`crate::Writer`] holds its lock.
fn is_recorded(file: &File) -> bool {
    match file.try_lock_shared() {
        // Kept, it would keep the next recorder out.
        Ok(()) => file.unlock().is_err(),
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

/// Magic and version.
fn check_start(path: &Path, file: &mut impl Read) -> Result<(), TraceError> {
    let path = || path.to_owned();
    let mut start = Vec::new();
    let length = MAGIC.len() + size_of::<u32>();
    let read = file.take(length as u64).read_to_end(&mut start);
    read.map_err(|error| TraceError::read(&path(), error))?;
    if start.is_empty() {
        return Err(TraceError::Empty { path: path() });
    }
    let (magic, version) = start.split_at(start.len().min(MAGIC.len()));
    if !MAGIC.starts_with(magic) {
        return Err(TraceError::NoTrace { path: path() });
    }
    let Ok(version) = version.try_into().map(u32::from_le_bytes) else {
        return Err(TraceError::CutHeader { path: path() });
    };
    match version {
        VERSION => Ok(()),
        0 => Err(TraceError::NoTrace { path: path() }),
        _ => Err(TraceError::OtherVersion {
            path: path(),
            version,
        }),
    }
}
