//! Files that are there all at once, at the end of long work, or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use egeria_cli::failure::{Failure, Outcome};
use egeria_files::Way;
use tempfile::NamedTempFile;

/// For all that the umask allows.
const MODE: u32 = 0o666;
/// For this user alone.
const PRIVATE_MODE: u32 = 0o600;

const NO_ROOM: &str = "free some space, or name another file";

/// A file to be written at the end. What is there already stays until then.
pub(super) struct WholeFile {
    path: PathBuf,
    file: NamedTempFile,
    way: Way,
}

impl WholeFile {
    /// Checks that it can be written, before the work begins.
    ///
    /// # Errors
    /// When it is something else than a file, or its directory cannot be written.
    pub(super) fn open(path: &Path) -> Outcome<WholeFile> {
        WholeFile::open_as(path, MODE)
    }

    /// The same for a file that only this user may read.
    ///
    /// # Errors
    /// As for [`WholeFile::open`].
    pub(super) fn open_private(path: &Path) -> Outcome<WholeFile> {
        WholeFile::open_as(path, PRIVATE_MODE)
    }

    fn open_as(path: &Path, mode: u32) -> Outcome<WholeFile> {
        let hint = "name a file in a directory you may write to";
        let fault = |error: &io::Error| Failure::io("write", path, error, hint);
        let is_other = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        if is_other || path.file_name().is_none() {
            let shown = path.display();
            return Err(Failure::new(format!(
                "{shown} is not a file; name one that can be written"
            )));
        }
        let way = Way::to(path).map_err(|error| fault(&error))?;
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix(".egeria-");
        let file = builder
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(way.directory());
        Ok(WholeFile {
            path: path.to_owned(),
            file: file.map_err(|error| fault(&error))?,
            way,
        })
    }

    /// Writes all of it, in place of what is there.
    ///
    /// # Errors
    /// When there is no room.
    pub(super) fn write(mut self, text: &str) -> Outcome {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| Failure::io("write", &self.path, &error, NO_ROOM))?;
        self.keep()
    }

    /// What is written to, in parts.
    pub(super) fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Puts what was written in place of what is there.
    ///
    /// # Errors
    /// When there is no room.
    pub(super) fn keep(self) -> Outcome {
        let kept = self.file.persist(self.way.path());
        kept.map_err(|error| Failure::io("write", &self.path, &error.error, NO_ROOM))?;
        Ok(())
    }
}
