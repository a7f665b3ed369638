//! Where the calls happen, what must be there before and after each, and who looks on.

use egeria_engine::{Attributes, Errno, FileKind, InodeNumber, Volume};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Far more than anybody may wait, and far less than for ever.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Content of `d/f` and of `e/g`.
const F: &[u8] = &[b'f'; 9000];
const G: &[u8] = &[b'g'; 700];
/// All that may be named.
const NAMES: [&str; 3] = ["d/f", "d/new", "e/g"];
const DIRECTORIES: [&str; 2] = ["d", "e"];

/// A kind of call.
pub struct Call {
    /// What the program calls it.
    pub rule: &'static str,
    /// The kernel has to forget something first.
    pub needs_recall: bool,
    /// What is in the files afterwards.
    after: [Option<&'static [u8]>; 3],
}

const BEFORE: [Option<&[u8]>; 3] = [Some(F), None, Some(G)];

const fn call(rule: &'static str, after: [Option<&'static [u8]>; 3]) -> Call {
    Call {
        rule,
        needs_recall: true,
        after,
    }
}

/// All of them.
pub const CALLS: &[Call] = &[
    Call {
        needs_recall: false,
        ..call("opens", BEFORE)
    },
    call("creates", [Some(F), Some(b""), Some(G)]),
    call("truncates", [Some(b""), None, Some(G)]),
    call("renames", [None, Some(F), Some(G)]),
    call("moves", [None, None, Some(F)]),
    call("unlinks", [None, None, Some(G)]),
];

/// Two directories with a file in each.
pub struct Place {
    path: PathBuf,
    /// Of what was made.
    inodes: Vec<InodeNumber>,
}

impl Place {
    /// Make it through the mount.
    pub fn make(point: &Path, name: &str) -> Place {
        let path = point.join(name);
        fs::create_dir_all(path.join("d")).unwrap();
        fs::create_dir(path.join("e")).unwrap();
        fs::write(path.join("d/f"), F).unwrap();
        fs::write(path.join("e/g"), G).unwrap();
        fs::write(path.join("warm"), b"").unwrap();
        let names = ["", "d", "e", "d/f", "e/g", "warm"];
        let number = |name| InodeNumber(fs::metadata(path.join(name)).unwrap().ino());
        Place {
            inodes: names.map(number).to_vec(),
            path,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel knows all names, also those that are missing, and what is there.
    pub fn is_remembered_by_the_kernel(&self) {
        // The first answers about what the kernel has are not to be remembered, until who got them asks again.
        for _ in 0..4 {
            look_at(&self.path, DIRECTORIES.iter().chain(&NAMES));
        }
    }

    /// Whether the call happened; panics unless wholly or not at all.
    pub fn is_old_or_new(&self, volume: &Volume, call: &Call) -> bool {
        let directory = self.inodes[0];
        let content = NAMES.map(|name| {
            let found = find(volume, directory, name)?;
            let file = volume.open(found.ino, Some(found.generation)).unwrap();
            let mut bytes = vec![0; found.size_bytes as usize];
            assert_eq!(volume.read(file, 0, &mut bytes), Ok(bytes.len()));
            volume.close(found.ino);
            Some(bytes)
        });
        let content: Vec<Option<&[u8]>> = content.iter().map(Option::as_deref).collect();
        let is_new = content == call.after;
        let sizes = content.iter().map(|bytes| bytes.map(<[u8]>::len));
        assert!(
            is_new || content == BEFORE,
            "{}: neither before nor after: {:?}",
            call.rule,
            sizes.collect::<Vec<_>>()
        );
        is_new
    }

    /// The kernel says the same, and nobody holds what the files need to be written.
    pub fn is_the_same_for_all(&self, volume: &Volume) {
        let known = self.known(volume);
        assert_eq!(seen(&self.path), known);
        for name in known.keys().filter(|name| name.contains('/')) {
            fs::write(self.path.join(name), b"anew").unwrap();
        }
        assert_eq!(seen(&self.path), self.known(volume));
    }

    /// Names in both directories, with number, size and links.
    fn known(&self, volume: &Volume) -> BTreeMap<String, Seen> {
        let mut known = BTreeMap::new();
        for name in DIRECTORIES {
            let directory = find(volume, self.inodes[0], name).unwrap();
            known.insert(name.to_owned(), (directory.ino.0, 0, directory.nlink));
            let each = &mut |entry: &egeria_engine::DirectoryEntry<'_>| {
                let text = String::from_utf8_lossy(entry.name);
                if entry.kind == FileKind::Regular {
                    known.insert(format!("{name}/{text}"), (0, 0, 0));
                }
                true
            };
            volume.read_directory(directory.ino, 0, each).unwrap();
        }
        for (name, seen) in known.iter_mut().filter(|(name, _)| name.contains('/')) {
            let found = find(volume, self.inodes[0], name).expect("a listed name");
            *seen = (found.ino.0, found.size_bytes, found.nlink);
        }
        known
    }

    /// Removed by the mount, it leaves nothing open.
    pub fn goes(mut self, volume: &Volume) {
        self.inodes.extend(
            seen(&self.path)
                .values()
                .map(|(ino, _, _)| InodeNumber(*ino)),
        );
        fs::remove_dir_all(&self.path).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let is_there = |ino: &InodeNumber| volume.attributes(*ino) != Err(Errno(libc::ESTALE));
        while self.inodes.iter().any(is_there) {
            volume.reap();
            let held = self.inodes.iter().filter(|ino| is_there(ino));
            assert!(
                Instant::now() < deadline,
                "nobody holds {:?}",
                held.collect::<Vec<_>>()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Number, size of a file, links.
type Seen = (u64, u64, u32);

fn find(volume: &Volume, directory: InodeNumber, path: &str) -> Option<Attributes> {
    let mut at = directory;
    let mut last = None;
    for name in path.split('/') {
        let found = match volume.lookup(at, name.as_bytes()) {
            Ok(found) => found,
            Err(Errno(libc::ENOENT)) => return None,
            Err(errno) => panic!("{path}: {errno}"),
        };
        at = found.ino;
        last = Some(found);
    }
    last
}

/// What the kernel says of the same.
fn seen(path: &Path) -> BTreeMap<String, Seen> {
    let mut seen = BTreeMap::new();
    let mut add = |name: String, is_directory: bool| {
        let found = fs::metadata(path.join(&name)).expect("a listed name");
        let bytes = if is_directory { 0 } else { found.len() };
        seen.insert(name, (found.ino(), bytes, found.nlink() as u32));
    };
    for directory in DIRECTORIES {
        add(directory.to_owned(), true);
        for entry in fs::read_dir(path.join(directory)).unwrap() {
            let name = entry.unwrap().file_name();
            add(format!("{directory}/{}", name.to_string_lossy()), false);
        }
    }
    for missing in NAMES.iter().filter(|name| !seen.contains_key(**name)) {
        let error = fs::metadata(path.join(missing)).expect_err("it was not listed");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
    seen
}

/// Look at names through the mount; what is wrong.
fn look_at<'n>(path: &Path, names: impl Iterator<Item = &'n &'n str>) -> Option<String> {
    let mut wrong = None;
    for name in names {
        match fs::metadata(path.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                wrong = Some(format!("{name}: {error}"));
            }
            // No call takes this away, not for a moment.
            Err(error) if *name == "e/g" => wrong = Some(format!("{name}: {error}")),
            _ => {}
        }
    }
    for directory in DIRECTORIES {
        if let Err(error) = fs::read_dir(path.join(directory)).map(Iterator::count) {
            wrong = Some(format!("{directory}: {error}"));
        }
    }
    wrong
}

/// Who looks at a place through the mount, again and again.
pub struct Observer {
    looks: Arc<AtomicU64>,
    sees_all: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Option<String>>,
}

impl Observer {
    /// It does not look at what the call changes while that is under way: a file is remembered anew when its name was
    /// forgotten, and who goes instruction by instruction would never come to his change.
    pub fn start(place: &Place) -> Observer {
        let looks = Arc::new(AtomicU64::new(0));
        let sees_all = Arc::new(AtomicBool::new(false));
        let is_over = Arc::new(AtomicBool::new(false));
        let (count, all, end) = (looks.clone(), sees_all.clone(), is_over.clone());
        let path = place.path.clone();
        let look = move || {
            let mut wrong = None;
            while !end.load(Ordering::Relaxed) && wrong.is_none() {
                let files = if all.load(Ordering::Relaxed) {
                    &NAMES[..]
                } else {
                    &[]
                };
                wrong = look_at(&path, DIRECTORIES.iter().chain(files));
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
            wrong
        };
        Observer {
            looks,
            sees_all,
            is_over,
            thread: std::thread::spawn(look),
        }
    }

    /// A look at everything that begins now ends soon.
    pub fn goes_on(&self) {
        self.sees_all.store(true, Ordering::Relaxed);
        let seen = self.looks.load(Ordering::Relaxed);
        let deadline = Instant::now() + PATIENCE;
        while self.looks.load(Ordering::Relaxed) < seen + 2 && !self.thread.is_finished() {
            assert!(Instant::now() < deadline, "a look waits for somebody dead");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Nothing was ever wrong.
    pub fn ends_well(self) {
        self.goes_on();
        self.is_over.store(true, Ordering::Relaxed);
        assert_eq!(self.thread.join().unwrap(), None);
    }
}
