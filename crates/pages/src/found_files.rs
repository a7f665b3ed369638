//! Files that were found in use, for whoever acts on them.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egeria_facts::FileKey;

use crate::{file, mount};

/// Files by the keys that facts give them. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct FoundFiles(Arc<Mutex<HashMap<FileKey, FoundFile>>>);

/// How a file is reached.
#[derive(Clone, Debug)]
pub(crate) struct FoundFile {
    /// What it was called.
    pub(crate) path: PathBuf,
    /// The process that has it open, and its link to the file in `/proc`.
    pub(crate) process_id: u32,
    pub(crate) link: PathBuf,
    /// The device that the kernel counts it by.
    pub(crate) device: (u32, u32),
    /// Device and inode as `stat` says.
    pub(crate) identity: (u64, u64),
}

impl FoundFiles {
    /// What a file was called when somebody had it open.
    pub fn path(&self, file: FileKey) -> Option<PathBuf> {
        self.all().get(&file).map(|found| found.path.clone())
    }

    /// Opens a file for looking and moving its pages.
    ///
    /// # Errors
    /// `ENOENT` when it was not found, or the process that had it open has another one by now; what opening fails with.
    pub fn open(&self, file: FileKey) -> io::Result<File> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let found = self.all().get(&file).cloned().ok_or_else(gone)?;
        // By its path it could be asked of a file system that another user serves.
        if !mount::answers(found.process_id, found.device) {
            return Err(gone());
        }
        let opened = file::open(&found.link)?;
        match identity_of(&opened)? == found.identity {
            true => Ok(opened),
            false => Err(gone()),
        }
    }

    pub(crate) fn keep(&self, all: HashMap<FileKey, FoundFile>) {
        *self.all() = all;
    }

    fn all(&self) -> MutexGuard<'_, HashMap<FileKey, FoundFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Device and inode as `stat` says.
pub(crate) fn identity_of(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The link of a process to what it has open.
pub(crate) fn link_of(process_id: u32, descriptor: u32) -> PathBuf {
    Path::new("/proc").join(format!("{process_id}/fd/{descriptor}"))
}
