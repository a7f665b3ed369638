//! An attached volume: the receiver of every operation.

use crate::failure_cause::{self, FailureCause};
use crate::format::{Geometry, MAX_POOLS, Superblock};
use crate::requests::RecoveryReport;
use crate::session::delegation::board::Delegates;
use crate::session::guess::Guesses;
use crate::session::late::{Late, SpaceBusy};
use crate::session::layout::{LOADED, STRIPED_ALLOCATION, SessionInode, WAIT_NOTES};
use crate::session::map::Session;
use crate::session::open_table::Opens;
use crate::session::own_callers::OwnCallers;
use crate::session::path_mode::PathMode;
use crate::session::segments::{FileIdentity, Leftover};
use crate::session::stuck::Stuck;
use crate::session::walks::Walks;
use crate::types::*;
use egeria_media::emulation::Emulation;
use egeria_media::{BlockNumber, Pool, PoolIndex};
use std::collections::HashSet;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

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
    pub(crate) media: Vec<Arc<Pool>>,
    pub(crate) geometry: Vec<Geometry>,
    pub(crate) superblock: Superblock,
    pub(crate) paths: Vec<PathBuf>,
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

/// A type for the methods on one subject. It borrows the volume and costs what the reference costs. It lives in the
/// folder of its subject: floors below cannot name it.
macro_rules! of_volume {
    ($(#[$about:meta])+ $name:ident) => {
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
    };
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
}

/// Reports remembered, so that none is made twice. When the set is full, it is cleared.
const MAX_REPORTED: usize = 4096;

impl Volume {
    /// UUID of the volume.
    pub fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::from_bytes(self.superblock.volume)
    }

    /// Paths of the pools, by pool index.
    pub fn pool_paths(&self) -> Vec<PathBuf> {
        self.paths.clone()
    }

    /// Node of each pool, by pool index.
    pub fn pool_nodes(&self) -> Vec<u16> {
        self.superblock.pools.iter().map(|pool| pool.node).collect()
    }

    /// Whether every change is refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Refuse changes on a read-only attachment.
    pub(crate) fn writable(&self) -> Outcome<()> {
        if self.is_read_only() {
            Err(Errno(libc::EROFS))
        } else {
            Ok(())
        }
    }

    /// Whether this attach made the session: then its [`crate::AttachOptions`] apply to all processes.
    pub fn made_session(&self) -> bool {
        self.origin != Origin::Joined
    }

    /// Where new data of the whole session goes.
    pub fn allocation(&self) -> AllocationPolicy {
        match self.session.header().allocation.load(Ordering::Relaxed) {
            0 => AllocationPolicy::Local,
            1 => AllocationPolicy::Random,
            STRIPED_ALLOCATION => AllocationPolicy::Striped,
            pool => AllocationPolicy::Pool(pool.saturating_sub(16) as u8),
        }
    }

    /// Where new data goes; changed for the whole session.
    pub fn set_allocation(&self, policy: AllocationPolicy) {
        let word = match policy {
            AllocationPolicy::Local => 0,
            AllocationPolicy::Random => 1,
            AllocationPolicy::Striped => STRIPED_ALLOCATION,
            AllocationPolicy::Pool(pool) => 16 + pool as u64,
        };
        self.session
            .header()
            .allocation
            .store(word, Ordering::Relaxed);
    }

    /// Emulated timing on or off (off while data is prepared); false when no machine is emulated. Other volumes on the
    /// machine are not affected.
    pub fn set_timing(&self, on: bool) -> bool {
        let (mode, untimed) = (&self.session.header().path_mode, PathMode::UNTIMED.0);
        if on {
            mode.fetch_and(!untimed, Ordering::AcqRel)
        } else {
            mode.fetch_or(untimed, Ordering::AcqRel)
        };
        // Accesses without timing were not charged to the machine.
        self.session.emulation().forget();
        self.is_emulated()
    }

    /// Whether accesses take as long as on an emulated machine.
    pub fn is_emulated(&self) -> bool {
        self.path_mode().is_emulated()
    }

    /// The emulated machine's state in the session.
    pub fn emulation(&self) -> &Emulation {
        self.session.emulation()
    }

    /// The media pools, for benchmarks' bare copies.
    pub fn pools(&self) -> &[Arc<Pool>] {
        &self.media
    }

    /// Set the function to call with events: damage and blocks that fail (once each), stopped processes that others
    /// wait for, dead processes that were reaped. Can be set once. A library inside another program sets none. Events
    /// found earlier, by recovery, are in [`Volume::recovery`].
    pub fn set_reporter(&self, reporter: Reporter) {
        self.pass_over_noted_waits();
        let _ = self.reporter.set(reporter);
        for (index, pool) in self.media.iter().enumerate() {
            let volume = self.weak.clone();
            pool.set_failure_handler(Box::new(move |at| {
                if let Some(volume) = volume.upgrade() {
                    volume.report_block(index, at.block().0);
                }
            }));
        }
    }

    /// What was done to the volume when this attach made the session; `None` when it joined one.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.recovery.get()
    }

    /// Cause of the last `EIO` of an operation of this thread, since [`crate::forget_failure_cause`].
    pub fn failure_cause(&self) -> Option<FailureCause> {
        failure_cause::last().or_else(|| {
            let failed = |(index, pool): (usize, &Arc<Pool>)| {
                Some(FailureCause::Medium {
                    pool: PoolIndex(index as u8),
                    block: pool.failure()?.block(),
                })
            };
            self.media.iter().enumerate().find_map(failed)
        })
    }

    pub(crate) fn report(&self, severity: Severity, line: &str) {
        if let Some(reporter) = self.reporter.get() {
            reporter(severity, line);
        }
    }

    /// Report damage, and keep it as a finding where these are collected.
    pub(crate) fn report_damage(&self, line: &str) {
        self.find(line);
        self.report(Severity::Error, line);
    }

    /// Report damage once for each place, and keep it as a finding where these are collected.
    pub(crate) fn report_damage_once(&self, damage: Reported, line: &str) {
        self.find(line);
        if self.is_new(damage) {
            self.report(Severity::Error, line);
        }
    }

    fn find(&self, line: &str) {
        if let Ok(mut findings) = self.findings.lock()
            && let Some(findings) = findings.as_mut()
        {
            findings.push(line.to_owned());
        }
    }

    #[cold]
    fn report_block(&self, pool: usize, block: u64) {
        if self.is_new(Reported::Block { pool, block }) {
            let path = self.paths.get(pool).cloned().unwrap_or_default();
            let cause = FailureCause::Medium {
                pool: PoolIndex(pool as u8),
                block: BlockNumber(block),
            };
            self.report(Severity::Error, &format!("{}: {cause}", path.display()));
        }
    }

    /// Whether there is a reporter that has not received this yet.
    fn is_new(&self, reported: Reported) -> bool {
        if self.reporter.get().is_none() {
            return false;
        }
        let mut known = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REPORTED {
            known.clear();
        }
        known.insert(reported)
    }

    #[inline]
    pub(crate) fn pool(&self, index: PoolIndex) -> Outcome<&Pool> {
        self.media
            .get(index.0 as usize)
            .map(Arc::as_ref)
            .ok_or(Errno(libc::EIO))
    }

    /// Size now.
    ///
    /// # Errors
    /// What [every operation](crate::Errno) can fail with, when the inode is not loaded.
    pub fn size_bytes(&self, file: FileReference) -> Outcome<u64> {
        if file.inode().state.load(Ordering::Acquire) != LOADED {
            return Ok(self.lock_beside_leases(file.ino.0)?.size_bytes());
        }
        Ok(file.inode().size_bytes.load(Ordering::Acquire))
    }

    /// What is between data paths and the pools, in this session.
    #[inline(always)]
    pub(crate) fn path_mode(&self) -> PathMode {
        PathMode(self.session.header().path_mode.load(Ordering::Relaxed))
    }
}
