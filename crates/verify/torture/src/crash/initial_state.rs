//! What a volume holds before a workload begins.

use super::actor::{Actor, ino};
use super::damage::{Damage, do_damage, record_at};
use super::operation::{Mode, Operation};
use egeria_engine::format::*;
use egeria_engine::*;
use egeria_media::recorder::PoolSet;
use egeria_media::{BlockNumber, Pool};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a volume holds before a workload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InitialState {
    /// Directories with children, files of several sizes, a hard link, an extended attribute.
    Tree,
    /// As `Tree`, and each log has room for so many more lines in its last page.
    PageEnd(u8),
    /// As `Tree`, and the next change of `big` compacts its log.
    LongLog,
    /// As `Tree`, and the next change of directory `d` compacts its log.
    LongDirectory,
    /// As `Tree`, and the next inode needs a block of inodes that is not there.
    InodesFull,
    /// As `Tree`, and no block is free.
    Full,
    /// As `Tree`, and a file without a name was open when the machine stopped.
    Orphan,
    /// Pools that hold nothing, not even a volume.
    Blank,
    /// As `Tree`, and directories have limits with room for a few blocks and inodes.
    Limited,
    /// As `Tree`, damaged.
    Damaged(Damage),
    /// As `Tree`, on all pools but the last, which holds no volume.
    LastUnused,
    /// As `Tree`, in an older version of the format.
    OfVersion(u32),
}

/// Bytes of each pool: the least a volume can have.
const POOL_BYTES: u64 = MIN_POOL_BYTES;
/// Blocks for data that hold old data: more than most runs take.
const SPOILT_BLOCKS: u64 = 256;

/// The tree all initial states begin with.
const TREE: [&str; 30] = [
    "mkdir d",
    "mkdir e",
    "mkdir d/sub",
    "mkdir empty",
    "create small",
    "write small 0 100",
    "create big",
    "write big 0 37000",
    "create d/x",
    "write d/x 0 5000",
    "create e/y",
    "write e/y 0 7001",
    "create d/sub/deep",
    "link small twin",
    "symlink symlink 300",
    "setxattr big user.old 5",
    "create e/gaps",
    "write e/gaps 4096 100",
    "write e/gaps 20480 4096",
    "reserve-behind e/gaps 40960 8192",
    "create e/third",
    "link e/third d/third",
    "mkdir sums",
    "checksums sums crc32c",
    "create sums/file",
    "write sums/file 0 9000",
    "mkdir stripes",
    "layout stripes striped:4096",
    "create stripes/file",
    "write stripes/file 0 20000",
];

/// What limits the tree. A file with names in it and outside could not be counted.
const LIMITED: [&str; 3] = ["unlink d/third", "limit d 28672 6", "limit stripes 40960 4"];

impl InitialState {
    /// Whether it is a volume with which nothing is wrong.
    pub(super) fn is_whole(self) -> bool {
        !matches!(self, InitialState::Blank | InitialState::Damaged(_))
    }

    /// Pools that hold it.
    pub(crate) fn build(&self, pools: usize) -> Result<PoolSet, String> {
        let set = PoolSet::new((0..pools).map(|_| Arc::new(Pool::anonymous(POOL_BYTES))));
        let all: Vec<Arc<Pool>> = set.iter().cloned().collect();
        spoil(&all)?;
        if *self == InitialState::Blank {
            return Ok(set);
        }
        let all = match self {
            InitialState::LastUnused => all[..pools - 1].to_vec(),
            _ => all,
        };
        create_private(&all, 1, &root()).map_err(|error| error.to_string())?;
        if let InitialState::OfVersion(version) = *self {
            age(&all, version).map_err(|error| error.to_string())?;
        }
        let mut memory = PrivateMemory::default();
        let volume = Volume::attach_private(&all, &mut memory, &AttachOptions::default())
            .map_err(|error| error.to_string())?;
        let failed = |errno: Errno| format!("cannot prepare {self:?}: {errno}");
        self.fill(&volume).map_err(failed)?;
        if *self == InitialState::Orphan {
            leave_orphan(volume).map_err(failed)?;
        }
        Ok(set)
    }

    fn fill(&self, volume: &Volume) -> Outcome<()> {
        let mut actor = Actor::new(volume);
        for (step, text) in TREE.iter().enumerate() {
            run(&mut actor, text, step)?;
        }
        match *self {
            InitialState::Tree
            | InitialState::Blank
            | InitialState::LastUnused
            | InitialState::OfVersion(_) => Ok(()),
            InitialState::Damaged(damage) => do_damage(volume, damage),
            InitialState::Limited => run_all(&mut actor, &LIMITED),
            InitialState::PageEnd(lines) => shorten_pages(&mut actor, lines),
            InitialState::LongLog => repeat(&mut actor, 63 * 16, &["chmod big 600"]),
            InitialState::LongDirectory => {
                repeat(&mut actor, 63 * 9, &["create d/a", "unlink d/a"])
            }
            InitialState::InodesFull => take_inodes(&mut actor),
            InitialState::Full => take_blocks(volume),
            InitialState::Orphan => run(&mut actor, "create orphan", 50)
                .and_then(|()| run(&mut actor, "write orphan 0 9000", 51)),
        }
    }
}

/// What old data, of other uses of the media, looks like: free space is not zeros. At the beginning of the
/// pools and where runs take blocks; elsewhere it would only cost time.
fn spoil(pools: &[Arc<Pool>]) -> Result<(), String> {
    let old: Vec<u8> = (0..BLOCK).map(|at| (at / 3) as u8 | 1).collect();
    for (index, pool) in pools.iter().enumerate() {
        let data = Geometry::new(index as u8, pool.blocks()).data_block.0;
        for block in (0..JOURNAL_BLOCK.0 + 2).chain(data - 1..data + SPOILT_BLOCKS) {
            let stored = pool.write_bytes(BlockNumber(block).offset(), &old);
            stored.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Make a new volume one of an older version.
fn age(pools: &[Arc<Pool>], version: u32) -> egeria_media::Result<()> {
    for (pool, copy) in pools
        .iter()
        .flat_map(|pool| SUPERBLOCK_COPIES.map(|copy| (pool, copy)))
    {
        let at = BlockNumber(copy).offset();
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        pool.read_bytes(at, &mut bytes)?;
        if let Ok(young) = Superblock::decode(&bytes) {
            pool.write_bytes(at, &Superblock { version, ..young }.encode())?;
        }
    }
    Ok(())
}

/// Unlink a file that is open, and have the media as it was before the last close.
fn leave_orphan(volume: Arc<Volume>) -> Outcome<()> {
    let damaged = Errno(libc::EIO);
    let (pool, at) = record_at(&volume, ino(&volume, "orphan")?)?;
    let (media, at) = (Arc::clone(&volume.pools()[pool]), at + COMMIT_WORD_AT);
    run(&mut Actor::new(&volume), "unlink-open orphan", 52)?;
    let word = media.load_u64(at).map_err(|_| damaged)?;
    drop(volume);
    media.store_u64(at, word).map_err(|_| damaged)
}

fn run(actor: &mut Actor<'_>, text: &str, step: usize) -> Outcome<()> {
    let operation: Operation = text.parse().map_err(|_| Errno(libc::EINVAL))?;
    actor.run(&operation, step)
}

fn run_all(actor: &mut Actor<'_>, texts: &[&str]) -> Outcome<()> {
    let mut steps = texts.iter().zip(TREE.len()..);
    steps.try_for_each(|(text, step)| run(actor, text, step))
}

fn repeat(actor: &mut Actor<'_>, rounds: usize, texts: &[&str]) -> Outcome<()> {
    for step in 0..rounds {
        for text in texts {
            run(actor, text, step)?;
        }
    }
    Ok(())
}

/// Lengthen each log until its last page has room for so many lines.
fn shorten_pages(actor: &mut Actor<'_>, lines: u8) -> Outcome<()> {
    if lines > PAGE_LINES - 2 {
        return Err(Errno(libc::EINVAL));
    }
    let files = ["big", "small", "d/x", "e/y", "d/sub/deep", "sums/file"];
    for path in ["", "d", "e", "sums"].into_iter().chain(files) {
        let mut step = 0;
        while PAGE_LINES - tail_line(actor.volume, path)? != lines {
            run_chmod(actor, path, step)?;
            step += 1;
        }
    }
    Ok(())
}

fn run_chmod(actor: &mut Actor<'_>, path: &str, step: usize) -> Outcome<()> {
    let path = path.to_owned();
    let mode = 0o700 + (step & 7) as u32;
    let mode = Mode(mode);
    actor.run(&Operation::Chmod { path, mode }, step)
}

/// Line of the page where the next entry goes.
fn tail_line(volume: &Volume, path: &str) -> Outcome<u8> {
    let damaged = Errno(libc::EIO);
    let ino = ino(volume, path)?;
    let (pool, at) = record_at(volume, ino)?;
    let word = volume.pools()[pool]
        .load_u64(at + COMMIT_WORD_AT)
        .map_err(|_| damaged)?;
    let commit = CommitWord::decode(word, ino.0)
        .ok()
        .flatten()
        .ok_or(damaged)?;
    Ok(if commit.tail.is_none() {
        PAGE_LINES
    } else {
        commit.tail.line()
    })
}

/// How volumes are made here.
pub(super) fn root() -> CreateOptions {
    CreateOptions {
        force: false,
        root: Some((0, 0, 0o755)),
    }
}

/// Until the next inode needs a block of inodes.
fn take_inodes(actor: &mut Actor<'_>) -> Outcome<()> {
    let is_full = |volume: &Volume| {
        let space = volume.space(None);
        (space.inodes - space.free_inodes).is_multiple_of(INODES_PER_BLOCK)
    };
    let mut number = 0;
    while !is_full(actor.volume) {
        run(actor, &format!("create empty/{number}"), number)?;
        number += 1;
    }
    Ok(())
}

/// Until no block is free.
fn take_blocks(volume: &Volume) -> Outcome<()> {
    let new = NewInode::of_root(libc::S_IFREG | 0o644);
    let made = volume.create(InodeNumber::ROOT, b"filler", &new)?;
    let file = volume.open(made.ino, None)?;
    let mut at = 1 << 30;
    for bytes in [1u64 << 20, 64 << 10, 4096] {
        while volume
            .allocate(file, at, bytes, AllocateMode::KeepSize)
            .is_ok()
        {
            at += bytes;
        }
    }
    volume.close(made.ino);
    Ok(())
}
