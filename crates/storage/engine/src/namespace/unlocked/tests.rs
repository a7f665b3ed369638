use crate::log::Log;
use crate::session::layout::CHANGING;
use crate::session::seqlock::WriteSection;
use crate::space::operation::Operation;
use crate::test_volume::{Stopped, new_volume};
use crate::*;
use egeria_media::BlockNumber;
use std::arch::asm;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const FILE: NewInode = NewInode {
    mode: libc::S_IFREG | 0o640,
    uid: 3,
    gid: 4,
    rdev: 0,
};
const DIRECTORY: NewInode = NewInode {
    mode: libc::S_IFDIR | 0o755,
    ..FILE
};
const ROOT: InodeNumber = InodeNumber::ROOT;

const SUMS: &[u8] = b"user.egeria.checksum";
const LAYOUT: &[u8] = b"user.egeria.layout";

/// A file and a directory with a history; the data of the file with checksums or without.
fn fill(volume: &Volume, has_sums: bool) -> (FileReference, InodeNumber) {
    let directory = volume.create(ROOT, b"d", &DIRECTORY).expect("mkdir").ino;
    let set = |ino, name: &[u8], value: &[u8]| {
        volume
            .set_xattr(ino, name, value, XattrMode::Any)
            .expect("an attribute");
    };
    for name in 0..200 {
        let name = format!("n{name}");
        volume
            .create(directory, name.as_bytes(), &FILE)
            .expect("create");
    }
    for name in (0..200).step_by(3) {
        let name = format!("n{name}");
        volume.unlink(directory, name.as_bytes()).expect("unlink");
    }
    volume.create(directory, b"s", &DIRECTORY).expect("mkdir");
    let (from, to) = (b"n1", b"n200");
    let mode = RenameMode::Replace;
    volume
        .rename(directory, from, directory, to, mode)
        .expect("rename");
    if has_sums {
        set(directory, SUMS, b"crc32c");
    }
    set(directory, b"user.of", b"a directory");
    let ino = volume.create(directory, b"f", &FILE).expect("create").ino;
    for (name, value) in [(b"user.a", b"1"), (b"user.b", b"2"), (b"user.a", b"3")] {
        set(ino, name, value);
    }
    volume.remove_xattr(ino, b"user.b").expect("remove");
    let file = volume.open(ino, None).expect("open");
    let bytes: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
    volume.write(file, 0, &bytes).expect("write");
    volume.write(file, 9_000, b"over blocks").expect("write");
    volume.write(file, 300_000, b"far").expect("write");
    let hole = AllocateMode::PunchHole;
    volume.allocate(file, 20_000, 30_000, hole).expect("punch");
    let reserve = AllocateMode::Extend;
    volume
        .allocate(file, 200_000, 20_000, reserve)
        .expect("reserve");
    let cut = AttributeChange {
        size_bytes: Some(280_001),
        permissions: Some(0o600),
        ..AttributeChange::default()
    };
    volume.set_attributes(ino, &cut).expect("truncate");
    (file, directory)
}

type Seen = (
    Attributes,
    Attributes,
    Vec<(u64, Vec<u8>)>,
    Vec<Outcome<InodeNumber>>,
    Vec<u8>,
    Vec<Outcome<u64>>,
    Vec<Outcome<Vec<u8>>>,
    Vec<Vec<Vec<u8>>>,
);

/// All that a reader can see of the two.
fn look(volume: &Volume, file: FileReference, directory: InodeNumber) -> Seen {
    let mut names = Vec::new();
    volume
        .read_directory(directory, 0, &mut |entry| {
            names.push((entry.cookie, entry.name.to_vec()));
            true
        })
        .expect("list");
    let looked_up = [b"n2".as_slice(), b"n3", b"n1", b"n200", b"s", b"..", b"."];
    let looked_up = looked_up.map(|name| volume.lookup(directory, name).map(|found| found.ino));
    let mut data = vec![7; 400_000];
    let read = volume.read(file, 0, &mut data).expect("read");
    data.truncate(read);
    let offsets = (0..320_000).step_by(1000);
    let both = |offset| {
        [
            volume.seek_data(file, offset),
            volume.seek_hole(file, offset),
        ]
    };
    let both_inodes = [file.ino(), directory];
    let values = both_inodes.map(|ino| {
        let names = [b"user.a".as_slice(), b"user.b", b"user.of", SUMS, LAYOUT];
        names.map(|name| volume.get_xattr(ino, name))
    });
    let listed = both_inodes.map(|ino| volume.list_xattr(ino).expect("attributes"));
    (
        volume.attributes(file.ino()).expect("attributes"),
        volume.attributes(directory).expect("attributes"),
        names,
        looked_up.to_vec(),
        data,
        offsets.flat_map(both).collect(),
        values.into_iter().flatten().collect(),
        listed.to_vec(),
    )
}

/// Simulates a writer that is stopped between any two stores.
#[test]
fn unlocked_reads_ignore_a_stopped_writer() {
    for has_sums in [false, true] {
        looks_ignore_a_stopped_writer(has_sums);
    }
}

fn looks_ignore_a_stopped_writer(has_sums: bool) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let volume = new_volume(&directory).0;
    let (file, names) = fill(&volume, has_sums);
    let before = look(&volume, file, names);
    let held = [file.ino(), names].map(|ino| volume.lock(ino.0).expect("a lock"));
    let locked_only = std::thread::scope(|scope| scope.spawn(|| look(&volume, file, names)).join());
    assert_eq!(locked_only.expect("a thread"), before);
    let changing = held.each_ref().map(|held| WriteSection::begin(held.inode));
    let amid_change = std::thread::scope(|scope| scope.spawn(|| look(&volume, file, names)).join());
    assert_eq!(amid_change.expect("a thread"), before);
    changing.into_iter().for_each(WriteSection::end);
    drop(held);
    assert_eq!(look(&volume, file, names), before);
}

#[test]
fn damage_is_told_beside_a_stopped_writer() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let volume = new_volume(&directory).0;
    let (file, _) = fill(&volume, true);
    let first = volume.extents(file.ino()).expect("extents")[0];
    let damaged = BlockNumber(first.block).offset() + 77;
    volume.pools()[usize::from(first.pool)]
        .write_bytes(damaged, b"not what was written")
        .expect("a store");
    let held = volume.lock(file.ino().0).expect("a lock");
    let changing = WriteSection::begin(held.inode);
    let read = |offset| volume.read(file, offset, &mut [0; 100]);
    let read = || [read(4096), read(0)];
    let seen = std::thread::scope(|scope| scope.spawn(read).join()).expect("a thread");
    assert_eq!(seen, [Ok(100), Err(Errno(libc::EIO))]);
    changing.end();
}

/// Whose turn it is: the child executes an instruction, then the reader checks; or the test has ended.
static TURN: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
const STEPS: u32 = 0;
const LOOKS: u32 = 1;
const ENDED: u32 = 2;

fn turn() -> &'static AtomicU32 {
    // SAFETY: set before the child begins, to memory that is never given back.
    unsafe { &*TURN.load(Ordering::Relaxed) }
}

extern "C" fn let_others_look(_: i32) {
    turn().store(LOOKS, Ordering::SeqCst);
    while turn().load(Ordering::SeqCst) == LOOKS {
        // On a busy machine the waiting process would keep the CPU that the other one needs.
        // SAFETY: a call without operands, which a signal handler may make.
        unsafe { libc::sched_yield() };
    }
}

/// Runs `act` in a child, and `look` here before each of its instructions.
fn between_instructions(volume: &Volume, act: impl Fn(&Volume), mut look: impl FnMut()) {
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory, zeroed, which both processes have.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, shared, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    TURN.store(memory.cast(), Ordering::Relaxed);
    // SAFETY: the child uses the volume alone, and ends without what the parent has to end.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        volume.after_fork_in_child();
        // SAFETY: the handler does nothing that a signal may not, and the flag is the child's own.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = let_others_look as *const () as usize;
            libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut());
            asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        }
        act(volume);
        // SAFETY: as above.
        unsafe { asm!("pushfq", "and qword ptr [rsp], -257", "popfq") };
        turn().store(ENDED, Ordering::SeqCst);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    // A failed check must not leave the child behind, waiting.
    struct Child(i32);
    impl Drop for Child {
        fn drop(&mut self) {
            // SAFETY: only a signal, to a child that was not waited for.
            unsafe { libc::kill(self.0, libc::SIGKILL) };
        }
    }
    let killed_at_last = Child(child);
    let mut goes_on = std::time::Instant::now();
    loop {
        match turn().load(Ordering::SeqCst) {
            LOOKS => {
                look();
                turn().store(STEPS, Ordering::SeqCst);
                goes_on = std::time::Instant::now();
            }
            ENDED => break,
            _ => {
                assert!(goes_on.elapsed().as_secs() < 60, "the child does not go on");
                std::thread::yield_now();
            }
        }
    }
    let mut status = 0;
    // SAFETY: an out-parameter; the child belongs to this process.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    std::mem::forget(killed_at_last);
    assert_eq!(status, 0);
}

/// Between the commit and the load of the table, the names' places in the new log differ from those in the table.
#[test]
fn looks_beside_compaction_find_all_names() {
    const NAMES: usize = 3;
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, _) = new_volume(&directory);
    for name in 0..NAMES {
        let made = volume.create(ROOT, format!("n{name}").as_bytes(), &FILE);
        made.expect("create");
    }
    let compact = |volume: &Volume| {
        let locked = volume.lock(ROOT.0).expect("a lock");
        let mut operation = Operation::new(volume, locked.me);
        Log::of(volume)
            .compact(&locked, &mut operation)
            .expect("compact");
    };
    let mut looks = 0;
    between_instructions(&volume, compact, || {
        let mut names = 0;
        let each = &mut |entry: &DirectoryEntry<'_>| {
            names += usize::from(entry.name.starts_with(b"n"));
            true
        };
        volume.read_directory(ROOT, 0, each).expect("a listing");
        assert_eq!(names, NAMES, "after {looks} instructions");
        volume.lookup(ROOT, b"n1").expect("a name");
        looks += 1;
    });
    assert!(looks > 1000, "{looks}");
}

#[test]
fn a_listing_beside_a_load_that_is_stopped_has_all_names() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, _) = new_volume(&directory);
    for name in [b"one", b"two"] {
        volume.create(ROOT, name, &FILE).expect("create");
    }
    let stopped = Stopped::in_child(&volume, |volume| {
        let locked = volume.lock(ROOT.0).expect("the root");
        volume.unload(&locked);
        locked.inode.state.store(CHANGING, Ordering::Release);
        Ok(locked)
    });
    let end = volume.directory_end(ROOT).expect("an end");
    let mut names = Vec::new();
    let mut each = |entry: &DirectoryEntry<'_>| {
        names.push(entry.name.to_vec());
        true
    };
    volume
        .read_directory_until(ROOT, 0, end, &mut each)
        .expect("a listing");
    assert!(names.contains(&b"one".to_vec()) && names.contains(&b"two".to_vec()));
    stopped.kill();
    assert!(volume.lookup(ROOT, b"two").is_ok());
}
