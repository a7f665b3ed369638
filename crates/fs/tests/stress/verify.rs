//! What must hold, given how many steps of each worker returned.

use crate::ledger::Ledger;
use crate::model::Model;
use crate::plan::*;
use crate::worker::{Commons, FIELD_BYTES, RECORD_HEADER, check_field};
use egeria_fs::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// A worker that is no more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ended {
    pub id: u64,
    /// Steps that returned.
    pub steps: u64,
    /// One more may have happened.
    pub killed: bool,
}

impl Ended {
    pub fn of(ledger: &Ledger, id: u64, killed: bool) -> Ended {
        let steps = ledger.page(id).steps.load(Ordering::Acquire);
        Ended { id, steps, killed }
    }

    fn last_steps(self) -> impl Iterator<Item = u64> {
        self.steps..=self.steps + u64::from(self.killed)
    }
}

fn read_all(volume: &Volume, ino: InodeNumber) -> Vec<u8> {
    let file = volume.open(ino, None).expect("open");
    let size = volume.size_bytes(file).expect("size") as usize;
    let mut data = vec![0xEE; size];
    assert_eq!(volume.read(file, 0, &mut data), Ok(size));
    volume.close(ino);
    data
}

/// Names and inodes of a directory.
pub fn list(volume: &Volume, directory: InodeNumber) -> Vec<(String, InodeNumber, FileKind)> {
    let mut all = Vec::new();
    volume
        .read_directory(directory, 0, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                let name = String::from_utf8_lossy(entry.name).into_owned();
                all.push((name, entry.ino, entry.kind));
            }
            true
        })
        .expect("read directory");
    let unique: BTreeSet<_> = all.iter().map(|(name, ..)| name).collect();
    assert_eq!(unique.len(), all.len(), "a name is listed twice: {all:?}");
    all
}

/// The worker's own files are as its steps left them.
pub fn verify_home(volume: &Volume, ended: Ended) {
    let name = format!("w{}", ended.id);
    let home = match volume.lookup(InodeNumber::ROOT, name.as_bytes()) {
        Ok(found) => found.ino,
        Err(Errno(libc::ENOENT)) if ended.steps == 0 && ended.killed => return,
        Err(errno) => panic!("{name}: {errno}"),
    };
    let mut found = Model::default();
    let mut numbers = BTreeMap::new();
    for (name, ino, _) in list(volume, home) {
        let index = *numbers.entry(ino).or_insert_with(|| {
            found.files.push(read_all(volume, ino));
            found.files.len() - 1
        });
        let name = name[1..].parse().expect("number of a file");
        found.names.insert(name, index);
        let nlink = volume.attributes(ino).expect("attributes").nlink;
        let names = list(volume, home);
        let links = names.iter().filter(|(_, other, _)| *other == ino).count();
        assert_eq!(
            nlink as usize, links,
            "links of {name} of worker {}",
            ended.id
        );
    }
    let mut model = Model::after(ended.id, ended.steps);
    for steps in ended.last_steps() {
        if found.picture() == model.picture() {
            return;
        }
        model.advance(ended.id, steps);
    }
    let model = Model::after(ended.id, ended.steps);
    let brief = |model: &Model| {
        let picture = model.picture();
        let brief = picture
            .iter()
            .map(|(name, alias, data)| (*name, *alias, data.len()));
        brief.collect::<Vec<_>>()
    };
    panic!(
        "{ended:?}: found {:?}, expected {:?}, then {:?}",
        brief(&found),
        brief(&model),
        step(ended.id, ended.steps)
    );
}

fn own_names(id: u64, steps: u64) -> BTreeSet<String> {
    let (named, forgotten) = names_after(id, steps);
    (forgotten..named)
        .map(|at| format!("n-{id}-{at}"))
        .collect()
}

/// Every name that must be in the common directory is, and no other.
pub fn verify_names(volume: &Volume, commons: &Commons, ended: &[Ended]) {
    let mut found: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for (name, ..) in list(volume, commons.names) {
        let id = name.split('-').nth(1).expect("id").parse().expect("id");
        found.entry(id).or_default().insert(name);
    }
    for worker in ended {
        let found = found.remove(&worker.id).unwrap_or_default();
        let fits = worker
            .last_steps()
            .any(|steps| own_names(worker.id, steps) == found);
        assert!(fits, "{worker:?} has {found:?}");
    }
    assert!(found.is_empty(), "names of nobody: {found:?}");
}

/// Every record appended is in the log once, whole, in the order of its writer.
pub fn verify_log(volume: &Volume, commons: &Commons, ended: &[Ended]) {
    let data = read_all(volume, commons.log);
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut at = 0;
    while at < data.len() {
        let word = |index: usize| {
            let from = at + index * 8;
            let bytes = data.get(from..from + 8).expect("a whole header");
            u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
        };
        let (id, number, count) = (word(0), word(1), word(2) as usize);
        let planned = step(id, number);
        assert_eq!(planned, Step::Append { bytes: count }, "at {at} of the log");
        let body = &data[at + RECORD_HEADER..][..count];
        assert!(body == bytes(id, number, count), "at {at} of the log");
        found.entry(id).or_default().push(number);
        at += RECORD_HEADER + count;
    }
    for worker in ended {
        let found = found.remove(&worker.id).unwrap_or_default();
        let fits = worker.last_steps().any(|steps| {
            let appends =
                (0..steps).filter(|number| matches!(step(worker.id, *number), Step::Append { .. }));
            appends.eq(found.iter().copied())
        });
        assert!(fits, "{worker:?}: records {found:?}");
    }
    assert!(found.is_empty(), "records of nobody: {:?}", found.keys());
}

/// Tokens are each in one room, the board is whole, the elastic file is its own.
pub fn verify_commons(volume: &Volume, commons: &Commons) {
    let mut tokens = Vec::new();
    for room in commons.rooms {
        for (name, ino, kind) in list(volume, room) {
            if kind == FileKind::Directory {
                let up = volume.lookup(ino, b"..").expect("parent").ino;
                assert_eq!(up, room, "parent of {name}");
            }
            if name != "hot" {
                tokens.push(name);
            }
        }
    }
    tokens.sort();
    let expected: Vec<String> = (0..TOKENS).map(|token| format!("token{token}")).collect();
    assert_eq!(tokens, expected);
    for field in read_all(volume, commons.board).chunks(FIELD_BYTES) {
        check_field(field).expect("a whole field");
    }
    let elastic = read_all(volume, commons.elastic);
    for (at, byte) in elastic.into_iter().enumerate() {
        let own = crate::worker::elastic_byte(at as u64);
        assert!(byte == 0 || byte == own, "byte {at} of the elastic file");
    }
}

/// Remove everything below a directory.
pub fn empty(volume: &Volume, directory: InodeNumber) {
    for (name, ino, kind) in list(volume, directory) {
        if kind == FileKind::Directory {
            empty(volume, ino);
            let gone = volume.remove_directory(directory, name.as_bytes());
            gone.unwrap_or_else(|errno| panic!("rmdir of {name}: {errno}"));
        } else {
            let gone = volume.unlink(directory, name.as_bytes());
            gone.unwrap_or_else(|errno| panic!("unlink of {name}: {errno}"));
        }
    }
}

/// Blocks the session counts as used and no file uses. Ends the session.
pub fn leaked_blocks(volume: std::sync::Arc<Volume>, pool: &std::path::Path) -> i64 {
    let space = volume.space(None);
    drop(volume);
    let report = check_volume(pool, false, &mut |_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    (space.blocks - space.free_blocks) as i64 - report.used_blocks as i64
}
