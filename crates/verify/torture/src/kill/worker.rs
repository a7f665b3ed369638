//! A worker: takes its steps and notes each one that returned.

use super::files::{Files, attributes_of};
use super::ledger::{DONE, Ledger};
use super::oracle::Oracle;
use super::plan::*;
use egeria_engine::{Errno, Outcome};
use egeria_stats::rng::mix_all;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Bytes of a field; not a multiple of blocks, and across several.
pub const FIELD_BYTES: usize = 9001;
/// Header of a record of the common log: worker, step, length.
pub const RECORD_HEADER: usize = 24;

/// The doomed die within so long, about as long as a step takes.
const DEATH_NS: u64 = 30_000;

/// This process dies by SIGKILL then, wherever it is.
fn die_after(delay_ns: u64) {
    // SAFETY: zeroed structures are valid, the out-parameter is; the timer ends with the process.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut timer: libc::timer_t = std::mem::zeroed();
        let mut at: libc::itimerspec = std::mem::zeroed();
        at.it_value.tv_nsec = delay_ns.max(1) as i64;
        if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) == 0 {
            libc::timer_settime(timer, 0, &at, std::ptr::null_mut());
        }
    }
}

/// Byte of the elastic file at an offset, when it is not zero.
pub fn elastic_byte(offset: u64) -> u8 {
    (offset % 251) as u8 + 1
}

/// Why a step was not taken.
enum Trouble {
    /// The mount died under it: it happened or not.
    Gone,
    /// What must not be.
    Wrong(String),
}

use Trouble::*;

/// How a worker ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// All steps taken, or told to stop.
    Done,
    /// In the middle of a step, with its mount.
    Gone,
}

struct Held<F> {
    name: u64,
    append: bool,
    file: F,
}

struct Worker<'a, F: Files> {
    files: &'a F,
    id: u64,
    table: F::File,
    log: F::File,
    elastic: F::File,
    /// What the own directory holds.
    oracle: Oracle,
    /// The own file used last stays open.
    held: Option<Held<F::File>>,
    /// An open file without a name, and its bytes.
    nameless: Option<(F::File, Vec<u8>)>,
    named: u64,
    forgotten: u64,
}

/// Take these steps as worker `id`.
pub fn work<F: Files>(files: &F, ledger: &Ledger, id: u64, steps: Range<u64>) -> Ending {
    let page = ledger.page(id);
    page.state.store(0, Ordering::Release);
    let splits = u64::from(files.splits_writes());
    page.splits.store(splits, Ordering::Release);
    let mut worker = match Worker::begin(files, id, steps.start) {
        Ok(worker) => worker,
        Err(Gone) => return Ending::Gone,
        Err(Wrong(fault)) => {
            eprintln!("worker {id} cannot begin: {fault}");
            page.faults.fetch_add(1, Ordering::Relaxed);
            return Ending::Gone;
        }
    };
    let mut ending = Ending::Done;
    for number in steps {
        if ledger.is_stopped() {
            break;
        }
        page.begun.store(number + 1, Ordering::Release);
        if ledger.is_to_die() {
            die_after(mix_all(&[id, number]) % DEATH_NS);
        }
        page.time.begin();
        let taken = worker.take(number);
        page.time.end();
        match taken {
            Ok(()) => worker.oracle.advance(id, number),
            Err(Gone) => {
                ending = Ending::Gone;
                break;
            }
            Err(Wrong(fault)) => {
                worker.oracle.advance(id, number);
                let step = step(id, number);
                let path = worker.files.access_path();
                eprintln!("worker {id} through {path}, step {number}, {step:?}: {fault}");
                page.faults.fetch_add(1, Ordering::Relaxed);
            }
        }
        page.steps.store(number + 1, Ordering::Release);
    }
    worker.end();
    if ending == Ending::Done {
        page.state.store(DONE, Ordering::Release);
    }
    ending
}

/// Fails unless it went well, or with one of these errors: `None`.
fn expect<T>(what: &str, outcome: Outcome<T>, fine: &[i32]) -> Result<Option<T>, Trouble> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Errno(errno)) if fine.contains(&errno) => Ok(None),
        Err(Errno(libc::ENOTCONN | libc::ECONNABORTED)) => Err(Gone),
        Err(errno) => Err(Wrong(format!("{what}: {errno}"))),
    }
}

/// Fails unless it went well where it must, or else with this very error.
fn exact<T>(what: &str, outcome: Outcome<T>, error: Option<i32>) -> Result<(), Trouble> {
    match (expect(what, outcome, error.as_slice())?, error) {
        (Some(_), Some(error)) => Err(Wrong(format!("{what} is done instead of {}", Errno(error)))),
        _ => Ok(()),
    }
}

fn whole(what: &str, done: usize, wanted: usize) -> Result<(), Trouble> {
    if done == wanted {
        Ok(())
    } else {
        Err(Wrong(format!("{what}: {done} of {wanted} bytes")))
    }
}

fn same(what: &str, found: &[u8], wanted: &[u8]) -> Result<(), Trouble> {
    whole(what, found.len(), wanted.len())?;
    match found
        .iter()
        .zip(wanted)
        .position(|(one, other)| one != other)
    {
        None => Ok(()),
        Some(at) => Err(Wrong(format!("{what}: byte {at} is {}", found[at]))),
    }
}

impl<'a, F: Files> Worker<'a, F> {
    fn begin(files: &'a F, id: u64, done: u64) -> Result<Worker<'a, F>, Trouble> {
        let made = files.make_directory(&format!("w{id}"));
        expect("mkdir", made, &[libc::EEXIST])?;
        for attribute in attributes_of(id) {
            let set = files.set_attribute(&format!("w{id}"), attribute);
            expect("setxattr", set, &[])?;
        }
        let opened = |name: &str, opened| match opened {
            Ok(file) => Ok(file),
            Err(Errno(libc::ENOTCONN | libc::ECONNABORTED)) => Err(Gone),
            Err(errno) => Err(Wrong(format!("open of {name}: {errno}"))),
        };
        let open = |name: &str, append| opened(name, files.open(name, append));
        let (named, forgotten) = names_after(id, done);
        Ok(Worker {
            files,
            id,
            table: opened("table", files.open_for_whole_writes("table"))?,
            log: open("log", true)?,
            elastic: open("elastic", false)?,
            oracle: Oracle::after(id, done),
            held: None,
            nameless: None,
            named,
            forgotten,
        })
    }

    fn end(mut self) {
        self.let_go();
        self.forget_nameless();
        for file in [self.table, self.log, self.elastic] {
            self.files.close(file);
        }
    }

    fn take(&mut self, number: u64) -> Result<(), Trouble> {
        match step(self.id, number) {
            Step::Own(own) => self.own(number, own),
            Step::Append { bytes } => self.append(number, bytes),
            Step::Name => {
                let name = format!("names/n-{}-{}", self.id, self.named);
                self.named += 1;
                exact("create", self.files.create(&name), None)
            }
            Step::Forget if self.forgotten + 1 < self.named => {
                let name = format!("names/n-{}-{}", self.id, self.forgotten);
                self.forgotten += 1;
                exact("unlink", self.files.unlink(&name), None)
            }
            Step::Forget => Ok(()),
            Step::Paint { field } => self.paint(number, field),
            Step::Look { field } => self.look(field),
            Step::Carry { token, room } => self.carry(token, room),
            Step::Stretch { bytes } => {
                exact("truncate", self.files.resize(&self.elastic, bytes), None)
            }
            Step::Fill { offset, bytes } => self.fill(offset, bytes),
            Step::Check { offset, bytes } => self.check(offset, bytes),
            Step::Fight { access_path } => self.fight(access_path),
            Step::List => self.list(),
        }
    }

    fn path(&self, name: u64) -> String {
        format!("w{}/f{name}", self.id)
    }

    fn let_go(&mut self) {
        if let Some(held) = self.held.take() {
            self.files.close(held.file);
        }
    }

    fn forget_nameless(&mut self) {
        if let Some((file, _)) = self.nameless.take() {
            self.files.close(file);
        }
    }

    /// Do something with an own file that is there.
    fn with<T>(
        &mut self,
        name: u64,
        append: bool,
        body: impl FnOnce(&F, &F::File) -> Outcome<T>,
    ) -> Result<T, Trouble> {
        let fits = |held: &Held<F::File>| held.name == name && held.append == append;
        if !self.held.as_ref().is_some_and(fits) {
            self.let_go();
            let opened = self.files.open(&self.path(name), append);
            if let Some(file) = expect("open", opened, &[])? {
                self.held = Some(Held { name, append, file });
            }
        }
        let Some(held) = &self.held else {
            return Err(Wrong("no file".to_owned()));
        };
        match expect("own file", body(self.files, &held.file), &[])? {
            Some(value) => Ok(value),
            None => Err(Wrong("no answer".to_owned())),
        }
    }

    fn own(&mut self, number: u64, own: Own) -> Result<(), Trouble> {
        let there = |oracle: &Oracle, name: u64| oracle.names.contains_key(&name);
        match own {
            Own::Directory { name } => self.directory(name),
            Own::Unlink { name } => self.unlink(name),
            Own::Link { name, other } => {
                let error = match (there(&self.oracle, name), there(&self.oracle, other)) {
                    (false, _) => Some(libc::ENOENT),
                    (true, taken) => taken.then_some(libc::EEXIST),
                };
                let linked = self.files.link(&self.path(name), &self.path(other));
                exact("link", linked, error)
            }
            Own::Rename { name, other } => {
                self.let_go();
                let error = (!there(&self.oracle, name)).then_some(libc::ENOENT);
                let moved = self.files.rename(&self.path(name), &self.path(other));
                exact("rename", moved, error)
            }
            Own::Write { name, .. } if !there(&self.oracle, name) => {
                exact("create", self.files.create(&self.path(name)), None)
            }
            Own::Write { name, .. }
            | Own::Append { name, .. }
            | Own::Truncate { name, .. }
            | Own::Punch { name, .. }
            | Own::Read { name }
            | Own::Sync { name }
                if there(&self.oracle, name) =>
            {
                self.contents(number, own)
            }
            _ => Ok(()),
        }
    }

    /// Steps on the bytes of an own file.
    fn contents(&mut self, number: u64, own: Own) -> Result<(), Trouble> {
        match own {
            Own::Write {
                name,
                offset,
                bytes: count,
            } => {
                let data = bytes(self.id, number, count);
                let write = |files: &F, file: &F::File| files.write_at(file, offset, &data);
                whole("write", self.with(name, false, write)?, count)
            }
            Own::Append { name, bytes: count } => {
                let data = bytes(self.id, number, count);
                let append = |files: &F, file: &F::File| files.append(file, &data);
                whole("append", self.with(name, true, append)?, count)
            }
            Own::Truncate { name, bytes } => {
                self.with(name, false, |files, file| files.resize(file, bytes))
            }
            Own::Punch {
                name,
                offset,
                bytes,
            } => self.with(name, false, |files, file| files.punch(file, offset, bytes)),
            Own::Sync { name } => self.with(name, false, |files, file| {
                files.sync(file)?;
                files.relocate(file)
            }),
            Own::Read { name } => {
                let found = self.with(name, false, |files, file| files.read_all(file))?;
                let wanted = self.oracle.content(name).unwrap_or_default();
                same("own file", &found, wanted)?;
                match &self.nameless {
                    None => Ok(()),
                    Some((file, wanted)) => {
                        let found = expect("read", self.files.read_all(file), &[])?;
                        same("file without a name", &found.unwrap_or_default(), wanted)
                    }
                }
            }
            _ => Ok(()),
        }
    }

    fn directory(&mut self, name: u64) -> Result<(), Trouble> {
        let path = format!("w{}/d{name}", self.id);
        if self.oracle.directories.contains(&name) {
            exact("rmdir", self.files.remove_directory(&path), None)
        } else {
            exact("mkdir", self.files.make_directory(&path), None)
        }
    }

    /// The file of the name goes on without it while it is open.
    fn unlink(&mut self, name: u64) -> Result<(), Trouble> {
        let Some(content) = self.oracle.content(name) else {
            let gone = self.files.unlink(&self.path(name));
            return exact("unlink", gone, Some(libc::ENOENT));
        };
        let content = content.to_vec();
        let last = self.oracle.is_only_name(name);
        exact("unlink", self.files.unlink(&self.path(name)), None)?;
        match self.held.take() {
            Some(held) if held.name == name && last => {
                self.forget_nameless();
                self.nameless = Some((held.file, content));
            }
            Some(held) => self.files.close(held.file),
            None => {}
        }
        Ok(())
    }

    fn append(&self, number: u64, count: usize) -> Result<(), Trouble> {
        let mut record = Vec::with_capacity(RECORD_HEADER + count);
        for word in [self.id, number, count as u64] {
            record.extend(word.to_le_bytes());
        }
        record.extend(bytes(self.id, number, count));
        let appended = self.files.append(&self.log, &record);
        let appended = expect("append", appended, &[])?.unwrap_or_default();
        whole("append", appended, record.len())
    }

    fn paint(&self, number: u64, field: u64) -> Result<(), Trouble> {
        let mut data = Vec::with_capacity(FIELD_BYTES);
        data.extend(self.id.to_le_bytes());
        data.extend(number.to_le_bytes());
        data.extend(bytes(self.id, number, FIELD_BYTES - 16));
        let offset = field * FIELD_BYTES as u64;
        let written = self.files.write_at(&self.table, offset, &data);
        let written = expect("write", written, &[])?.unwrap_or_default();
        whole("write", written, FIELD_BYTES)
    }

    fn look(&self, field: u64) -> Result<(), Trouble> {
        let mut data = vec![0xEE; FIELD_BYTES];
        let offset = field * FIELD_BYTES as u64;
        let read = self.files.read_at(&self.table, offset, &mut data);
        let read = expect("read", read, &[])?.unwrap_or_default();
        check_field(&data[..read]).map_err(Wrong)
    }

    fn carry(&self, token: u64, room: u64) -> Result<(), Trouble> {
        let to = format!("room{room}/token{token}");
        for from in 0..ROOMS {
            let from = format!("room{from}/token{token}");
            let moved = self.files.rename_to_free(&from, &to);
            if expect("carry", moved, F::LOST_RACE)?.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn fill(&self, offset: u64, count: usize) -> Result<(), Trouble> {
        let data: Vec<u8> = (0..count as u64)
            .map(|at| elastic_byte(offset + at))
            .collect();
        let written = self.files.write_at(&self.elastic, offset, &data);
        let written = expect("write", written, &[])?.unwrap_or_default();
        whole("write", written, count)
    }

    fn check(&self, offset: u64, count: usize) -> Result<(), Trouble> {
        let mut data = vec![0xEE; count];
        let read = self.files.read_at(&self.elastic, offset, &mut data);
        let read = expect("read", read, &[])?.unwrap_or_default();
        let wrong = data[..read]
            .iter()
            .enumerate()
            .find(|(at, byte)| **byte != 0 && **byte != elastic_byte(offset + *at as u64));
        match wrong {
            None => Ok(()),
            Some((at, byte)) => {
                let at = offset + at as u64;
                Err(Wrong(format!("byte {at} of the elastic file is {byte}")))
            }
        }
    }

    fn fight(&self, access_path: u64) -> Result<(), Trouble> {
        let gone = &[libc::ENOENT, libc::EEXIST, libc::ESTALE];
        let (one, other) = ("room1/hot", "room2/hot");
        let outcome = match access_path {
            0 => self.files.create(one),
            1 => self.files.unlink(one),
            2 => self.files.rename(one, other),
            3 => self.files.link(other, one),
            _ => self.files.unlink(other),
        };
        expect("fight", outcome, gone).map(drop)
    }

    /// A listing has every own name once, whatever others make and remove meanwhile.
    fn list(&self) -> Result<(), Trouble> {
        let listed = expect("list", self.files.list("names"), &[])?.unwrap_or_default();
        let prefix = format!("n-{}-", self.id);
        let mut own: Vec<u64> = listed
            .iter()
            .filter_map(|name| name.strip_prefix(&prefix)?.parse().ok())
            .collect();
        own.sort_unstable();
        if own.iter().copied().eq(self.forgotten..self.named) {
            Ok(())
        } else {
            Err(Wrong(format!(
                "own names {}..{} are listed as {own:?}",
                self.forgotten, self.named
            )))
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
    let (worker, number) = (word(data, 0), word(data, 1));
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

/// Word `index` of bytes that are long enough.
pub fn word(data: &[u8], index: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&data[index * 8..index * 8 + 8]);
    u64::from_le_bytes(bytes)
}
