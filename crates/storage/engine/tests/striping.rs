//! Files in stripes over all pools: where their data goes, who says so, and that they are files like others.

use crate::common::*;
use egeria_engine::format::*;
use egeria_engine::*;
use egeria_machine::Machine;
use proptest::prelude::*;
use std::sync::Arc;

const ROOT: InodeNumber = InodeNumber::ROOT;
const LAYOUT: &[u8] = b"user.egeria.layout";
const REFUSED: Outcome<()> = Err(Errno(libc::EOPNOTSUPP));

fn set(volume: &Volume, ino: InodeNumber, value: &str) -> Outcome<()> {
    volume.set_xattr(ino, LAYOUT, value.as_bytes(), XattrMode::Any)
}

fn striped(stripe_bytes: u64) -> FileLayout {
    FileLayout::Striped { stripe_bytes }
}

fn make(volume: &Volume, directory: InodeNumber, name: &str, new: &NewInode) -> InodeNumber {
    volume.create(directory, name.as_bytes(), new).unwrap().ino
}

/// A file of the root with a layout of its own.
fn striped_file(volume: &Volume, name: &str, value: &str) -> FileReference {
    let ino = make(volume, ROOT, name, &FILE);
    set(volume, ino, value).unwrap();
    volume.open(ino, None).unwrap()
}

fn truncate(volume: &Volume, file: FileReference, size_bytes: u64) {
    let change = AttributeChange {
        size_bytes: Some(size_bytes),
        ..AttributeChange::default()
    };
    volume.set_attributes(file.ino(), &change).unwrap();
}

fn read(volume: &Volume, file: FileReference) -> Vec<u8> {
    let size = volume.attributes(file.ino()).unwrap().size_bytes as usize;
    let mut bytes = vec![0xEE; size + 1];
    assert_eq!(volume.read(file, 0, &mut bytes), Ok(size));
    bytes.truncate(size);
    bytes
}

/// The pool of each block of a file; `None` where there is a hole.
fn pools_of_blocks(volume: &Volume, ino: InodeNumber) -> Vec<Option<u8>> {
    let mut pools = Vec::new();
    for extent in volume.extents(ino).unwrap() {
        let first = extent.file_offset_bytes as usize / BLOCK;
        let count = extent.length_bytes as usize / BLOCK;
        pools.resize(first, None);
        pools.resize(first + count, Some(extent.pool));
    }
    pools
}

/// Blocks of one stripe are on one pool, and as many stripes as there are pools are on all of them.
fn assert_striped(pools: &[Option<u8>], stripe_blocks: usize, pool_count: usize) {
    let stripes: Vec<u8> = pools
        .chunks(stripe_blocks)
        .map(|stripe| {
            assert!(stripe.iter().all(|pool| *pool == stripe[0]), "{pools:?}");
            stripe[0].expect("data")
        })
        .collect();
    for window in stripes.windows(pool_count) {
        let mut window = window.to_vec();
        window.sort_unstable();
        assert!(window.into_iter().eq(0..pool_count as u8), "{pools:?}");
    }
}

#[test]
fn stripes_lie_on_all_pools_in_turn() {
    for pool_count in [1, 2, 3, 8] {
        let scratch = Scratch::new(pool_count, 16 << 20);
        let volume = scratch.attach();
        let bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 7 + at) as u8).collect();
        for (name, value, blocks) in [("a", "striped", 8), ("b", "striped:4096", 1)] {
            let file = striped_file(&volume, name, value);
            assert_eq!(volume.write(file, 0, &bytes), Ok(bytes.len()));
            assert_striped(&pools_of_blocks(&volume, file.ino()), blocks, pool_count);
            // Blocks that are replaced go where they were.
            assert_eq!(volume.write(file, 5000, &bytes[5000..300_000]), Ok(295_000));
            assert_eq!(volume.write(file, 8192, &bytes[8192..12_288]), Ok(4096));
            assert_striped(&pools_of_blocks(&volume, file.ino()), blocks, pool_count);
            assert!(read(&volume, file) == bytes);
        }
        drop(volume);
        let volume = scratch.attach();
        for (name, stripe_bytes) in [("a", 32_768), ("b", 4096)] {
            let ino = volume.lookup(ROOT, name.as_bytes()).unwrap().ino;
            assert_eq!(volume.layout(ino), Ok(striped(stripe_bytes)));
            assert!(read(&volume, volume.open(ino, None).unwrap()) == bytes);
        }
        drop(volume);
        scratch.assert_clean();
    }
}

/// A node whose memory gives a third gets one stripe of four.
#[test]
fn stripes_follow_what_memories_give() {
    let mut machine = Machine::profile("xeon-2s-dram").expect("a profile");
    machine.nodes[1].hardware.memories[0].read_bytes_s /= 3.0;
    let options = AttachOptions {
        machine: Some(machine),
        ..AttachOptions::default()
    };
    let scratch = Scratch::new(2, 16 << 20);
    let volume = scratch.attach_with(&options);
    let file = striped_file(&volume, "file", "striped:4096");
    let bytes = vec![7; 100 * BLOCK];
    assert_eq!(volume.write(file, 0, &bytes), Ok(bytes.len()));
    let pools = pools_of_blocks(&volume, file.ino());
    let on = |pool: u8| pools.iter().filter(|each| **each == Some(pool)).count();
    assert_eq!((on(0), on(1)), (75, 25), "{pools:?}");
    assert!(read(&volume, file) == bytes);
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn reserved_blocks_are_striped_too() {
    let scratch = Scratch::new(3, 16 << 20);
    let volume = scratch.attach();
    let file = striped_file(&volume, "file", "striped:16384");
    volume
        .allocate(file, 0, 1 << 20, AllocateMode::Extend)
        .unwrap();
    assert_striped(&pools_of_blocks(&volume, file.ino()), 4, 3);
}

#[test]
fn small_files_are_spread() {
    let scratch = Scratch::new(4, 16 << 20);
    let volume = scratch.attach();
    set(&volume, ROOT, "striped").unwrap();
    let mut begun = [0; 4];
    for number in 0..200 {
        let ino = make(&volume, ROOT, &number.to_string(), &FILE);
        volume
            .write(volume.open(ino, None).unwrap(), 0, b"small")
            .unwrap();
        begun[pools_of_blocks(&volume, ino)[0].expect("data") as usize] += 1;
    }
    assert!(begun.iter().all(|count| *count > 20), "{begun:?}");
}

#[test]
fn what_is_made_in_a_directory_has_its_layout() {
    let scratch = Scratch::new(2, 16 << 20);
    let volume = scratch.attach();
    let outer = make(&volume, ROOT, "outer", &DIRECTORY);
    let before = make(&volume, outer, "before", &FILE);
    set(&volume, outer, "striped:8192").unwrap();
    let inner = make(&volume, outer, "inner", &DIRECTORY);
    let file = make(&volume, inner, "file", &FILE);
    let unnamed = volume.create_unnamed(inner, &FILE).unwrap().ino;
    let device = NewInode {
        mode: libc::S_IFIFO | 0o644,
        ..FILE
    };
    let fifo = make(&volume, inner, "fifo", &device);
    set(&volume, inner, "local").unwrap();
    let local = make(&volume, inner, "local", &FILE);
    volume.remove_xattr(outer, LAYOUT).unwrap();
    let plain = make(&volume, outer, "plain", &DIRECTORY);
    let stays = make(&volume, inner, "stays", &DIRECTORY);
    volume
        .rename(outer, b"before", inner, b"moved", RenameMode::Replace)
        .unwrap();
    assert_eq!(volume.layout(unnamed), Ok(striped(8192)));
    volume.close(unnamed);
    let expected = [
        (outer, FileLayout::Unset),
        (before, FileLayout::Unset),
        (inner, FileLayout::Local),
        (file, striped(8192)),
        (fifo, FileLayout::Unset),
        (local, FileLayout::Local),
        (plain, FileLayout::Unset),
        (stays, FileLayout::Local),
    ];
    let check = |volume: &Volume| {
        for (ino, layout) in &expected {
            assert_eq!(volume.layout(*ino), Ok(*layout), "{ino:?}");
        }
        let value = |ino| volume.get_xattr(ino, LAYOUT);
        assert_eq!(value(file), Ok(b"striped:8192".to_vec()));
        assert_eq!(value(stays), Ok(b"local".to_vec()));
        assert_eq!(value(plain), Err(Errno(libc::ENODATA)));
        assert_eq!(volume.list_xattr(stays), Ok(vec![LAYOUT.to_vec()]));
        assert_eq!(volume.list_xattr(file), Ok(Vec::new()));
    };
    check(&volume);
    drop(volume);
    check(&scratch.attach());
    scratch.assert_clean();
}

#[test]
fn only_files_without_data_change_their_layout() {
    let scratch = Scratch::new(2, 16 << 20);
    let volume = scratch.attach();
    let file = striped_file(&volume, "file", "striped");
    let ino = file.ino();
    for nonsense in [
        "",
        "striped:0",
        "striped:5000",
        "striped:99999999999",
        "all",
    ] {
        assert_eq!(set(&volume, ino, nonsense), Err(Errno(libc::EINVAL)));
        assert_eq!(set(&volume, ROOT, nonsense), Err(Errno(libc::EINVAL)));
    }
    assert_eq!(set(&volume, ino, "striped:65536"), Ok(()));
    volume.write(file, 0, b"data").unwrap();
    assert_eq!(set(&volume, ino, "local"), REFUSED);
    assert_eq!(
        set(&volume, ino, "striped:65536"),
        Ok(()),
        "nothing changes"
    );
    assert_eq!(volume.remove_xattr(ino, LAYOUT), REFUSED);
    truncate(&volume, file, 0);
    volume.allocate(file, 0, 1, AllocateMode::KeepSize).unwrap();
    assert_eq!(set(&volume, ino, "local"), REFUSED, "blocks are reserved");
    volume
        .allocate(file, 0, BLOCK as u64, AllocateMode::PunchHole)
        .unwrap();
    let create = volume.set_xattr(ino, LAYOUT, b"local", XattrMode::Create);
    assert_eq!(create, Err(Errno(libc::EEXIST)));
    let replace = volume.set_xattr(ino, LAYOUT, b"local", XattrMode::Replace);
    assert_eq!(replace, Ok(()));
    assert_eq!(volume.remove_xattr(ino, LAYOUT), Ok(()));
    let again = volume.remove_xattr(ino, LAYOUT);
    assert_eq!(again, Err(Errno(libc::ENODATA)));
    let create = volume.set_xattr(ino, LAYOUT, b"striped", XattrMode::Create);
    assert_eq!(create, Ok(()));
    volume.symlink(ROOT, b"link", b"file", 0, 0).unwrap();
    let link = volume.lookup(ROOT, b"link").unwrap().ino;
    assert_eq!(set(&volume, link, "striped"), REFUSED);
}

/// Both kinds of a file's layout: its own, and one that it was born with and lost.
#[test]
fn compaction_keeps_layouts() {
    let scratch = Scratch::new(2, 16 << 20);
    let volume = scratch.attach();
    let own = striped_file(&volume, "own", "striped:8192");
    let directory = make(&volume, ROOT, "directory", &DIRECTORY);
    set(&volume, directory, "striped").unwrap();
    let lost = make(&volume, directory, "lost", &FILE);
    volume.remove_xattr(lost, LAYOUT).unwrap();
    let lost = volume.open(lost, None).unwrap();
    let check = |volume: &Volume| {
        assert_eq!(volume.layout(own.ino()), Ok(striped(8192)));
        assert_eq!(volume.layout(lost.ino()), Ok(FileLayout::Unset));
        assert_eq!(volume.layout(directory), Ok(striped(32_768)));
    };
    for round in 0..3000 {
        let at = round % 50 * BLOCK as u64;
        for file in [own, lost] {
            volume.write(file, at, &[round as u8; BLOCK]).unwrap();
        }
        let value = round.to_string();
        volume
            .set_xattr(directory, b"user.round", value.as_bytes(), XattrMode::Any)
            .unwrap();
    }
    // The log of a directory is its size; 64 changes fit on a page.
    let log_bytes = volume.attributes(directory).unwrap().size_bytes;
    assert!(log_bytes < 3000 / 64 * BLOCK as u64, "{log_bytes}");
    check(&volume);
    drop(volume);
    check(&scratch.attach());
    scratch.assert_clean();
}

#[test]
fn a_session_that_stripes_makes_striped_files() {
    let scratch = Scratch::new(3, 16 << 20);
    let volume = scratch.attach();
    let old = make(&volume, ROOT, "old", &FILE);
    volume.set_allocation(AllocationPolicy::Striped);
    assert_eq!(volume.allocation(), AllocationPolicy::Striped);
    let directory = make(&volume, ROOT, "directory", &DIRECTORY);
    let new = make(&volume, directory, "new", &FILE);
    set(&volume, directory, "local").unwrap();
    let local = make(&volume, directory, "local", &FILE);
    for (ino, layout) in [
        (old, FileLayout::Unset),
        (directory, FileLayout::Local),
        (new, striped(32_768)),
        (local, FileLayout::Local),
    ] {
        assert_eq!(volume.layout(ino), Ok(layout), "{ino:?}");
    }
    for ino in [old, new] {
        let file = volume.open(ino, None).unwrap();
        volume.write(file, 0, &[1; 1 << 18]).unwrap();
        assert_striped(&pools_of_blocks(&volume, ino), 8, 3);
    }
    let file = volume.open(local, None).unwrap();
    volume.write(file, 0, &[1; 1 << 18]).unwrap();
    let pools = pools_of_blocks(&volume, local);
    assert!(pools.iter().all(|pool| *pool == pools[0]), "{pools:?}");
}

/// Older programs, which know no layouts, must be able to read it afterwards.
#[test]
fn volumes_of_older_versions_keep_no_layouts() {
    for version in [2, 3] {
        let scratch = Scratch::new(2, 16 << 20);
        scratch.age(version);
        let striping = AttachOptions {
            allocation: Some(AllocationPolicy::Striped),
            ..AttachOptions::default()
        };
        let volume = scratch.attach_with(&striping);
        let ino = make(&volume, ROOT, "file", &FILE);
        assert_eq!(set(&volume, ino, "striped"), REFUSED);
        assert_eq!(set(&volume, ROOT, "striped"), REFUSED);
        assert_eq!(volume.layout(ino), Ok(FileLayout::Unset));
        let file = volume.open(ino, None).unwrap();
        volume.write(file, 0, &[7; 1 << 18]).unwrap();
        assert_striped(&pools_of_blocks(&volume, ino), 8, 2);
        drop(volume);
        let volume = scratch.attach();
        assert!(read(&volume, volume.open(ino, None).unwrap()) == [7; 1 << 18]);
        drop(volume);
        scratch.assert_clean();
    }
}

#[test]
fn stripes_of_a_full_pool_go_to_others() {
    let scratch = Scratch::new(2, 16 << 20);
    let volume = scratch.attach();
    volume.set_allocation(AllocationPolicy::Pool(0));
    let filler = volume
        .open(make(&volume, ROOT, "filler", &FILE), None)
        .unwrap();
    volume.write(filler, 0, &vec![1; 12 << 20]).unwrap();
    let file = striped_file(&volume, "file", "striped");
    let bytes: Vec<u8> = (0..12 << 20).map(|at: u32| (at / 3 + at) as u8).collect();
    assert_eq!(volume.write(file, 0, &bytes), Ok(bytes.len()));
    assert!(read(&volume, file) == bytes);
    drop(volume);
    scratch.assert_clean();
}

const BLOCKS: u64 = 64;
const BLOCK_BYTES: u64 = BLOCK as u64;

/// A striped file of [`BLOCKS`] blocks.
fn filled_file(volume: &Volume) -> FileReference {
    let file = striped_file(volume, "file", "striped:4096");
    volume
        .write(file, 0, &[1; (BLOCKS * BLOCK_BYTES) as usize])
        .unwrap();
    file
}

fn is_in_place(volume: &Volume, file: FileReference, body: impl Fn()) -> bool {
    let before = volume.extents(file.ino()).expect("extents");
    body();
    volume.extents(file.ino()).expect("extents") == before
}

#[test]
fn written_blocks_are_changed_where_they_lie() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let file = filled_file(&volume);
    // A second may end between two writes, not in each of ten tries.
    let is_in_place = |at, bytes: usize| {
        is_in_place(&volume, file, || {
            volume.write(file, at, &vec![5; bytes]).expect("write");
        })
    };
    assert!((0..10).any(|_| is_in_place(0, 4096)));
    assert!((0..10).any(|_| is_in_place(100, 1)));
    assert!((0..10).any(|_| is_in_place(5000, 100_000)));
    let end = BLOCKS * BLOCK_BYTES;
    assert!(!is_in_place(end - 1, 2), "the file grows");
    let allocate = |at, mode| {
        volume
            .allocate(file, at, BLOCK_BYTES, mode)
            .expect("allocate")
    };
    allocate(0, AllocateMode::PunchHole);
    assert!(!is_in_place(10, 10), "a hole is filled");
}

/// Whoever writes in place holds the block it writes: what others change meanwhile takes none away.
#[test]
fn in_place_writers_and_index_changes_exclude_each_other() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let file = filled_file(&volume);
    let other = volume.create(InodeNumber::ROOT, b"other", &FILE);
    let other = volume.open(other.expect("create").ino, None).expect("open");
    let over = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for writer in 0..3u64 {
            let (volume, over) = (&volume, &over);
            scope.spawn(move || {
                let mut at = writer;
                while !over.load(order) {
                    at = (at * 7 + 3 + writer) % BLOCKS;
                    let written = volume.write(file, at * BLOCK_BYTES, &[0xAA; 4096]);
                    assert_eq!(written, Ok(4096));
                }
            });
        }
        for round in 0..4000u64 {
            let at = round * 5 % BLOCKS * BLOCK_BYTES;
            volume
                .allocate(file, at, 3 * BLOCK_BYTES, AllocateMode::PunchHole)
                .expect("punch");
            // Takes the blocks that came free.
            let bytes = [0x55; 4 * BLOCK_BYTES as usize];
            volume
                .write(other, round % 8 * BLOCK_BYTES, &bytes)
                .expect("write");
            if round % 64 == 0 {
                let mut all = vec![0; 11 * BLOCK_BYTES as usize];
                let read = volume.read(other, 0, &mut all).expect("read");
                assert!(all[..read].iter().all(|byte| *byte == 0x55));
            }
        }
        over.store(true, order);
    });
}

/// What is done to a file.
#[derive(Clone, Debug)]
enum Step {
    Write {
        at: usize,
        bytes: usize,
        byte: u8,
    },
    Append {
        bytes: usize,
        byte: u8,
    },
    Truncate(usize),
    Allocate {
        at: usize,
        bytes: usize,
        mode: AllocateMode,
    },
}

const MAX_FILE: usize = 200_000;

fn step() -> impl Strategy<Value = Step> {
    let range = (0..MAX_FILE, 1..80_000usize);
    let mode = prop::sample::select(vec![
        AllocateMode::Extend,
        AllocateMode::KeepSize,
        AllocateMode::PunchHole,
        AllocateMode::ZeroRange,
        AllocateMode::ZeroRangeKeepSize,
    ]);
    prop_oneof![
        4 => (range.clone(), 1..=255u8)
            .prop_map(|((at, bytes), byte)| Step::Write { at, bytes, byte }),
        1 => (1..60_000usize, 1..=255u8).prop_map(|(bytes, byte)| Step::Append { bytes, byte }),
        1 => (0..MAX_FILE).prop_map(Step::Truncate),
        2 => (range, mode).prop_map(|((at, bytes), mode)| Step::Allocate { at, bytes, mode }),
    ]
}

/// The same step of a vector of bytes, and of the file.
fn take(step: &Step, model: &mut Vec<u8>, volume: &Volume, file: FileReference) {
    let mut put = |at: usize, bytes: &[u8]| {
        model.resize(model.len().max(at + bytes.len()), 0);
        model[at..at + bytes.len()].copy_from_slice(bytes);
    };
    match *step {
        Step::Write { at, bytes, byte } => {
            put(at, &vec![byte; bytes]);
            let written = volume.write(file, at as u64, &vec![byte; bytes]);
            assert_eq!(written, Ok(bytes));
        }
        Step::Append { bytes, byte } => {
            model.resize(model.len() + bytes, byte);
            let appended = volume.append(file, &vec![byte; bytes]).unwrap();
            assert_eq!(appended, ((model.len() - bytes) as u64, bytes));
        }
        Step::Truncate(size) => {
            model.resize(size, 0);
            truncate(volume, file, size as u64);
        }
        Step::Allocate { at, bytes, mode } => {
            let end = at + bytes;
            match mode {
                AllocateMode::Extend => model.resize(model.len().max(end), 0),
                AllocateMode::KeepSize => {}
                AllocateMode::ZeroRange => put(at, &vec![0; bytes]),
                AllocateMode::PunchHole | AllocateMode::ZeroRangeKeepSize => {
                    let size = model.len();
                    model[at.min(size)..end.min(size)].fill(0);
                }
            }
            volume
                .allocate(file, at as u64, bytes as u64, mode)
                .unwrap();
        }
    }
}

fn run(
    volume: &Arc<Volume>,
    steps: &[Step],
    checksums: bool,
    value: &str,
) -> (InodeNumber, Vec<u8>) {
    if checksums {
        set_checksums(volume, ROOT, b"crc32c").unwrap();
    }
    let file = striped_file(volume, "file", value);
    let mut model = Vec::new();
    for step in steps {
        take(step, &mut model, volume, file);
        assert!(read(volume, file) == model, "after {step:?}");
    }
    (file.ino(), model)
}

#[test]
fn striped_files_hold_what_was_written() {
    let steps = prop::collection::vec(step(), 1..30);
    let inputs = (steps, 1..5usize, 1..9u64, any::<bool>());
    let config = ProptestConfig::with_cases(48);
    proptest!(config, |((steps, pools, stripe_blocks, checksums) in inputs)| {
        let scratch = Scratch::new(pools, 12 << 20);
        let volume = scratch.attach();
        let value = format!("striped:{}", stripe_blocks * BLOCK as u64);
        let (ino, model) = run(&volume, &steps, checksums, &value);
        drop(volume);
        let volume = scratch.attach();
        let file = volume.open(ino, None).unwrap();
        assert!(read(&volume, file) == model, "in the next session");
        drop(volume);
        scratch.assert_clean();
    });
}
