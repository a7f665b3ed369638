//! Media that fail: `EIO`, no signal, and everything that can still be had is.

use crate::common::*;
use crate::failpoints::acts::{ACTS, data, prepare};
use egeria_engine::format::BLOCK;
use egeria_engine::*;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

const ROOT: InodeNumber = InodeNumber::ROOT;

/// Map a block of a pool to a file from an offset.
fn map_over(volume: &Volume, pool: usize, block: u64, file: &File, offset: u64) {
    let at = volume.pools()[pool]
        .base()
        .wrapping_add(block as usize * BLOCK);
    // SAFETY: a page of the pool's own mapping, which all access reaches by guarded routines.
    let mapped = unsafe {
        libc::mmap(
            at.cast(),
            BLOCK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
            file.as_raw_fd(),
            offset as i64,
        )
    };
    assert_eq!(mapped.cast(), at, "{}", std::io::Error::last_os_error());
}

fn open(path: &Path) -> File {
    File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("open")
}

/// A block whose every access is a SIGBUS until this is dropped, as of poisoned memory.
struct Poison<'a> {
    volume: &'a Volume,
    pool: usize,
    block: u64,
    file: File,
}

impl<'a> Poison<'a> {
    fn new(volume: &'a Volume, scratch: &Scratch, pool: usize, block: u64) -> Poison<'a> {
        egeria_media::guard::install().expect("guard");
        let empty = tempfile::tempfile().expect("an empty file");
        map_over(volume, pool, block, &empty, 0);
        let file = open(&scratch.pools[pool]);
        Poison {
            volume,
            pool,
            block,
            file,
        }
    }
}

impl Drop for Poison<'_> {
    fn drop(&mut self) {
        let offset = self.block * BLOCK as u64;
        map_over(self.volume, self.pool, self.block, &self.file, offset);
    }
}

/// Blocks that hold anything, and some that do not yet.
fn blocks_of_interest(pool: &Path) -> Vec<u64> {
    let bytes = std::fs::read(pool).expect("the pool");
    let used: Vec<u64> = (0u64..)
        .zip(bytes.chunks(BLOCK))
        .filter(|(_, block)| block.iter().any(|byte| *byte != 0))
        .map(|(number, _)| number)
        .collect();
    let end = used.last().map_or(0, |last| last + 1);
    used.into_iter().chain(end..end + 24).collect()
}

/// What a failed operation may say: that it failed, or that an earlier one did.
fn is_fine(outcome: Outcome<usize>) -> bool {
    let fine = [
        libc::EIO,
        libc::ENOENT,
        libc::EEXIST,
        libc::EISDIR,
        libc::ENOTDIR,
        libc::ENOTEMPTY,
        libc::ENODATA,
    ];
    outcome.err().is_none_or(|errno| fine.contains(&errno.0))
}

#[test]
fn a_poisoned_block_is_eio_and_breaks_nothing_else() {
    let scratch = Scratch::new(1, 8 << 20);
    prepare(&scratch.attach());
    let whole = std::fs::read(&scratch.pools[0]).expect("the pool");
    let mut refused = 0;
    for (turn, block) in blocks_of_interest(&scratch.pools[0])
        .into_iter()
        .enumerate()
    {
        std::fs::write(&scratch.pools[0], &whole).expect("the pool as it was");
        let volume = scratch.attach();
        let poison = Poison::new(&volume, &scratch, 0, block);
        for act in ACTS.iter().cycle().skip(turn % ACTS.len()).take(ACTS.len()) {
            let outcome = (act.run)(&volume);
            refused += usize::from(outcome == Err(Errno(libc::EIO)));
            assert!(is_fine(outcome), "block {block}, {}: {outcome:?}", act.name);
        }
        drop(poison);
        let space = volume.space(None);
        drop(volume);
        let report = check_volume(&scratch.pools[0], false, &mut |_, _| {}).expect("check");
        assert!(
            report.findings.is_empty(),
            "block {block}: {:#?}",
            report.findings
        );
        let used = space.blocks - space.free_blocks;
        assert!(
            used >= report.used_blocks,
            "block {block}: {} blocks are free and used",
            report.used_blocks - used
        );
    }
    assert!(refused > 100, "{refused} operations met the poison");
}

#[test]
fn a_poisoned_block_of_data_costs_that_block_alone() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    volume.create(ROOT, b"f", &FILE).expect("create");
    let ino = volume.lookup(ROOT, b"f").expect("lookup").ino;
    let file = volume.open(ino, None).expect("open");
    let bytes = data(1, 5 * BLOCK);
    volume.write(file, 0, &bytes).expect("write");
    let block = volume.extents(ino).expect("extents")[0].block + 2;
    let poison = Poison::new(&volume, &scratch, 0, block);
    let mut read = vec![0; BLOCK];
    for number in 0..5 {
        let outcome = volume.read(file, number * BLOCK as u64, &mut read);
        match number {
            2 => assert_eq!(outcome, Err(Errno(libc::EIO))),
            _ => {
                assert_eq!(outcome, Ok(BLOCK));
                assert!(read == bytes[number as usize * BLOCK..][..BLOCK]);
            }
        }
    }
    // A block written whole goes elsewhere, so it is good again.
    let at = 2 * BLOCK as u64;
    assert_eq!(volume.write(file, at, &bytes[..BLOCK]), Ok(BLOCK));
    assert_eq!(volume.read(file, at, &mut read), Ok(BLOCK));
    assert!(read == bytes[..BLOCK]);
    drop(poison);
}

#[test]
fn a_pool_that_shrinks_is_eio_and_other_pools_go_on() {
    egeria_media::guard::install().expect("guard");
    let scratch = Scratch::new(2, 8 << 20);
    let volume = scratch.attach();
    let mut files = Vec::new();
    for pool in 0..2u8 {
        volume.set_allocation(AllocationPolicy::Pool(pool));
        let name = format!("on{pool}");
        let ino = volume
            .create(ROOT, name.as_bytes(), &FILE)
            .expect("create")
            .ino;
        let file = volume.open(ino, None).expect("open");
        volume.write(file, 0, &data(pool, 100_000)).expect("write");
        files.push(file);
    }
    open(&scratch.pools[1]).set_len(4096).expect("truncate");
    let mut read = vec![0; 100_000];
    assert_eq!(volume.read(files[1], 0, &mut read), Err(Errno(libc::EIO)));
    assert_eq!(volume.write(files[1], 0, &read), Err(Errno(libc::EIO)));
    assert_eq!(volume.append(files[1], b"x"), Err(Errno(libc::EIO)));
    for _ in 0..3 {
        let created = volume.create(ROOT, b"new", &FILE);
        assert!(
            created.is_ok()
                || created == Err(Errno(libc::EIO))
                || created == Err(Errno(libc::EEXIST))
        );
    }
    // Another thread is not blocked by locks of those that failed.
    let other = std::thread::scope(|scope| {
        let read = scope.spawn(|| volume.read(files[1], 0, &mut vec![0; 4096]));
        read.join().expect("a thread")
    });
    assert_eq!(other, Err(Errno(libc::EIO)));
    volume.set_allocation(AllocationPolicy::Pool(0));
    assert_eq!(volume.read(files[0], 0, &mut read), Ok(100_000));
    assert!(read == data(0, 100_000));
    assert_eq!(volume.write(files[0], 50_000, &read[..9000]), Ok(9000));
}
