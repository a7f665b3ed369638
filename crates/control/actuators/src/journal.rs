//! The journal: which masks were applied to threads, with the original ones, and which threads were put into a group with
//! less bandwidth, and whether DAMON was set up. It is a file, so that it survives its writer.
//!
//! A line is written before what it says is done, so the file lists at least everything that was done. The file is locked
//! while its writer lives, and the lock ends with the process. So an unlocked file with lines was left by a steward
//! that was killed, and its threads are restored first.

use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// More lines than this are not a journal.
const MAX_LINES: usize = 1 << 20;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Its writer is still running.
    #[error("process {process_id} writes it")]
    Running {
        process_id: u32,
        /// Its decision log.
        log: PathBuf,
    },
    /// The file cannot be opened, locked or written.
    #[error("cannot {what} {}: {error}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        error: io::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct Head {
    steward: u32,
    #[serde(with = "egeria_machine::exact_path")]
    log: PathBuf,
}

/// The file, locked. Copies write into the same file.
#[derive(Clone, Debug)]
pub struct Journal {
    file: Arc<File>,
    path: PathBuf,
}

impl Journal {
    /// Locks the file, lets `undo` undo what a killed steward left in it, and begins it. `undo` gets the lines that were
    /// left, and writes lines of its own behind them; it returns how many threads it restored, as this does. `log` is
    /// where this process writes its decisions.
    ///
    /// # Errors
    /// When its writer is still running, or the file cannot be opened, locked or written.
    pub(crate) fn open_with(
        path: &Path,
        log: &Path,
        undo: impl FnOnce(&[String], &dyn Fn(&str)) -> usize,
    ) -> Result<(Journal, usize), JournalError> {
        let failed = |what| {
            let path = path.to_owned();
            move |error| JournalError::File { what, path, error }
        };
        let mut file = open(path).map_err(failed("open"))?;
        let mut locked = try_lock(&file).map_err(failed("lock"))?;
        // A process that just stopped may have removed the file between opening and locking here.
        while locked && !is_at(&file, path) {
            file = open(path).map_err(failed("open"))?;
            locked = try_lock(&file).map_err(failed("lock"))?;
        }
        if !locked {
            let head = read(&file).0;
            return Err(JournalError::Running {
                process_id: head.as_ref().map_or(0, |head| head.steward),
                log: head.map_or_else(PathBuf::new, |head| head.log),
            });
        }
        let (_, left) = read(&file);
        // Behind the last line: this process may be killed as well.
        let end = (&file).seek(SeekFrom::End(0));
        end.map_err(failed("read"))?;
        let restored = undo(&left, &|line| {
            let _ = (&file).write_all(format!("{line}\n").as_bytes());
        });
        let head = Head {
            steward: std::process::id(),
            log: log.to_owned(),
        };
        let path = path.to_owned();
        let journal = Journal {
            file: Arc::new(file),
            path,
        };
        let begun = journal.begin(&head);
        begun.map_err(|error| JournalError::File {
            what: "write",
            path: journal.path.clone(),
            error,
        })?;
        Ok((journal, restored))
    }

    /// Records what is about to be done: a mask, or a change of a group or of what observes.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn add(&self, line: &impl Serialize) -> io::Result<()> {
        write_line(&self.file, line)
    }

    /// Empties the file: no mask is applied.
    fn begin(&self, head: &Head) -> io::Result<()> {
        self.file.set_len(0)?;
        (&*self.file).rewind()?;
        write_line(&self.file, head)
    }

    /// Removes the file: nothing is left to undo.
    pub fn remove(self) {
        // Under the lock: a process that locks the file later sees that it has lost its name.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = egeria_files::open(path)?;
    egeria_files::close_to_others(&file)?;
    Ok(file)
}

/// Whether the path still names this file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(own), Ok(named)) => (own.dev(), own.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// One write per line: a kill leaves only whole lines.
fn write_line(mut file: &File, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    file.write_all(text.as_bytes())
}

/// The first line, and the others.
fn read(file: &File) -> (Option<Head>, Vec<String>) {
    let mut lines = BufReader::new(file)
        .lines()
        .take(MAX_LINES)
        .map_while(io::Result::ok);
    let head = lines
        .next()
        .and_then(|line| serde_json::from_str(&line).ok());
    (head, lines.collect())
}

fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_lost_its_name_is_not_the_journal() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("journal");
        let early = open(&path).unwrap();
        assert!(is_at(&early, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&early, &path));
        let late = open(&path).unwrap();
        assert!(is_at(&late, &path) && !is_at(&early, &path));
    }
}
