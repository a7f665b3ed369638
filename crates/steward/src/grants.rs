//! What was taken from threads and must be given back: a file, so that it survives us.
//!
//! A line is written before the thread is narrowed, so whoever finds the file knows at least every thread
//! that was. The file is locked while its steward lives; the lock goes with the process, and so an
//! unlocked file with lines is a steward's that was killed: its threads are put back first.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use egeria_watch::{own, task};
use egeria_window::{CpuSet, ThreadKey};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Result, StewardError};
use crate::place;

/// More lines than this are not a grants file.
const MOST_LINES: usize = 1 << 20;

/// One thread narrowed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) thread: ThreadKey,
    /// What its owner gave it.
    pub(crate) given: CpuSet,
    /// What it was narrowed to.
    pub(crate) narrowed: CpuSet,
}

#[derive(Serialize, Deserialize)]
struct Head {
    steward: u32,
    log: PathBuf,
}

/// The file, locked.
pub(crate) struct Grants {
    file: File,
    path: PathBuf,
    head: Head,
}

impl Grants {
    /// Take the file of a volume; put back what a dead steward left. Answers how many threads that were.
    pub(crate) fn take(volume: Uuid, log: &Path) -> Result<(Grants, usize)> {
        let path = place::make_runtime_directory()?.join(place::grants_name(volume));
        let failed = |what| {
            let path = path.clone();
            move |error| StewardError::File {
                what,
                path,
                error,
                mend: "set EGERIA_RUNTIME_DIR to a directory you may write to",
            }
        };
        let mut file = open(&path).map_err(failed("open"))?;
        let mut locked = try_lock(&file).map_err(failed("lock"))?;
        // Who just stopped may have removed it between our opening and our lock.
        while locked && !is_at(&file, &path) {
            file = open(&path).map_err(failed("open"))?;
            locked = try_lock(&file).map_err(failed("lock"))?;
        }
        if !locked {
            let head = read(&file).0;
            return Err(StewardError::Running {
                process_id: head.as_ref().map_or(0, |head| head.steward),
                log: head.map_or_else(PathBuf::new, |head| head.log),
            });
        }
        let left = read(&file).1;
        let restored = left.iter().rev().filter(|grant| put_back(grant)).count();
        let mut grants = Grants {
            file,
            path: path.clone(),
            head: Head {
                steward: std::process::id(),
                log: log.to_owned(),
            },
        };
        grants.clear().map_err(failed("write"))?;
        Ok((grants, restored))
    }

    /// Note a thread that is about to be narrowed.
    pub(crate) fn add(&mut self, grant: &Grant) -> io::Result<()> {
        write_line(&mut self.file, grant)
    }

    /// Nothing is narrowed any more.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        write_line(&mut self.file, &self.head)
    }

    /// In order: nobody needs the file.
    pub(crate) fn remove(self) {
        // Under the lock: who locks it later sees that it has lost its name.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = own::open(path)?;
    own::close_to_others(&file)?;
    Ok(file)
}

/// Whether the path still names this file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(own), Ok(named)) => (own.dev(), own.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// One write per line: a kill leaves whole lines, or none of the last.
fn write_line(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    file.write_all(text.as_bytes())
}

fn read(file: &File) -> (Option<Head>, Vec<Grant>) {
    let mut lines = BufReader::new(file)
        .lines()
        .take(MOST_LINES)
        .map_while(io::Result::ok);
    let head = lines
        .next()
        .and_then(|line| serde_json::from_str(&line).ok());
    let grants = lines.filter_map(|line| serde_json::from_str(&line).ok());
    (head, grants.collect())
}

/// Give a thread back what its owner gave it, if it is still that thread and still as we made it.
pub(crate) fn put_back(grant: &Grant) -> bool {
    let key = grant.thread;
    let ours = || task::affinity(key.thread_id).is_ok_and(|now| now == grant.narrowed);
    task::is_still(key) && ours() && task::set_affinity(key.thread_id, &grant.given).is_ok()
}

fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_lost_its_name_is_not_the_volume_s() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("grants");
        let early = open(&path).unwrap();
        assert!(is_at(&early, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&early, &path));
        let late = open(&path).unwrap();
        assert!(is_at(&late, &path) && !is_at(&early, &path));
    }
}
