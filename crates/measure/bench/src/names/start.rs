//! Starts a worker at a place.

use std::path::Path;
use std::time::Duration;

use egeria_harness::{Error, Result};

use super::worker::{Reply, Request};
use crate::programs::worker::Worker;
use crate::subjects::{Places, Subject};

/// How long a worker may take for one request: filling a directory makes 100,000 names.
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn start(program: &Path, places: &Places, subject: Subject) -> Result<Worker> {
    let mut command = places.command(subject, program);
    command.arg(places.directory(subject));
    let mut worker = Worker::start(&mut command, subject.name(), PATIENCE)?;
    worker.ask::<Reply>(&Request::Hello, None)?;
    let is_loaded = maps(worker.process_id, places.library());
    if is_loaded != (subject == Subject::Run) {
        let name = subject.name();
        return Err(Error::failed(format!(
            "measuring {name}: the preload library is {}loaded; unset LD_PRELOAD and see /etc/ld.so.preload",
            if is_loaded { "" } else { "not " }
        )));
    }
    Ok(worker)
}

/// Whether a process has a library loaded.
fn maps(process: u32, library: &Path) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let library = library
        .canonicalize()
        .unwrap_or_else(|_| library.to_owned());
    maps.contains(&*library.to_string_lossy())
}
