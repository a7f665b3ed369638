//! Recording.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use egeria_facts::Facts;
use egeria_machine::Machine;

use crate::codec::Dictionary;
use crate::header::{self, TraceHeader};
use crate::{KIND_END, KIND_HEADER, MAGIC, MAX_HEADER_BYTES, TraceError, VERSION, frame};

/// Records windows to a file.
///
/// Each window is one write, so a killed recorder loses at most the window under way; a crash of
/// the machine may lose more. Without [`Writer::finish`] readers say that the recording is
/// unfinished.
pub struct Writer {
    path: PathBuf,
    file: File,
    machine: Machine,
    last: Dictionary,
    /// End of the last whole frame.
    end_bytes: u64,
    frames: u64,
    windows: u64,
}

impl Writer {
    /// Begins a recording. A trace that is there already is replaced; any other file that is not
    /// empty is left alone.
    ///
    /// # Errors
    /// When the file cannot be written, holds something else, or is being recorded to.
    pub fn create(
        path: &Path,
        machine: &Machine,
        header: &TraceHeader,
    ) -> Result<Writer, TraceError> {
        let file = open(path)?;
        let mut writer = Writer {
            path: path.to_owned(),
            file,
            machine: machine.clone(),
            last: Dictionary::default(),
            end_bytes: 0,
            frames: 0,
            windows: 0,
        };
        let mut start = MAGIC.to_vec();
        start.extend_from_slice(&VERSION.to_le_bytes());
        writer.write(&start)?;
        let mut payload = vec![KIND_HEADER];
        payload.append(&mut header::write(header, machine));
        if payload.len() > MAX_HEADER_BYTES {
            return Err(TraceError::write(path, ErrorKind::FileTooLarge.into()));
        }
        writer.append_frame(&payload)?;
        Ok(writer)
    }

    /// Records the facts of a window.
    ///
    /// # Errors
    /// When the facts are not [valid](Facts::validate) on the recording's machine, too large, or
    /// the file cannot be written. What was recorded before stays whole, and later windows may be
    /// appended.
    pub fn append(&mut self, facts: &Facts) -> Result<(), TraceError> {
        facts
            .validate(&self.machine)
            .map_err(|source| TraceError::BadWindow {
                path: self.path.clone(),
                source,
            })?;
        let packed = self.last.pack(facts);
        let (payload, next) = packed.map_err(|what| TraceError::Unrecordable {
            window: facts.window.number,
            what,
            hint: "watch fewer threads",
        })?;
        self.append_frame(&payload)?;
        self.last = next;
        self.windows += 1;
        Ok(())
    }

    /// Windows recorded so far.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Length of the recording so far, bytes.
    pub fn bytes(&self) -> u64 {
        self.end_bytes
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the recording and makes it durable.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self) -> Result<(), TraceError> {
        let mut payload = vec![KIND_END];
        payload = postcard::to_extend(&self.windows, payload).expect("a Vec takes every number");
        self.append_frame(&payload)?;
        let synced = self.file.sync_data();
        synced.map_err(|error| TraceError::write(&self.path, error))
    }

    /// With one write, so that a kill leaves all of it or nothing.
    fn append_frame(&mut self, payload: &[u8]) -> Result<(), TraceError> {
        self.write(&frame::seal(self.frames, payload))?;
        self.frames += 1;
        Ok(())
    }

    /// All of it, or the file stays as it was.
    fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        if let Err(error) = self.file.write_all_at(bytes, self.end_bytes) {
            // If this fails too, readers see a frame that was cut: no frame before is lost.
            let _ = self.file.set_len(self.end_bytes);
            return Err(TraceError::write(&self.path, error));
        }
        self.end_bytes += bytes.len() as u64;
        Ok(())
    }
}

/// The file, ours alone and empty.
fn open(path: &Path) -> Result<File, TraceError> {
    let failed = |error| TraceError::write(path, error);
    let occupied = || TraceError::Occupied {
        path: path.to_owned(),
    };
    let mut file = egeria_files::open(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => occupied(),
        _ => failed(error),
    })?;
    let metadata = file.metadata().map_err(failed)?;
    match lock_soon(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(TraceError::InUse {
                path: path.to_owned(),
            });
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    if metadata.len() > 0 {
        let mut start = [0; MAGIC.len()];
        let read = file.read_exact(&mut start);
        if read.is_err() || start != MAGIC {
            return Err(occupied());
        }
    }
    // It names programs and threads.
    egeria_files::close_to_others(&file).map_err(failed)?;
    file.set_len(0).map_err(failed)?;
    Ok(file)
}

/// Lock the file. A child that this process has just forked keeps a closed file locked until it executes another
/// program; that takes only a moment.
fn lock_soon(file: &File) -> Result<(), TryLockError> {
    const LOOKS: u32 = 20;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
    for _ in 0..LOOKS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
    file.try_lock()
}
