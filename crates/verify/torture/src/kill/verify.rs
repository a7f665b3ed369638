//! What must hold, given how many steps of each worker returned.

use super::engine::{DIRECTORY, FILE};
use super::files::{CHECKSUMS, STRIPES, attributes_of};
use super::ledger::{DONE, Ledger};
use super::oracle::Oracle;
use super::plan::*;
use super::worker::{FIELD_BYTES, RECORD_HEADER, check_field, elastic_byte, word};
use egeria_engine::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// Nothing, or what is not as it must be.
pub type Verdict<T = ()> = Result<T, String>;

/// What everybody uses.
#[derive(Clone, Copy)]
pub struct Commons {
    log: InodeNumber,
    table: InodeNumber,
    elastic: InodeNumber,
    names: InodeNumber,
    rooms: [InodeNumber; ROOMS as usize],
}

impl Commons {
    /// Make them on an empty volume.
    pub fn make(volume: &Volume) -> Outcome<Commons> {
        let root = InodeNumber::ROOT;
        let new = |name: &str, new: &NewInode| {
            let made = volume.create(root, name.as_bytes(), new);
            made.map(|made| made.ino)
        };
        let mut rooms = [root; ROOMS as usize];
        for (room, ino) in rooms.iter_mut().enumerate() {
            *ino = new(&format!("room{room}"), &DIRECTORY)?;
        }
        for token in 0..TOKENS {
            // Every second one is a directory.
            let kind = if token % 2 == 0 { &FILE } else { &DIRECTORY };
            volume.create(rooms[0], format!("token{token}").as_bytes(), kind)?;
        }
        let log = new("log", &FILE)?;
        // Of the others' data some has checksums, like that of every second worker, and some is striped.
        for (name, value) in [CHECKSUMS, STRIPES] {
            volume.set_xattr(root, name.to_bytes(), value, XattrMode::Any)?;
        }
        let elastic = new("elastic", &FILE)?;
        volume.remove_xattr(root, STRIPES.0.to_bytes())?;
        let table = new("table", &FILE)?;
        volume.remove_xattr(root, CHECKSUMS.0.to_bytes())?;
        Ok(Commons {
            log,
            table,
            elastic,
            names: new("names", &DIRECTORY)?,
            rooms,
        })
    }
}

/// Whether writes of a worker to its own files may be there in part when it dies.
fn is_written_in_place(id: u64) -> bool {
    attributes_of(id).eq([STRIPES])
}

/// A worker that is no more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ended {
    /// Number of the worker.
    pub id: u64,
    /// Steps that returned.
    pub steps: u64,
    /// One more may have happened.
    pub killed: bool,
    /// A part of it may have happened if it was a write.
    pub splits: bool,
}

impl Ended {
    /// How a worker ended, of which nothing runs any more.
    pub fn of(ledger: &Ledger, id: u64) -> Ended {
        let page = ledger.page(id);
        Ended {
            id,
            steps: page.steps.load(Ordering::Acquire),
            killed: page.state.load(Ordering::Acquire) != DONE,
            splits: page.splits.load(Ordering::Acquire) != 0,
        }
    }

    fn last_steps(self) -> impl Iterator<Item = u64> {
        self.steps..=self.steps + u64::from(self.killed)
    }
}

fn told<T>(what: &str, outcome: Outcome<T>) -> Verdict<T> {
    outcome.map_err(|errno| format!("{what}: {errno}"))
}

fn read_all(volume: &Volume, ino: InodeNumber) -> Verdict<Vec<u8>> {
    let file = told("open", volume.open(ino, None))?;
    let size = told("size", volume.size_bytes(file))? as usize;
    let mut data = vec![0xEE; size];
    let read = told("read", volume.read(file, 0, &mut data))?;
    volume.close(ino);
    if read == size {
        Ok(data)
    } else {
        Err(format!("{read} of {size} bytes were read"))
    }
}

/// Names and inodes of a directory.
pub fn list(
    volume: &Volume,
    directory: InodeNumber,
) -> Verdict<Vec<(String, InodeNumber, FileKind)>> {
    let mut all = Vec::new();
    let mut each = |entry: &DirectoryEntry<'_>| {
        if !matches!(entry.name, b"." | b"..") {
            let name = String::from_utf8_lossy(entry.name).into_owned();
            all.push((name, entry.ino, entry.kind));
        }
        true
    };
    told("readdir", volume.read_directory(directory, 0, &mut each))?;
    let unique: BTreeSet<_> = all.iter().map(|(name, ..)| name).collect();
    if unique.len() == all.len() {
        Ok(all)
    } else {
        Err(format!("a name is listed twice: {all:?}"))
    }
}

/// Name and inode of a worker's directory, when it has one.
pub fn home(volume: &Volume, ended: Ended) -> Verdict<Option<(String, InodeNumber)>> {
    let name = format!("w{}", ended.id);
    match volume.lookup(InodeNumber::ROOT, name.as_bytes()) {
        Ok(found) => Ok(Some((name, found.ino))),
        Err(Errno(libc::ENOENT)) if ended.steps == 0 && ended.killed => Ok(None),
        Err(errno) => Err(format!("{name}: {errno}")),
    }
}

fn found_in(volume: &Volume, home: InodeNumber) -> Verdict<Oracle> {
    let mut found = Oracle::default();
    let mut numbers = BTreeMap::new();
    let names = list(volume, home)?;
    for (name, ino, kind) in &names {
        let number = name[1..].parse();
        let number = number.map_err(|_| format!("a name of nobody: {name}"))?;
        if *kind == FileKind::Directory {
            found.directories.insert(number);
            continue;
        }
        if let std::collections::btree_map::Entry::Vacant(place) = numbers.entry(*ino) {
            place.insert(found.files.len());
            found.files.push(read_all(volume, *ino)?);
        }
        found.names.insert(number, numbers[ino]);
        let nlink = told("attributes", volume.attributes(*ino))?.nlink as usize;
        let links = names.iter().filter(|(_, other, _)| other == ino).count();
        if nlink != links {
            return Err(format!("{name} has {links} names, its inode says {nlink}"));
        }
    }
    Ok(found)
}

fn brief(oracle: &Oracle) -> String {
    let picture = oracle.picture();
    let files = picture
        .iter()
        .map(|(name, alias, data)| (*name, *alias, data.len()));
    format!("{:?} {:?}", files.collect::<Vec<_>>(), oracle.directories)
}

/// The worker's own files are as its steps left them.
pub fn verify_home(volume: &Volume, ended: Ended) -> Verdict {
    let Some((_, home)) = home(volume, ended)? else {
        return Ok(());
    };
    let found = found_in(volume, home).map_err(|fault| format!("{ended:?}: {fault}"))?;
    let mut oracle = Oracle::after(ended.id, ended.steps);
    for steps in ended.last_steps() {
        if found.is_like(&oracle) {
            return Ok(());
        }
        let is_last = ended.killed && steps == ended.steps;
        let mut parts = oracle.parts(ended.id, steps).into_iter();
        if is_last && ended.splits && parts.any(|part| found.is_like(&part)) {
            return Ok(());
        }
        let before = oracle.clone();
        oracle.advance(ended.id, steps);
        let in_place = is_last && is_written_in_place(ended.id);
        if in_place && found.is_between(&before, &oracle) {
            return Ok(());
        }
    }
    let oracle = Oracle::after(ended.id, ended.steps);
    Err(format!(
        "{ended:?}: found {}, expected {}, then {:?}",
        brief(&found),
        brief(&oracle),
        step(ended.id, ended.steps)
    ))
}

fn own_names(id: u64, steps: u64) -> BTreeSet<String> {
    let (named, forgotten) = names_after(id, steps);
    (forgotten..named)
        .map(|at| format!("n-{id}-{at}"))
        .collect()
}

/// Every name that must be in the common directory is, and no other.
pub fn verify_names(volume: &Volume, commons: &Commons, ended: &[Ended]) -> Verdict {
    let mut found: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for (name, ..) in list(volume, commons.names)? {
        let id = name.split('-').nth(1).and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| format!("a name of nobody: {name}"))?;
        found.entry(id).or_default().insert(name);
    }
    for worker in ended {
        let found = found.remove(&worker.id).unwrap_or_default();
        let mut last_steps = worker.last_steps();
        if !last_steps.any(|steps| own_names(worker.id, steps) == found) {
            return Err(format!("{worker:?} has the names {found:?}"));
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(format!("names of nobody: {found:?}"))
    }
}

/// Numbers of the steps whose records are in the log, by worker.
fn records(data: &[u8]) -> Verdict<BTreeMap<u64, Vec<u64>>> {
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut at = 0;
    while at < data.len() {
        let torn = || format!("no whole record at byte {at} of the log");
        let header = data.get(at..at + RECORD_HEADER).ok_or_else(torn)?;
        let (id, number, count) = (word(header, 0), word(header, 1), word(header, 2) as usize);
        let end = at.saturating_add(RECORD_HEADER).saturating_add(count);
        let body = data.get(at + RECORD_HEADER..end).ok_or_else(torn)?;
        if step(id, number) != (Step::Append { bytes: count }) || body != bytes(id, number, count) {
            return Err(torn());
        }
        found.entry(id).or_default().push(number);
        at = end;
    }
    Ok(found)
}

/// Every record appended is in the log once, whole, in the order of its writer.
pub fn verify_log(volume: &Volume, commons: &Commons, ended: &[Ended]) -> Verdict {
    let mut found = records(&read_all(volume, commons.log)?)?;
    for worker in ended {
        let found = found.remove(&worker.id).unwrap_or_default();
        let mut last_steps = worker.last_steps();
        let fits = last_steps.any(|steps| {
            let appends =
                (0..steps).filter(|number| matches!(step(worker.id, *number), Step::Append { .. }));
            appends.eq(found.iter().copied())
        });
        if !fits {
            return Err(format!("{worker:?}: records of the steps {found:?}"));
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(format!("records of nobody: {:?}", found.keys()))
    }
}

/// Each field of the table is what the last paint of somebody left there: none that returned is lost.
pub fn verify_table(volume: &Volume, commons: &Commons, ended: &[Ended]) -> Verdict {
    let table = read_all(volume, commons.table)?;
    for field in 0..FIELDS {
        let from = table.len().min(field as usize * FIELD_BYTES);
        let found = &table[from..table.len().min(from + FIELD_BYTES)];
        check_field(found)?;
        let paints = |worker: &Ended, from: u64| {
            (from..worker.steps).find(|number| step(worker.id, *number) == Step::Paint { field })
        };
        if found.iter().all(|byte| *byte == 0) {
            if let Some(worker) = ended.iter().find(|worker| paints(worker, 0).is_some()) {
                return Err(format!("field {field} is empty, and {worker:?} painted it"));
            }
            continue;
        }
        let (id, number) = (word(found, 0), word(found, 1));
        let lost = || format!("field {field} shows step {number} of worker {id}");
        let worker = ended
            .iter()
            .find(|worker| worker.id == id)
            .ok_or_else(lost)?;
        let happened = number < worker.steps + u64::from(worker.killed);
        if !happened || step(id, number) != (Step::Paint { field }) {
            return Err(lost());
        }
        if let Some(later) = paints(worker, number + 1) {
            return Err(format!("{}, whose step {later} came after it", lost()));
        }
    }
    Ok(())
}

/// Tokens are each in one room, the elastic file is its own.
pub fn verify_commons(volume: &Volume, commons: &Commons) -> Verdict {
    let mut tokens = Vec::new();
    for room in commons.rooms {
        for (name, ino, kind) in list(volume, room)? {
            if kind == FileKind::Directory && told("..", volume.lookup(ino, b".."))?.ino != room {
                return Err(format!("{name} has another parent than the room it is in"));
            }
            if name != "hot" {
                tokens.push(name);
            }
        }
    }
    tokens.sort();
    if !(0..TOKENS)
        .map(|token| format!("token{token}"))
        .eq(tokens.iter().cloned())
    {
        return Err(format!("tokens are {tokens:?}"));
    }
    let elastic = read_all(volume, commons.elastic)?;
    let foreign = |(at, byte): (usize, &u8)| *byte != 0 && *byte != elastic_byte(at as u64);
    match elastic.iter().enumerate().position(foreign) {
        None => Ok(()),
        Some(at) => Err(format!("byte {at} of the elastic file")),
    }
}

/// Remove everything below a directory.
pub fn empty(volume: &Volume, directory: InodeNumber) -> Verdict {
    for (name, ino, kind) in list(volume, directory)? {
        if kind == FileKind::Directory {
            empty(volume, ino)?;
            let gone = volume.remove_directory(directory, name.as_bytes());
            told(&format!("rmdir of {name}"), gone)?;
        } else {
            let gone = volume.unlink(directory, name.as_bytes());
            told(&format!("unlink of {name}"), gone)?;
        }
    }
    Ok(())
}

/// What the session counts as used and no file uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Leaked {
    /// Blocks that are used and nobody has.
    pub blocks: i64,
    /// The same of inodes.
    pub inodes: i64,
}

/// Ends the session, and checks the volume.
pub fn leaked(
    volume: std::sync::Arc<Volume>,
    pool: &std::path::Path,
) -> Verdict<(Leaked, CheckReport)> {
    let space = volume.space(None);
    drop(volume);
    let report = check_volume(pool, false, &mut |_, _| {}).map_err(|error| error.to_string())?;
    let used_blocks = space.blocks as i64 - space.free_blocks as i64;
    let used_inodes = space.inodes as i64 - space.free_inodes as i64;
    let leaked = Leaked {
        blocks: used_blocks - report.used_blocks as i64,
        inodes: used_inodes - report.inodes as i64,
    };
    Ok((leaked, report))
}
