//! Logs with entries that are sealed as they should be and say what no engine writes: what `egeria-torture fuzz`
//! found, each as the smallest volume that shows it.

use crate::common::{DIRECTORY, FILE, names};
use egeria_engine::failpoint::{Resource, with_failures};
use egeria_engine::format::*;
use egeria_engine::*;
use egeria_media::{BlockNumber, Pool, PoolIndex, PoolOffset};
use std::sync::Arc;

const ROOT: InodeNumber = InodeNumber::ROOT;
const DAMAGED: Errno = Errno(libc::EIO);

/// A volume of one pool in memory.
struct Forged {
    pool: Arc<Pool>,
    memory: PrivateMemory,
}

impl Forged {
    /// With what `fill` makes in it.
    fn new(fill: impl FnOnce(&Volume)) -> Forged {
        let pool = Arc::new(Pool::anonymous(MIN_POOL_BYTES));
        let options = CreateOptions {
            force: false,
            root: Some((0, 0, 0o755)),
        };
        create_private(std::slice::from_ref(&pool), 1, &options).expect("mkfs");
        let mut forged = Forged {
            pool,
            memory: PrivateMemory::default(),
        };
        fill(&forged.attach());
        forged
    }

    fn pools(&self) -> [Arc<Pool>; 1] {
        [Arc::clone(&self.pool)]
    }

    fn attach(&mut self) -> Arc<Volume> {
        let pools = self.pools();
        Volume::attach_private(&pools, &mut self.memory, &AttachOptions::default()).expect("attach")
    }

    fn check(&mut self, repair: bool) -> CheckReport {
        check_private(&self.pools(), &mut self.memory, 1, repair).expect("check")
    }

    fn load(&self, at: PoolOffset) -> u64 {
        self.pool.load_u64(at).expect("a word")
    }

    /// Where an inode's record is, and its commit word.
    fn record(&self, ino: InodeNumber) -> (PoolOffset, CommitWord) {
        let geometry = Geometry::new(0, self.pool.blocks());
        let (_, index) = inode_place(ino.0).expect("a number");
        let chunk = index / INODES_PER_BLOCK;
        let pointer = self.load(inode_pointer(&geometry, chunk));
        let block = decode_inode_pointer(chunk, pointer).unwrap().unwrap();
        let at = block.offset() + index % INODES_PER_BLOCK * INODE_BYTES;
        let commit = CommitWord::decode(self.load(at), ino.0);
        (at, commit.expect("a commit word").expect("in use"))
    }

    fn generation(&self, ino: InodeNumber) -> u32 {
        let mut bytes = [0; LINE];
        let at = self.record(ino).0 + CERTIFICATE_AT;
        self.pool.read_bytes(at, &mut bytes).expect("a certificate");
        let certificate = Certificate::decode(&bytes, ino.0);
        certificate.expect("a certificate").generation
    }

    /// Add an entry to a log that has a page.
    fn append(&self, ino: InodeNumber, entry: &Entry<'_>) {
        let (at, commit) = self.record(ino);
        let seal = EntrySeal {
            ino: ino.0,
            generation: self.generation(ino),
            position: commit.tail,
        };
        let lines = entry.lines();
        assert!(!commit.tail.is_none() && commit.tail.line() + lines <= PAGE_LINES);
        let mut bytes = vec![0; usize::from(lines) * LINE];
        entry.encode(&mut bytes, lines, 1, seal);
        let stored = self.pool.write_bytes(commit.tail.offset(), &bytes);
        stored.expect("store");
        let tail = commit.tail.at_line(commit.tail.line() + lines);
        let word = CommitWord { tail, ..commit }.encode(ino.0);
        self.pool.store_u64(at, word).expect("store");
    }

    fn add_name(&self, directory: InodeNumber, ino: InodeNumber, kind: FileKind, cookie: u64) {
        self.append(
            directory,
            &Entry::NameAdd {
                ino: ino.0,
                kind: kind as u8,
                cookie,
                name: b"forged",
            },
        );
    }
}

fn mkdir(volume: &Volume, parent: InodeNumber, name: &str) -> InodeNumber {
    let made = volume.create(parent, name.as_bytes(), &DIRECTORY);
    made.expect("mkdir").ino
}

fn create(volume: &Volume, name: &str) -> InodeNumber {
    let made = volume.create(ROOT, name.as_bytes(), &FILE);
    made.expect("create").ino
}

/// Whatever needs the lock of what the name means is damage, at once.
fn leads_nowhere(volume: &Volume, directory: InodeNumber) {
    let replace = RenameMode::Replace;
    assert_eq!(volume.lookup(directory, b"forged"), Err(DAMAGED));
    let removed = volume.remove_directory(directory, b"forged");
    assert_eq!(removed, Err(DAMAGED));
    for (from, to) in [(directory, directory), (directory, ROOT)] {
        let renamed = volume.rename(from, b"forged", to, b"away", replace);
        assert_eq!(renamed, Err(DAMAGED));
    }
}

#[test]
fn a_directory_that_names_itself_is_damage_and_not_waited_for() {
    let mut forged = Forged::new(|volume| _ = mkdir(volume, ROOT, "d"));
    forged.add_name(ROOT, ROOT, FileKind::Directory, 90);
    let volume = forged.attach();
    leads_nowhere(&volume, ROOT);
    drop(volume);
    assert!(!forged.check(false).findings.is_empty());
}

#[test]
fn a_directory_that_names_one_above_it_is_damage() {
    let (mut above, mut below) = (ROOT, ROOT);
    let mut forged = Forged::new(|volume| {
        above = mkdir(volume, ROOT, "d");
        below = mkdir(volume, above, "below");
        mkdir(volume, below, "x");
    });
    forged.add_name(below, above, FileKind::Directory, 90);
    let volume = forged.attach();
    leads_nowhere(&volume, below);
    // Down the tree and up it at once: each would wait for the other.
    std::thread::scope(|scope| {
        for (directory, name) in [(above, b"below".as_slice()), (below, b"forged")] {
            let volume = &volume;
            scope.spawn(move || {
                for _ in 0..2000 {
                    let _ = volume.lookup(directory, name);
                }
                volume.thread_exit();
            });
        }
    });
}

#[test]
fn a_directory_that_calls_itself_a_file_is_damage() {
    let mut forged = Forged::new(|volume| _ = mkdir(volume, ROOT, "d"));
    forged.add_name(ROOT, ROOT, FileKind::Regular, 90);
    let volume = forged.attach();
    assert_eq!(volume.unlink(ROOT, b"forged"), Err(DAMAGED));
    assert_eq!(volume.lookup(ROOT, b"forged"), Err(DAMAGED));
    let directory = volume.lookup(ROOT, b"d").expect("d").ino;
    drop(volume);
    let mut other = Forged::new(|volume| _ = mkdir(volume, ROOT, "d"));
    other.add_name(ROOT, directory, FileKind::Regular, 90);
    let volume = other.attach();
    assert_eq!(volume.unlink(ROOT, b"forged"), Err(DAMAGED));
}

#[test]
fn of_a_name_that_is_there_twice_the_later_counts() {
    let (mut first, mut second) = (ROOT, ROOT);
    let mut forged = Forged::new(|volume| {
        first = create(volume, "forged");
        second = create(volume, "other");
    });
    for cookie in 90..130 {
        forged.add_name(ROOT, second, FileKind::Regular, cookie);
    }
    let volume = forged.attach();
    assert_eq!(names(&volume, ROOT), [".", "..", "other", "forged"]);
    assert_eq!(volume.lookup(ROOT, b"forged").expect("found").ino, second);
    drop(volume);
    let report = forged.check(true);
    let told = |words: &str| {
        report
            .findings
            .iter()
            .any(|found| found.what.contains(words))
    };
    assert!(told("a name that is there twice"), "{report:?}");
    assert!(told(&format!("inode {} (Regular", first.0)), "{report:?}");
    let volume = forged.attach();
    let kept = volume.lookup(ROOT, b"lost+found").expect("lost+found");
    let name = format!("#{}", first.0);
    assert_eq!(
        volume.lookup(kept.ino, name.as_bytes()).expect("kept").ino,
        first
    );
}

#[test]
fn names_whose_places_do_not_grow_or_have_no_end_are_damage() {
    for cookie in [0, 3, 1 << 62, u64::MAX] {
        let mut file = ROOT;
        let mut directory = ROOT;
        let mut forged = Forged::new(|volume| {
            file = create(volume, "file");
            directory = mkdir(volume, ROOT, "d");
            mkdir(volume, directory, "x");
        });
        forged.add_name(directory, file, FileKind::Regular, cookie);
        let volume = forged.attach();
        assert_eq!(volume.lookup(directory, b"x"), Err(DAMAGED), "{cookie}");
        let exchanged = volume.rename(directory, b"x", ROOT, b"file", RenameMode::Exchange);
        assert_eq!(exchanged, Err(DAMAGED));
    }
}

#[test]
fn a_directory_in_use_that_counts_no_name_is_damage() {
    let (mut directory, mut child) = (ROOT, ROOT);
    let mut forged = Forged::new(|volume| {
        directory = mkdir(volume, ROOT, "d");
        child = mkdir(volume, directory, "child");
    });
    let state = AttributeState {
        mode: libc::S_IFDIR | 0o755,
        uid: 0,
        gid: 0,
        nlink: 0,
        size_bytes: 0,
        atime_ns: 0,
        mtime_ns: 0,
        parent: ROOT.0,
    };
    forged.append(directory, &Entry::Attributes(state));
    let volume = forged.attach();
    // Not an empty directory: its child would be taken for lost.
    assert_eq!(
        volume.read_directory(directory, 0, &mut |_| true),
        Err(DAMAGED)
    );
    assert_eq!(volume.lookup(ROOT, b"d"), Err(DAMAGED));
}

#[test]
fn a_symbolic_link_without_target_is_found() {
    let mut link = ROOT;
    let mut forged = Forged::new(|volume| {
        link = volume
            .symlink(ROOT, b"link", &[b't'; 300], 0, 0)
            .expect("symlink")
            .ino;
    });
    assert!(forged.check(false).findings.is_empty());
    let hole = Entry::Hole {
        file_block: 0,
        count: 1,
        size_bytes: 300,
    };
    forged.append(link, &hole);
    let report = forged.check(false);
    assert!(
        report.findings.iter().any(|found| found.affects == "/link"),
        "{report:?}"
    );
    assert_eq!(forged.attach().read_link(link), Err(DAMAGED));
}

/// A volume with the files `first` and `second`, each with this content.
fn two_files(content: &[u8]) -> (Forged, [InodeNumber; 2]) {
    let mut files = [ROOT; 2];
    let forged = Forged::new(|volume| {
        for (ino, name) in files.iter_mut().zip(["first", "second"]) {
            *ino = create(volume, name);
            let file = volume.open(*ino, None).expect("open");
            assert_eq!(volume.write(file, 0, content), Ok(content.len()));
            volume.close(*ino);
        }
    });
    (forged, files)
}

/// An entry that maps all data blocks of the pool, from this block of a file on.
fn everything(forged: &Forged, file_block: u64) -> Entry<'static> {
    let geometry = Geometry::new(0, forged.pool.blocks());
    Entry::Write(WriteEntry {
        file_block,
        count: geometry.blocks - geometry.data_block.0,
        pool: PoolIndex(0),
        block: BlockNumber(geometry.data_block.0),
        size_bytes: 5000,
        unwritten: false,
        touches_mtime: false,
        sums: &[],
    })
}

#[test]
fn blocks_that_two_own_are_told_in_runs() {
    let (mut forged, [_, second]) = two_files(&[1; 5000]);
    for part in 0..40 {
        forged.append(second, &everything(&forged, part << 40));
    }
    let report = forged.check(false);
    let shared = report
        .findings
        .iter()
        .filter(|found| found.what.contains("blocks"));
    assert!(
        (40..200).contains(&shared.count()),
        "{}",
        report.findings.len()
    );
}

#[test]
fn a_repair_that_does_not_work_is_not_called_one() {
    let mut file = ROOT;
    let mut forged = Forged::new(|volume| {
        file = create(volume, "file");
        let change = AttributeChange {
            permissions: Some(0o600),
            ..AttributeChange::default()
        };
        volume.set_attributes(file, &change).expect("chmod");
    });
    let state = AttributeState {
        mode: libc::S_IFREG | 0o600,
        uid: 0,
        gid: 0,
        nlink: 7,
        size_bytes: 0,
        atime_ns: 0,
        mtime_ns: 0,
        parent: 0,
    };
    // To the last line of the page: what counts the names again needs a page.
    let (_, commit) = forged.record(file);
    for _ in commit.tail.line()..PAGE_LINES {
        forged.append(file, &Entry::Attributes(state));
    }
    let (report, _) = with_failures(Resource::Blocks, 0..u64::MAX, || forged.check(true));
    assert_eq!(report.repaired, 0);
    assert!(
        report.findings.iter().all(|found| !found.repairable),
        "{report:?}"
    );
    assert_eq!(forged.check(true).repaired, 1);
    assert!(forged.check(false).findings.is_empty());
}

#[test]
fn what_two_own_is_given_to_no_third() {
    let (mut forged, [first, second]) = two_files(&[7; 4096]);
    forged.append(second, &everything(&forged, 1));
    let volume = forged.attach();
    volume.unlink(ROOT, b"second").expect("unlink");
    // Every block that is free is written to.
    if let Ok(third) = volume.create(ROOT, b"third", &FILE) {
        let file = volume.open(third.ino, None).expect("open");
        while volume
            .append(file, &[9; 4096])
            .is_ok_and(|(_, count)| count > 0)
        {}
        volume.close(third.ino);
    }
    let mut bytes = [0; 4096];
    let file = volume.open(first, None).expect("open");
    assert_eq!(volume.read(file, 0, &mut bytes), Ok(4096));
    volume.close(first);
    assert!(bytes == [7; 4096], "another file's bytes");
    let space = volume.space(None);
    assert!(space.free_blocks <= space.blocks, "{space:?}");
}

#[test]
fn names_in_findings_neither_end_lines_nor_steer_terminals() {
    let mut forged = Forged::new(|volume| _ = mkdir(volume, ROOT, "d"));
    let name = b"new\nline \x1b[31m red";
    let entry = Entry::NameAdd {
        ino: 4000,
        kind: FileKind::Regular as u8,
        cookie: 90,
        name,
    };
    forged.append(ROOT, &entry);
    let report = forged.check(false);
    assert_eq!(report.findings.len(), 1, "{report:?}");
    let Finding { what, affects, .. } = &report.findings[0];
    for line in [what, affects] {
        assert!(!line.contains(char::is_control), "{line:?}");
        assert!(line.contains("new\\nline"), "{line:?}");
    }
}

#[test]
fn limits_over_a_ring_of_directories_count_each_once() {
    let mut made = [ROOT; 2];
    let mut forged = Forged::new(|volume| {
        let outer = mkdir(volume, ROOT, "outer");
        let inner = mkdir(volume, outer, "inner");
        volume.create(inner, b"file", &FILE).expect("create");
        made = [outer, inner];
    });
    let [outer, inner] = made;
    forged.add_name(inner, outer, FileKind::Directory, 50);
    let of = |top: u64| format!("user.egeria.quota.{top}");
    let attributes = [
        (of(outer.0), "1 5 5"),
        (of(inner.0), "7 5 5"),
        (of(1 << 40), "1 5 5"),
        (of(3000), "nonsense"),
        ("user.egeria.quota.".to_owned(), "1 5 5"),
    ];
    for (name, value) in &attributes {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        forged.append(ROOT, &Entry::XattrSet { name, value });
    }
    let volume = forged.attach();
    let quotas = volume.quotas();
    assert_eq!(quotas.len(), 1, "{quotas:?}");
    assert_eq!((quotas[0].top, quotas[0].used_inodes), (outer, 3));
    assert_eq!(volume.create(inner, b"new", &FILE).map(drop), Ok(()));
    drop(volume);
    let report = forged.check(false);
    let is_named = |finding: &Finding| finding.what.contains("limits of a directory tree");
    assert!(report.findings.iter().any(is_named), "{report:#?}");
}
