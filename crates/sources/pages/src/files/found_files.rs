//! Files that were found in use, for code that acts on them.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egeria_facts::FileKey;
use egeria_proc::living;

use crate::files::relatives;
use crate::files::users;
use crate::kernel::borrowed;
use crate::kernel::mount;

/// Files by the keys that facts give them. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct FoundFiles(Arc<Mutex<HashMap<FileKey, FoundFile>>>);

/// How a file is reached.
#[derive(Clone, Debug)]
pub(crate) struct FoundFile {
    /// Its path when it was found.
    pub(crate) path: PathBuf,
    /// The process that has it open, and by which descriptor.
    pub(crate) process_id: u32,
    pub(crate) descriptor: u32,
    /// What began this process, what began that one, and so on: others below may open the file when it has ended.
    pub(crate) ancestors: [u32; 4],
    /// Device and inode that the kernel counts it by.
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    /// Device and inode as `stat` says.
    pub(crate) identity: (u64, u64),
    /// Windows since it was found last.
    pub(crate) age: u32,
    /// Opened since it was found last, so its pages may have moved.
    pub(crate) was_opened: bool,
}

/// Windows for which a file is remembered: not every window sees all processes.
const MAX_AGE: u32 = 10;

/// The link of a process to what it has open.
pub(crate) fn link_of(process_id: u32, descriptor: u32) -> PathBuf {
    living::path(process_id, &format!("fd/{descriptor}"))
}

impl FoundFiles {
    /// The path of a file when a process had it open.
    pub fn path(&self, file: FileKey) -> Option<PathBuf> {
        self.all().get(&file).map(|found| found.path.clone())
    }

    /// Opens a file for looking and moving its pages.
    ///
    /// # Errors
    /// `ENOENT` when it was not found, or when the descriptor is another file by now; errors of opening.
    pub fn open(&self, file: FileKey) -> io::Result<File> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let found = self.all().get_mut(&file).map(|found| {
            found.was_opened = true;
            found.clone()
        });
        let found = found.ok_or_else(gone)?;
        found.open().or_else(|_| {
            let opener = relatives::opener(&found.ancestors, found.inode);
            let (process_id, descriptor) = opener.ok_or_else(gone)?;
            let found = FoundFile {
                process_id,
                descriptor,
                ..found
            };
            let opened = found.open()?;
            self.all().insert(file, found);
            Ok(opened)
        })
    }

    /// Whether a file was opened since it was found last.
    pub(crate) fn was_opened(&self, file: FileKey) -> bool {
        self.all().get(&file).is_some_and(|found| found.was_opened)
    }

    /// Keeps the files of a window; files of earlier windows are kept for a while.
    pub(crate) fn keep(&self, found: HashMap<FileKey, FoundFile>) {
        let mut all = self.all();
        all.retain(|_, file| {
            file.age += 1;
            file.age < MAX_AGE
        });
        all.extend(found);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<FileKey, FoundFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FoundFile {
    /// The file, if the process has it open still.
    fn open(&self) -> io::Result<File> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        // The path could be on a file system that another user serves, which may never answer. So could the
        // descriptor, if it is another file by now.
        let is_it = users::open_as(self.process_id, self.descriptor)
            .is_some_and(|open| open.inode == self.inode);
        if !is_it || !mount::answers(self.process_id, self.device) {
            return Err(gone());
        }
        let opened = borrowed::file(self.process_id, self.descriptor)?;
        if identity_of(&opened)? == self.identity {
            Ok(opened)
        } else {
            Err(gone())
        }
    }
}

/// Device and inode as `stat` says.
pub(crate) fn identity_of(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_remembered_for_some_windows() {
        let found = FoundFile {
            path: PathBuf::from("/a"),
            process_id: 1,
            descriptor: 0,
            ancestors: [0; 4],
            device: (0, 0),
            inode: 1,
            identity: (0, 1),
            age: 0,
            was_opened: false,
        };
        let (files, key) = (FoundFiles::default(), FileKey::default());
        let seen = || HashMap::from([(key, found.clone())]);
        files.keep(seen());
        for _ in 1..MAX_AGE {
            files.keep(HashMap::new());
            assert!(files.path(key).is_some());
        }
        // Found again: its age is 0.
        files.keep(seen());
        for _ in 1..MAX_AGE {
            files.keep(HashMap::new());
        }
        assert!(files.path(key).is_some());
        files.keep(HashMap::new());
        assert!(files.path(key).is_none());
    }
}
