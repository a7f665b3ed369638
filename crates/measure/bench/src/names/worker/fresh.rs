//! Names in a new directory: all made, each renamed once, all removed.

use std::io;
use std::path::Path;

use super::calls::{create, path, rename, timed, unlink};
use crate::names::plan::FRESH;
use crate::programs::worker;

/// The directory below a worker's own.
const DIRECTORY: &str = "fresh";

/// Time of one call of each of [`FRESH`], ns.
pub(super) fn measure(root: &Path, entries: usize) -> io::Result<[f64; FRESH.len()]> {
    let directory = root.join(DIRECTORY);
    std::fs::create_dir(&directory)?;
    let figures = worker::in_threads(1, |_, _| measure_in(&directory, entries))?;
    std::fs::remove_dir(&directory)?;
    let first = figures.first().copied();
    first.ok_or_else(|| io::Error::other("no thread was started"))
}

fn measure_in(directory: &Path, entries: usize) -> io::Result<[f64; FRESH.len()]> {
    let named = |kind: &str| -> io::Result<Vec<_>> {
        let name = |number| directory.join(format!("{kind}{number:06}"));
        (0..entries).map(|number| path(&name(number))).collect()
    };
    let (names, others) = (named("name")?, named("other")?);
    let mut to = others.iter();
    let paces = [
        timed(&names, create)?,
        timed(&names, |from| {
            to.next().map_or(Ok(()), |to| rename(from, to))
        })?,
        timed(&others, unlink)?,
    ];
    Ok(paces.map(|pace| pace.time.as_nanos() as f64 / pace.calls as f64))
}
