//! An attached volume: the receiver of every operation.

use crate::format::{Geometry, MAX_POOLS, Superblock};
use crate::requests::RecoveryReport;
use crate::session::appended::Appended;
use crate::session::delegation::board::Delegates;
use crate::session::guess::Guesses;
use crate::session::late::{Late, SpaceBusy};
use crate::session::layout::{SessionInode, WAIT_NOTES};
use crate::session::map::Session;
use crate::session::name_words::NameWords;
use crate::session::open_table::Opens;
use crate::session::own_callers::OwnCallers;
use crate::session::segments::{FileIdentity, Leftover};
use crate::session::stuck::Stuck;
use crate::session::walks::Walks;
use crate::types::*;
use egeria_media::Pool;
use std::collections::HashSet;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// A regular file by number, for the data path: cheap to copy, valid while the volume is attached
/// and the inode is held open (see [`Volume::open`]).
#[derive(Clone, Copy, Debug)]
pub struct FileReference {
    pub(crate) ino: InodeNumber,
    inode: NonNull<SessionInode>,
}

// SAFETY: names shared memory of atomics and locks that stays mapped while the volume is attached.
unsafe impl Send for FileReference {}
// SAFETY: all that can be done with it is done to atomics and locks.
unsafe impl Sync for FileReference {}

impl FileReference {
    pub(crate) fn new(ino: InodeNumber, inode: &SessionInode) -> FileReference {
        FileReference {
            ino,
            inode: NonNull::from(inode),
        }
    }

    /// Number of the file's inode.
    pub fn ino(&self) -> InodeNumber {
        self.ino
    }

    #[inline]
    pub(crate) fn inode(&self) -> &SessionInode {
        // SAFETY: valid while the volume is attached, by the type's contract.
        unsafe { self.inode.as_ref() }
    }
}

impl From<FileReference> for InodeHandle {
    fn from(file: FileReference) -> InodeHandle {
        file.ino.into()
    }
}

/// An attached volume. `Send + Sync`; every method may be called from any thread.
pub struct Volume {
    /// Pools may be added while the volume is in use. A process learns of them when it meets one (see `attach::grown`).
    pub(crate) media: Appended<Arc<Pool>>,
    pub(crate) geometry: Appended<Geometry>,
    /// The last one is in force.
    pub(crate) superblocks: Appended<Superblock>,
    pub(crate) paths: Appended<PathBuf>,
    /// Opens pools that were added. A function of a floor above.
    pub(crate) open_added_pools: fn(&Volume),
    /// Held while pools that were added are opened.
    pub(crate) opening_pools: Mutex<()>,
    pub(crate) session: Session,
    pub(crate) weak: Weak<Volume>,
    /// Attachment of this process, and the forks since: a child does not have its parent's slots. See `slots`.
    pub(crate) era: AtomicU64,
    /// Process slot + 1.
    pub(crate) process: AtomicU32,
    pub(crate) opens: Opens,
    /// Threads of this process that access pools for others.
    pub(crate) delegates: Delegates,
    pub(crate) stuck: Stuck,
    /// Work deferred until locks are free, with the era in which it was deferred.
    pub(crate) late: Mutex<Vec<(u64, Late)>>,
    pub(crate) space_busy: SpaceBusy,
    pub(crate) guesses: Guesses,
    pub(crate) walks: Walks,
    pub(crate) hash_seed: u64,
    pub(crate) name_words: NameWords,
    pub(crate) tight: [AtomicBool; MAX_POOLS],
    /// A thread of this process has filled its pocket with free blocks.
    pub(crate) has_refilled: AtomicBool,
    pub(crate) description_hint: AtomicU32,
    pub(crate) read_only: bool,
    pub(crate) reporter: OnceLock<Reporter>,
    /// Damage and failing blocks already passed to the reporter.
    pub(crate) reported: Mutex<HashSet<Reported>>,
    /// Numbers of the noted waits that were reported or skipped.
    pub(crate) noted_waits: Mutex<[u64; WAIT_NOTES]>,
    /// What was done when this attach made the session.
    pub(crate) recovery: OnceLock<RecoveryReport>,
    /// Damage met while a volume is checked or recovered.
    pub(crate) findings: Mutex<Option<Vec<String>>>,
    /// This process works for others (a mount): its threads do not count as users of files.
    pub(crate) on_behalf: AtomicBool,
    /// See `session::leases`.
    pub(crate) leaves_used_names: AtomicBool,
    /// Threads that this process, a mount, works for.
    pub(crate) callers: OwnCallers,
    pub(crate) origin: Origin,
    /// Pool 0, as a file.
    pub(crate) identity: FileIdentity,
    /// Declared after `session`, so that the session is unmapped before this is dropped.
    pub(crate) leftover: Leftover,
    /// The next time that the clock shows, for repeatable runs; 0: use the kernel's clock.
    pub(crate) clock_ns: AtomicI64,
}

/// Types for the methods on one subject each. They borrow the volume and cost what the reference costs. They live in
/// the folder of their subject: floors below cannot name them.
macro_rules! of_volume {
    ($($(#[$about:meta])+ $name:ident;)+) => {$(
        $(#[$about])+
        #[derive(Clone, Copy)]
        pub(crate) struct $name<'v> {
            volume: &'v $crate::session::volume::Volume,
        }

        impl<'v> $name<'v> {
            #[inline(always)]
            pub(crate) fn of(volume: &'v $crate::session::volume::Volume) -> $name<'v> {
                $name { volume }
            }
        }
    )+};
}
pub(crate) use of_volume;

/// How a volume got its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Another process made it.
    Joined,
    /// Made by this process, and open to others.
    Made,
    /// Made for this process alone (a check): no segment to remove.
    Private,
}

/// How much a report matters to the operator of the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// What is in order.
    Information,
    /// Something needs attention, but nothing failed.
    Warning,
    /// Damage, or a failing medium.
    Error,
}

/// Called with each event, one line each.
pub type Reporter = Box<dyn Fn(Severity, &str) + Send + Sync>;

/// What is reported once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Reported {
    Damage { ino: u64, what: &'static str },
    Mismatch { ino: u64, file_block: u64 },
    Block { pool: usize, block: u64 },
    AddedPool { pool: usize },
}
