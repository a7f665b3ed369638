//! The session: one segment of shared DRAM per attached volume. It holds shared state that may be lost: all of it can
//! be rebuilt from the pools. It consists of zero-initialised atomics, because any process may die between any two
//! stores.

mod places;
mod trees;

pub use places::SessionLayout;
pub use trees::*;

use crate::format::{BLOCK, MAX_POOLS};
use crate::session::lock::RobustMutex;
use egeria_media::emulation::EmulatedThread;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// First word of a session segment.
pub const SESSION_MAGIC: u64 = u64::from_le_bytes(*b"EGSESS01");
/// Version of this layout, a hash of its source (`build.rs`): processes of another build refuse to join.
pub const SESSION_VERSION: u32 = parse(env!("EGERIA_SESSION_VERSION"));

const fn parse(decimal: &str) -> u32 {
    let (bytes, mut value, mut at) = (decimal.as_bytes(), 0u32, 0);
    while at < bytes.len() {
        value = value
            .wrapping_mul(10)
            .wrapping_add((bytes[at] - b'0') as u32);
        at += 1;
    }
    value
}
/// Processes attached at once.
pub const PROCESS_SLOTS: usize = 4096;
/// Threads that use the volume at once; equal to the journal's slots.
pub const THREAD_SLOTS: usize = crate::format::JOURNAL_SLOTS as usize;
/// Threads that come through mounts and can be counted at the same time.
pub const CALLER_SLOTS: usize = 2048;
/// Open descriptions of mounts.
pub const DESCRIPTION_SLOTS: usize = 65_536;
/// Mounts for which the session keeps which inode numbers their kernels remember (see `namespace::lookup_references`).
pub const MAX_LOOKUP_MOUNTS: usize = 4;
/// Recalls of leases asked for at once.
pub const MAX_RECALLS: usize = 64;
/// Runs of free blocks a thread keeps, per pool.
pub const POCKET_EXTENTS: usize = 8;
/// Runs one commit may bring or replace.
pub const PENDING_EXTENTS: usize = 64;
/// Blocks an inode indexes without a tree.
pub const INLINE_BLOCKS: usize = 8;
/// Size classes of the arena: 4 KiB << class.
pub const ARENA_CLASSES: usize = 24;
/// Parts of a pool's map of inode numbers.
pub const NUMBER_PARTS: usize = 8;
/// Groups of a pool's free-space map.
pub const MAX_GROUPS: usize = 64;

/// Number of long waits that can be noted at the same time.
pub const WAIT_NOTES: usize = 8;

/// Long waits of processes that have no log (see `wait_notes`).
#[repr(C, align(64))]
pub struct WaitNotes {
    /// Notes ever made.
    pub count: AtomicU64,
    /// The last ones, by number.
    pub places: [WaitNote; WAIT_NOTES],
}

/// A thread has waited long for an inode.
#[repr(C)]
pub struct WaitNote {
    /// Its number; 0 while it is written, or before the first note.
    pub number: AtomicU64,
    pub ino: AtomicU64,
    /// What is waited for: see `wait_notes::Awaited`.
    pub what: AtomicU64,
    /// Kernel id of the thread waited for.
    pub thread: AtomicU64,
    /// Its process; 0 if not known.
    pub process: AtomicU64,
}

/// Head of the segment.
#[repr(C, align(64))]
pub struct SessionHeader {
    /// [`SESSION_MAGIC`], stored last by the creator.
    pub magic: AtomicU64,
    /// [`SESSION_VERSION`].
    pub version: AtomicU32,
    /// Number of pools.
    pub pool_count: AtomicU32,
    /// Number of pools when the session was made: the layout follows from these.
    pub first_pool_count: AtomicU32,
    /// Volume and session ids, 16 bytes each.
    pub volume: [AtomicU64; 2],
    /// See `volume`.
    pub session: [AtomicU64; 2],
    /// Processes that watch names (see `observe::watchers`).
    pub watchers: AtomicU64,
    /// Number of the window that a process observes; 0: none is observed.
    pub window: AtomicU64,
    /// What is between data paths and the pools (see `path_mode`).
    pub path_mode: AtomicU32,
    /// 1 once the gates of pools are in use (see `admission`).
    pub has_gates: AtomicU32,
    /// Which accesses of striped files are delegated, 0: none (see `data::delegation`).
    pub delegation: AtomicU64,
    /// Pools that take no new data, a bit each: they are drained (see `pools::drain`).
    pub retired_pools: AtomicU32,
    /// 1 once a striped file was met.
    pub striped_files: AtomicU32,
    /// 1 while the demand for admission is measured, limited or not.
    pub measures_admission: AtomicU32,
    /// Seed of the directories' hash.
    pub hash_seed: AtomicU64,
    /// Allocation policy: 0 local, 1 random, 2 striped, 16 + n: pool n.
    pub allocation: AtomicU64,
    /// Number of the emulated machine's memory (see `machine`); 0: none is emulated.
    pub machine: AtomicU64,
    /// Why freed blocks are not used again. Bit 0: recovery found blocks with two owners, and freed ones stay in use. The bits above:
    /// number of the snapshot under way (see `kept_records`).
    pub keeps_freed_blocks: AtomicU64,
    /// Snapshots that were begun.
    pub snapshots: AtomicU64,
    /// Process slot + 1 of the reader of a snapshot; 0: none.
    pub snapshot_owner: AtomicU64,
    /// Held by the thread that reaps dead processes. Taken before inode locks.
    pub reaper: RobustMutex,
    /// Taken by renames that move between directories.
    pub rename: RobustMutex,
    /// Process slots in use begin below this.
    pub process_high: AtomicU64,
    /// Thread slots in use begin below this.
    pub thread_high: AtomicU64,
    /// Caller slots in use begin below this.
    pub caller_high: AtomicU64,
    /// Description slots in use begin below this.
    pub description_high: AtomicU64,
    /// Process slot + 1 of the mount that owns each map of remembered numbers; 0: no mount.
    pub lookup_mounts: [AtomicU64; MAX_LOOKUP_MOUNTS],
    /// 1 while the map at the same index is in use.
    pub lookup_references: [AtomicU64; MAX_LOOKUP_MOUNTS],
    /// The mount that grants leases (see `leases::LeaseMount`); 0: none.
    pub lease_mount: AtomicU64,
    /// Counts requests for recalls; the mount sleeps on it.
    pub recall_bell: AtomicU32,
    /// Counts recalls that ended; threads that asked for a recall sleep on it.
    pub recalled: AtomicU32,
    /// Leases to be recalled, 0: a free place.
    pub recalls: [AtomicU64; MAX_RECALLS],
    /// See `stamps`.
    pub last_stamp: LastStamp,
    /// Long waits of processes that have no log.
    pub wait_notes: WaitNotes,
    /// Sum of the counters of threads that ended.
    pub ended: ThreadCounters,
    pub arena: ArenaHeader,
    pub pools: [PoolHeader; MAX_POOLS],
    /// Pool of each declared node, by position in the machine.
    pub pool_of_node: [AtomicU32; 64],
    /// Position of each pool's node in the declared machine.
    pub node_of_pool: [AtomicU32; MAX_POOLS],
    /// Position of the memory of the emulated machine that each pool lies on.
    pub memory_of_pool: [AtomicU32; MAX_POOLS],
    pub pool_of_cpu: [AtomicU8; 8192],
    /// Pools in the order in which stripes go to them, and how many of these count; 0: each pool in turn.
    pub stripe_turns: [AtomicU8; MAX_STRIPE_TURNS],
    pub stripe_turn_count: AtomicU32,
    /// Directory trees with limits.
    pub trees: [TreeHeader; MAX_TREES],
}

/// Stripes after which the order of their pools repeats, at most.
pub const MAX_STRIPE_TURNS: usize = 256;

/// Allocator of session pages.
#[repr(C, align(64))]
pub struct ArenaHeader {
    /// Next page never used.
    pub bump: AtomicU64,
    pub pages: AtomicU64,
    /// First free run per class (see `free_list`).
    pub free: [AtomicU64; ARENA_CLASSES],
    /// How many there are, more or less.
    pub free_runs: [AtomicU64; ARENA_CLASSES],
    /// First free run per class of those with memory returned to the system.
    pub hollow: [AtomicU64; ARENA_CLASSES],
    /// What holes of files take, by owner.
    pub holes: HoleAccounts,
}

/// Owners of files that have an account of their own, and one for all others.
pub const HOLE_ACCOUNTS: usize = 64;

/// What holes of files take (see `hole_accounts`).
#[repr(C)]
pub struct HoleAccounts {
    /// Pages that the holes of one owner may take; 0: no limit.
    pub limit_pages: AtomicU64,
    /// User id of the session's creator, plus one.
    pub session_owner: AtomicU32,
    _padding: AtomicU32,
    /// Taken from the first on.
    pub accounts: [HoleAccount; HOLE_ACCOUNTS],
}

/// Pages that the holes of one owner take.
#[repr(C)]
pub struct HoleAccount {
    /// User id plus one; 0: free.
    pub uid: AtomicU32,
    _padding: AtomicU32,
    /// Pages beyond what blocks need.
    pub pages: AtomicU64,
}

/// Free space and inode numbers of one pool.
#[repr(C, align(64))]
pub struct PoolHeader {
    /// Groups of blocks.
    pub groups: [Group; MAX_GROUPS],
    pub group_count: AtomicU64,
    /// Blocks per group, a multiple of 64.
    pub group_blocks: AtomicU64,
    /// Parts of the inode map.
    pub numbers: [Numbers; NUMBER_PARTS],
}

/// A part of a pool's inode map with a lock of its own. A thread stopped while it holds one part blocks no other part.
#[repr(C, align(64))]
pub struct Numbers {
    /// Protects the part.
    pub mutex: RobustMutex,
    /// Number after the one taken last: where the next search begins.
    pub next: AtomicU64,
    /// No number of the part below this one is free. A thread that frees a lower number lowers it.
    pub full_below: AtomicU64,
    pub used: AtomicU64,
    /// Inode number that is being taken or given back; zero if none.
    pub moving: AtomicU64,
    /// Thread slot + 1 that moves it, top bit set when it gives back.
    pub mover: AtomicU64,
}

/// A part of a pool's free-space map with a lock of its own.
#[repr(C, align(64))]
pub struct Group {
    /// Protects the group's part of the map.
    pub mutex: RobustMutex,
    /// Extent that is being taken or given back; zero if none.
    pub moving: AtomicU64,
    /// Thread slot + 1 that moves it, top bit set when it gives back.
    pub mover: AtomicU64,
    /// Free blocks; exact at rest.
    pub free: AtomicU64,
    /// Where to look first.
    pub hint: AtomicU64,
}

/// Counters written by one thread alone.
#[repr(C, align(64))]
pub struct ThreadCounters {
    pub read_bytes: [AtomicU64; MAX_POOLS],
    pub written_bytes: [AtomicU64; MAX_POOLS],
    /// Of these, bytes on other nodes than the thread's own, per pool.
    pub remote_bytes: [AtomicU64; MAX_POOLS],
    /// Calls preload served.
    pub direct_calls: AtomicU64,
    /// Calls preload passed on.
    pub passed_calls: AtomicU64,
    /// Requests the mount served.
    pub mount_requests: AtomicU64,
    /// Reads that met data which does not match its checksum.
    pub checksum_failures: AtomicU64,
    /// Requests that asked for admission, per pool.
    pub asked: [AtomicU64; MAX_POOLS],
    /// Of these, writes.
    pub asked_writes: [AtomicU64; MAX_POOLS],
    /// Bytes of requests that asked for admission, per pool.
    pub asked_bytes: [AtomicU64; MAX_POOLS],
    /// Requests that had to wait for admission.
    pub waits: AtomicU64,
    /// Total waiting time.
    pub waited_ns: AtomicU64,
    /// Bytes that delegates accessed for it.
    pub delegated_bytes: AtomicU64,
}

/// Number of files per thread with notes of what the thread does with them. Sometimes two files share a place, and the
/// later one replaces the other.
pub const FILES_NOTED: usize = 16;

/// What a thread did with one file in one window.
#[repr(C)]
pub struct FileNote {
    /// The window, 0: none.
    pub window: AtomicU64,
    pub ino: AtomicU64,
    pub read_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
}

/// Notes of a thread for observers. Only this thread writes them, except `shared_window`.
#[repr(C, align(64))]
pub struct ThreadNotes {
    /// Last window in which it used a file that another thread used in that window.
    pub shared_window: AtomicU64,
    /// Number of notes that were replaced by those of another file.
    pub displaced: AtomicU64,
    /// The CPU it ran on when it last noted something, plus 1.
    pub cpu: AtomicU64,
    /// The pool that the thread accesses for others, plus 1; 0: it is no delegate.
    pub delegate_of: AtomicU64,
    /// By hash of the inode number.
    pub files: [FileNote; FILES_NOTED],
}

/// A process that is attached.
#[repr(C, align(64))]
pub struct ProcessSlot {
    /// 0 free, else the process id; stored last.
    pub pid: AtomicU64,
    /// Start time of the process, clock ticks since boot.
    pub start_ticks: AtomicU64,
    /// Inode of its pid namespace.
    pub pid_namespace: AtomicU64,
    /// Table of open inodes: arena page + 1 and class (top byte); 0: none.
    pub open_table: AtomicU64,
    /// 1: it works for others, as a mount does.
    pub on_behalf: AtomicU64,
    /// 1: it watches names (see `observe::watchers`).
    pub watches: AtomicU64,
    /// Held while the slot is being taken; a slot with this lock held is skipped.
    pub taking: RobustMutex,
}

/// A thread that comes through a mount. The mount's process alone writes it.
#[repr(C, align(64))]
pub struct CallerSlot {
    /// 0: free; else the mount's process slot + 1.
    pub owner: AtomicU64,
    /// Start time of the mount's process: distinguishes its slots from those of a mount that is gone.
    pub owner_start_ticks: AtomicU64,
    /// Kernel id of the thread; 0 while the slot changes.
    pub thread_id: AtomicU64,
    /// Counts the slot's threads.
    pub generation: AtomicU64,
    pub read_bytes: [AtomicU64; MAX_POOLS],
    pub written_bytes: [AtomicU64; MAX_POOLS],
}

/// State that limits which threads may access a pool now (see `admission`).
#[repr(C, align(4096))]
pub struct AdmissionGate {
    /// Words of the Selector, by thread slot.
    pub words: [AtomicU64; 3 + THREAD_SLOTS],
    /// By thread slot: which request held a place when last checked, and since when.
    pub seen: [AtomicU64; THREAD_SLOTS],
    /// Turn to release waiters.
    pub turn: Turn,
    /// What set the limit: see `admission::LimitedBy`.
    pub limited_by: AtomicU64,
    /// Places that were lent, ever.
    pub lent: AtomicU64,
    /// The most threads that were admitted or waited, as seen by threads that asked.
    pub max_demand: AtomicU64,
}

/// Turn to do work for all threads: the time it was taken, and whether it is wanted again.
#[repr(C)]
pub struct Turn {
    /// 0: not taken; else ms of the system's clock, plus 1.
    pub taken_ms: AtomicU64,
    /// 1: another thread has work to be done.
    pub wanted: AtomicU64,
}

/// A run of blocks in flight: to be mapped or replaced by a commit.
#[repr(C)]
pub struct PendingExtent {
    /// [`crate::format::Extent`] word; zero when settled.
    pub extent: AtomicU64,
    /// File block of its first block, or [`PENDING_LOG`].
    pub file_block: AtomicU64,
    /// Inode it is for.
    pub ino: AtomicU64,
}

/// Flag in [`ThreadSlot::pending_inode`]: an inode to delete if it is unused, not a number taken by this thread.
pub const LOSING_USE: u64 = 1 << 63;
/// File block of an extent that holds log pages.
pub const PENDING_LOG: u64 = u64::MAX;

/// All state of one thread that others need when it dies. While it lives, only the owner writes it.
#[repr(C, align(4096))]
pub struct ThreadSlot {
    /// 0 free, else process slot + 1.
    pub owner: AtomicU64,
    /// Kernel id of the thread.
    pub thread_id: AtomicU64,
    /// Extent coming from a group.
    pub incoming: AtomicU64,
    /// Extent going to a group.
    pub outgoing: AtomicU64,
    /// Counts the slot's owners, so that a dead owner is not taken for its successor.
    pub incarnation: AtomicU64,
    /// Inode number taken and not yet committed, or being given up; with [`LOSING_USE`] the number of another inode.
    pub pending_inode: AtomicU64,
    /// Inode that may be charged more or less than it uses, until the thread has settled it; 0: none (see `quotas`).
    pub unsettled: AtomicU64,
    /// Change of a tree's usage under way.
    pub usage_change: UsageChange,
    /// Group of each pool where the thread last found room, plus 1.
    pub last_group: [AtomicU32; MAX_POOLS],
    /// Part of a pool's inode numbers where the thread starts searching (see `inode_alloc`).
    pub number_part: AtomicU32,
    /// Pool of the node of the thread for which this one writes, plus 1; 0: it writes for itself.
    pub writer_pool: AtomicU32,
    /// Start of the thread's turn of admission, if other threads waited; 0: it has no turn.
    pub turn_began_ns: AtomicU64,
    /// State of the thread's random placement.
    pub random: AtomicU64,
    /// Inode with blocks that the thread changes in place; 0: none (see `in_place`).
    pub in_place: AtomicU64,
    /// Bit per pool: the thread waits for delegates of this pool.
    pub awaited_pools: AtomicU64,
    /// Bit per pool without a limit: the thread accesses it while demand is measured.
    pub accessed_pools: AtomicU64,
    /// New blocks of the operation under way.
    pub pending_new: [PendingExtent; PENDING_EXTENTS],
    /// Blocks it replaces.
    pub pending_old: [PendingExtent; PENDING_EXTENTS],
    /// Free blocks at hand.
    pub pocket: [[AtomicU64; POCKET_EXTENTS]; MAX_POOLS],
    pub counters: ThreadCounters,
    pub notes: ThreadNotes,
    /// Emulated machine's view of the thread.
    pub emulated: EmulatedThread,
    /// Held to complete what a dead owner of the slot began, and to retire the slot. After inode locks.
    pub recovery: RobustMutex,
}

/// The last fine time of a change, ns since the epoch (see `stamps`). On a line of its own: data paths load it.
#[repr(C, align(128))]
pub struct LastStamp(pub AtomicI64);

/// An inode's record at the instant of a snapshot.
#[repr(C)]
pub struct KeptRecord {
    /// Number of the snapshot, stored last; any other: nothing is kept.
    pub number: AtomicU64,
    pub words: [AtomicU64; crate::format::INODE_BYTES as usize / 8],
}

/// State of an inode in the session; zeroed is "not loaded".
#[repr(C, align(256))]
pub struct SessionInode {
    /// The inode's lock.
    pub mutex: RobustMutex,
    /// Holder (see `owner_word`); 0 when no operation is in progress.
    pub owner: AtomicU32,
    /// [`UNLOADED`] or [`LOADED`].
    pub state: AtomicU32,
    /// Odd while the index changes.
    pub sequence: AtomicU64,
    /// Changes before index pages are given back.
    pub epoch: AtomicU64,
    pub size_bytes: AtomicU64,
    /// Tree (arena page + 1, height in the top byte) or directory table (page + 1, class in the top byte).
    pub root: AtomicU64,
    /// Commit word as last applied.
    pub applied: AtomicU64,
    /// mode and generation.
    pub mode: AtomicU32,
    pub generation: AtomicU32,
    pub uid: AtomicU32,
    pub gid: AtomicU32,
    pub nlink: AtomicU32,
    pub rdev: AtomicU32,
    pub atime_ns: AtomicU64,
    /// See `atime_ns`.
    pub mtime_ns: AtomicU64,
    /// See `atime_ns`.
    pub ctime_ns: AtomicU64,
    /// Mapped blocks of a file; live names of a directory.
    pub blocks: AtomicU64,
    /// Parent of a directory.
    pub parent: AtomicU64,
    /// Log pages in the chain.
    pub log_pages: AtomicU32,
    /// 1 when an extended attribute was ever set.
    pub has_xattr: AtomicU8,
    /// 1 when its times were shown to a program since their last change (see `stamps`).
    pub times_shown: AtomicU8,
    /// 1 while a direct writer holds the lock and has already checked `kernel_cached`.
    pub committing: AtomicU8,
    /// 1: a file's blocks have checksums, also stored in its index; files created in a directory get them.
    pub checksums: AtomicU8,
    /// Number of log pages from which the log is compacted.
    pub compact_at_pages: AtomicU32,
    /// Handles through which the kernel holds pages.
    pub kernel_cached: AtomicU32,
    /// Last thread that used the file, in which window, and whether others used it (see `observe::reports`).
    pub touched: AtomicU64,
    /// Opens begun minus opens ended, never too low (see `opens`).
    pub open_hint: AtomicU32,
    /// Counts changes of a file's block words, for their generation.
    pub word_generation: AtomicU32,
    /// Pages of the index; see `hole_accounts`.
    pub index_pages: AtomicU32,
    /// Of these, counted as the holes of `hole_uid`.
    pub hole_pages: AtomicU32,
    /// See `hole_pages`.
    pub hole_uid: AtomicU32,
    /// What a kernel may cache of it (see `leases`).
    pub leases: AtomicU32,
    /// `LayoutWord` in force.
    pub layout: AtomicU32,
    /// See `data::in_place`.
    pub logged_time: AtomicU32,
    /// Index of the tree that counts the inode, plus 1; 0: none (see `quotas`).
    pub tree: AtomicU32,
    /// See `write_back_errors`.
    pub write_back_errors: AtomicU64,
    /// Offset of the record in its pool, when loaded.
    pub record_at: AtomicU64,
    /// Birth, as in the certificate, ns.
    pub birth_ns: AtomicU64,
    /// Words of a small file; of a directory: used slots, subdirectories, next cookie, living lines.
    pub inline_words: [AtomicU64; INLINE_BLOCKS],
    /// Blocks that its tree counts for it; with the top bit, the inode is counted, too (see `quotas`).
    pub charged: AtomicU64,
}

impl SessionInode {
    /// Generation for block words that are about to be stored. Under the inode's lock.
    #[inline(always)]
    pub fn next_word_generation(&self) -> u64 {
        // Not a locked instruction, which would wait for the flush of the commit; the lock is held anyway.
        let generation = self.word_generation.load(Ordering::Relaxed).wrapping_add(1);
        self.word_generation.store(generation, Ordering::Relaxed);
        generation.into()
    }
}

/// Words of ranges of files (see `in_place`).
pub const RANGE_LOCKS: usize = 1 << 16;

/// `SessionHeader::allocation`: in stripes.
pub const STRIPED_ALLOCATION: u64 = 2;

/// `SessionInode::state`: must be loaded from the log.
pub const UNLOADED: u32 = 0;
/// `SessionInode::state`: the session holds its state.
pub const LOADED: u32 = 1;
/// `SessionInode::state`: being loaded or unloaded; if the owner of its lock dies, it is unloaded.
pub const CHANGING: u32 = 2;

/// An open description of a mount.
#[repr(C, align(64))]
pub struct DescriptionEntry {
    /// Protects the kernel's file position.
    pub mutex: RobustMutex,
    /// Process slot + 1 of the mount that owns it; 0: free.
    pub owner: AtomicU64,
}

const _: () = assert!(size_of::<SessionInode>() == 256 || size_of::<SessionInode>() == 512);
