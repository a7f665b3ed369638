//! A worker: takes its steps on the volume and notes each one that returned.

use crate::common::{DIRECTORY, FILE};
use crate::ledger::Ledger;
use crate::plan::*;
use egeria_fs::*;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Bytes of a field; not a multiple of blocks, and across several.
pub const FIELD_BYTES: usize = 9001;
/// Header of a record of the common log: worker, step, length.
pub const RECORD_HEADER: usize = 24;

/// What everybody uses.
#[derive(Clone, Copy)]
pub struct Commons {
    pub log: InodeNumber,
    pub board: InodeNumber,
    pub elastic: InodeNumber,
    pub names: InodeNumber,
    pub rooms: [InodeNumber; ROOMS as usize],
}

impl Commons {
    /// Make them on an empty volume.
    pub fn make(volume: &Volume) -> Commons {
        let root = InodeNumber::ROOT;
        let file = |name: &[u8]| volume.create(root, name, &FILE).expect("file").ino;
        let directory = |name: &str| {
            let made = volume.create(root, name.as_bytes(), &DIRECTORY);
            made.expect("directory").ino
        };
        let commons = Commons {
            log: file(b"log"),
            board: file(b"board"),
            elastic: file(b"elastic"),
            names: directory("names"),
            rooms: std::array::from_fn(|room| directory(&format!("room{room}"))),
        };
        for token in 0..TOKENS {
            let name = format!("token{token}");
            // Every second one is a directory.
            let new = if token % 2 == 0 { &FILE } else { &DIRECTORY };
            let made = volume.create(commons.rooms[0], name.as_bytes(), new);
            made.expect("token");
        }
        commons
    }

    /// Find them.
    pub fn find(volume: &Volume) -> Commons {
        let find = |name: &str| {
            let found = volume.lookup(InodeNumber::ROOT, name.as_bytes());
            found.expect("what everybody uses").ino
        };
        Commons {
            log: find("log"),
            board: find("board"),
            elastic: find("elastic"),
            names: find("names"),
            rooms: std::array::from_fn(|room| find(&format!("room{room}"))),
        }
    }
}

/// Byte of the elastic file at an offset, when it is not zero.
pub fn elastic_byte(offset: u64) -> u8 {
    (offset % 251) as u8 + 1
}

struct Worker<'a> {
    volume: &'a Volume,
    commons: Commons,
    id: u64,
    home: InodeNumber,
    board: FileReference,
    log: FileReference,
    elastic: FileReference,
    named: u64,
    forgotten: u64,
}

/// Take these steps as worker `id`.
pub fn work(volume: &Volume, ledger: &Ledger, id: u64, steps: Range<u64>) {
    let page = ledger.page(id);
    let mut worker = Worker::begin(volume, id, steps.start);
    for number in steps {
        page.begun.store(number + 1, Ordering::Release);
        let started = Instant::now();
        if let Err(fault) = worker.take(number) {
            eprintln!(
                "worker {id}, step {number}, {:?}: {fault}",
                step(id, number)
            );
            page.faults.fetch_add(1, Ordering::Relaxed);
        }
        page.steps.store(number + 1, Ordering::Release);
        let longest = started.elapsed().as_nanos() as u64;
        page.longest_ns.fetch_max(longest, Ordering::Relaxed);
    }
    let commons = worker.commons;
    for ino in [commons.board, commons.log, commons.elastic] {
        volume.close(ino);
    }
    volume.thread_exit();
}

fn expect<T>(what: &str, outcome: Outcome<T>, fine: &[i32]) -> Result<Option<T>, String> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(errno) if fine.contains(&errno.0) => Ok(None),
        Err(errno) => Err(format!("{what}: {errno}")),
    }
}

impl<'a> Worker<'a> {
    fn begin(volume: &'a Volume, id: u64, done: u64) -> Worker<'a> {
        let commons = Commons::find(volume);
        let name = format!("w{id}");
        let home = match volume.create(InodeNumber::ROOT, name.as_bytes(), &DIRECTORY) {
            Err(Errno(libc::EEXIST)) => volume.lookup(InodeNumber::ROOT, name.as_bytes()),
            made => made,
        };
        let open = |ino| volume.open(ino, None).expect("open");
        let (named, forgotten) = names_after(id, done);
        Worker {
            volume,
            commons,
            id,
            home: home.expect("own directory").ino,
            board: open(commons.board),
            log: open(commons.log),
            elastic: open(commons.elastic),
            named,
            forgotten,
        }
    }

    fn take(&mut self, number: u64) -> Result<(), String> {
        match step(self.id, number) {
            Step::Own(own) => self.own(number, own),
            Step::Append { bytes } => self.append(number, bytes),
            Step::Name => {
                let name = format!("n-{}-{}", self.id, self.named);
                self.named += 1;
                let made = self
                    .volume
                    .create(self.commons.names, name.as_bytes(), &FILE);
                expect("create", made, &[]).map(drop)
            }
            Step::Forget if self.forgotten + 1 < self.named => {
                let name = format!("n-{}-{}", self.id, self.forgotten);
                self.forgotten += 1;
                let gone = self.volume.unlink(self.commons.names, name.as_bytes());
                expect("unlink", gone, &[]).map(drop)
            }
            Step::Forget => Ok(()),
            Step::Paint { field } => self.paint(number, field),
            Step::Look { field } => self.look(field),
            Step::Carry { token, room } => self.carry(token, room),
            Step::Stretch { bytes } => {
                let change = AttributeChange {
                    size_bytes: Some(bytes),
                    ..Default::default()
                };
                let changed = self
                    .volume
                    .set_attributes(self.commons.elastic, &change, false);
                expect("truncate", changed, &[]).map(drop)
            }
            Step::Fill { offset, bytes } => {
                let data: Vec<u8> = (0..bytes as u64)
                    .map(|at| elastic_byte(offset + at))
                    .collect();
                let written = self.volume.write(self.elastic, offset, &data);
                expect("write", written, &[]).map(drop)
            }
            Step::Check { offset, bytes } => self.check(offset, bytes),
            Step::Fight { way } => self.fight(way),
        }
    }

    fn own(&self, number: u64, own: Own) -> Result<(), String> {
        let volume = self.volume;
        let text = |name: u64| format!("f{name}").into_bytes();
        let with = |name: u64, body: &dyn Fn(InodeNumber) -> Outcome<()>| match volume
            .lookup(self.home, &text(name))
        {
            Ok(found) => expect("own file", body(found.ino), &[]).map(drop),
            Err(Errno(libc::ENOENT)) => Ok(()),
            Err(errno) => Err(format!("lookup: {errno}")),
        };
        let opened = |ino: InodeNumber, body: &dyn Fn(FileReference) -> Outcome<()>| {
            let file = volume.open(ino, None)?;
            let outcome = body(file);
            volume.close(ino);
            outcome
        };
        match own {
            Own::Write {
                name,
                offset,
                bytes: count,
            } => match volume.lookup(self.home, &text(name)) {
                Err(Errno(libc::ENOENT)) => {
                    expect("create", volume.create(self.home, &text(name), &FILE), &[]).map(drop)
                }
                _ => with(name, &|ino| {
                    let data = bytes(self.id, number, count);
                    opened(ino, &|file| volume.write(file, offset, &data).map(drop))
                }),
            },
            Own::Append { name, bytes: count } => with(name, &|ino| {
                let data = bytes(self.id, number, count);
                opened(ino, &|file| volume.append(file, &data).map(drop))
            }),
            Own::Truncate { name, bytes } => with(name, &|ino| {
                let change = AttributeChange {
                    size_bytes: Some(bytes),
                    ..Default::default()
                };
                volume.set_attributes(ino, &change, false).map(drop)
            }),
            Own::Punch {
                name,
                offset,
                bytes,
            } => with(name, &|ino| {
                opened(ino, &|file| {
                    volume.allocate(file, offset, bytes, AllocateMode::PunchHole)
                })
            }),
            Own::Link { name, other } => with(name, &|ino| match volume.link(
                ino,
                self.home,
                &text(other),
            ) {
                Err(Errno(libc::EEXIST)) => Ok(()),
                outcome => outcome.map(drop),
            }),
            Own::Unlink { name } => {
                let gone = volume.unlink(self.home, &text(name));
                expect("unlink", gone, &[libc::ENOENT]).map(drop)
            }
            Own::Rename { name, other } => {
                let moved = volume.rename(
                    self.home,
                    &text(name),
                    self.home,
                    &text(other),
                    RenameMode::Replace,
                );
                expect("rename", moved, &[libc::ENOENT]).map(drop)
            }
        }
    }

    fn append(&self, number: u64, count: usize) -> Result<(), String> {
        let mut record = Vec::with_capacity(RECORD_HEADER + count);
        for word in [self.id, number, count as u64] {
            record.extend(word.to_le_bytes());
        }
        record.extend(bytes(self.id, number, count));
        match self.volume.append(self.log, &record) {
            Ok((_, written)) if written == record.len() => Ok(()),
            other => Err(format!("append: {other:?}")),
        }
    }

    fn paint(&self, number: u64, field: u64) -> Result<(), String> {
        let mut data = Vec::with_capacity(FIELD_BYTES);
        data.extend(self.id.to_le_bytes());
        data.extend(number.to_le_bytes());
        data.extend(bytes(self.id, number, FIELD_BYTES - 16));
        let offset = field * FIELD_BYTES as u64;
        match self.volume.write(self.board, offset, &data) {
            Ok(FIELD_BYTES) => Ok(()),
            other => Err(format!("write: {other:?}")),
        }
    }

    fn look(&self, field: u64) -> Result<(), String> {
        let mut data = vec![0xEE; FIELD_BYTES];
        let offset = field * FIELD_BYTES as u64;
        let read = self.volume.read(self.board, offset, &mut data);
        check_field(&data[..read.map_err(|errno| errno.to_string())?])
    }

    fn carry(&self, token: u64, room: u64) -> Result<(), String> {
        let name = format!("token{token}");
        let to = self.commons.rooms[room as usize];
        for from in self.commons.rooms {
            let moved = self.volume.rename(
                from,
                name.as_bytes(),
                to,
                name.as_bytes(),
                RenameMode::NoReplace,
            );
            if expect("carry", moved, &[libc::ENOENT, libc::EEXIST])?.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn check(&self, offset: u64, count: usize) -> Result<(), String> {
        let mut data = vec![0xEE; count];
        let read = self.volume.read(self.elastic, offset, &mut data);
        let read = read.map_err(|errno| errno.to_string())?;
        let wrong = data[..read]
            .iter()
            .enumerate()
            .find(|(at, byte)| **byte != 0 && **byte != elastic_byte(offset + *at as u64));
        match wrong {
            None => Ok(()),
            Some((at, byte)) => Err(format!(
                "byte {} of the elastic file is {byte}",
                offset + at as u64
            )),
        }
    }

    fn fight(&self, way: u64) -> Result<(), String> {
        let volume = self.volume;
        let (rooms, hot) = (&self.commons.rooms, b"hot".as_slice());
        let gone = &[libc::ENOENT, libc::EEXIST, libc::ESTALE];
        match way {
            0 => expect("create", volume.create(rooms[1], hot, &FILE), gone).map(drop),
            1 => expect("unlink", volume.unlink(rooms[1], hot), gone).map(drop),
            2 => {
                let moved = volume.rename(rooms[1], hot, rooms[2], hot, RenameMode::Replace);
                expect("rename", moved, gone).map(drop)
            }
            3 => match expect("lookup", volume.lookup(rooms[2], hot), gone)? {
                // Held open: its number could be another's by now.
                Some(found) => {
                    let opened = volume.open(found.ino, Some(found.generation));
                    if expect("open", opened, gone)?.is_none() {
                        return Ok(());
                    }
                    let linked = volume.link(found.ino, rooms[1], hot);
                    volume.close(found.ino);
                    expect("link", linked, gone).map(drop)
                }
                None => Ok(()),
            },
            _ => expect("unlink", volume.unlink(rooms[2], hot), gone).map(drop),
        }
    }
}

/// A field is nothing, zeros, or what one step of one worker painted.
pub fn check_field(data: &[u8]) -> Result<(), String> {
    if data.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    if data.len() != FIELD_BYTES {
        return Err(format!("{} bytes of a field", data.len()));
    }
    let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().expect("eight bytes"));
    let (worker, number) = (word(0), word(8));
    let wrong = data[16..]
        .iter()
        .enumerate()
        .find(|(at, found)| **found != byte(worker, number, *at));
    match wrong {
        None => Ok(()),
        Some((at, _)) => Err(format!(
            "a field by worker {worker}, step {number} is another's from byte {}",
            at + 16
        )),
    }
}
