//! Attaching: finds the pools of a volume, and joins its session or makes one.
//!
//! Locks on the pools show which processes are attached or make a session (`pool_locks`). A line on pool 0 names the
//! session (`session_line`).

use crate::attach::Leaving;
use crate::attach::grown::open_added_pools;
use crate::attach::pool_locks::*;
use crate::attach::pools::{Found, find_pools, open_pool, read_superblock};
use crate::attach::session_line::{SessionLine, read_session_line, write_session_line};
use crate::format::*;
use crate::observe::Users;
use crate::requests::*;
use crate::session::LateWork;
use crate::session::References;
use crate::session::Slots;
use crate::session::Uses;
use crate::session::appended::Appended;
use crate::session::delegation::board::Delegates;
use crate::session::layout::*;
use crate::session::machine;
use crate::session::map::{Session, segment_name};
use crate::session::name_words::NameWords;
use crate::session::owner_word::Era;
use crate::session::segments::{self, FileIdentity, Leftover};
use crate::session::trust::Owner;
use crate::session::volume::{Origin, Volume};
use crate::session::walks::Walks;
use crate::space::placement::place_nodes;
use egeria_media::{Access, Pool};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Pools that can be added to a volume while a session of it lasts.
const ADDED_POOLS: usize = 2;
/// A pool of this many blocks, 1 GiB, can always be added.
const MIN_ADDED_BLOCKS: u64 = 1 << 18;
/// How often, and how far apart, to look for a missing session.
const JOIN_TRIES: usize = 20;

/// Volumes this process has attached.
pub(super) static ATTACHED_HERE: Mutex<Vec<Weak<Volume>>> = Mutex::new(Vec::new());

/// Attach; retried when the processes that seemed to be attached, here or to a copy, were detaching or only checked
/// the locks.
pub(super) fn attach_patiently(
    pool: &Path,
    mut found: Found,
    mode: AttachMode,
    options: &AttachOptions,
) -> Result<Arc<Volume>, VolumeError> {
    for _ in 0..JOIN_TRIES {
        match attach_found(found, mode, options) {
            Err(error)
                if mode != AttachMode::Join
                    && matches!(error.errno, libc::ENOENT | libc::EPROTO | libc::EBUSY) =>
            {
                std::thread::sleep(PAUSE);
                found = find_pools(pool)?;
            }
            outcome => return outcome,
        }
    }
    attach_found(found, mode, options)
}

fn attach_found(
    found: Found,
    mode: AttachMode,
    options: &AttachOptions,
) -> Result<Arc<Volume>, VolumeError> {
    let path = found.paths[0].clone();
    let locks = found
        .first()?
        .try_clone()
        .map_err(|error| io_failure("lock pool", &path, &error, "close some files"))?;
    let lock =
        |byte, kind| lock_byte(&locks, byte, kind).map_err(|error| unlockable(&path, &error));
    let lock_soon = |byte, kind| lock_soon(&locks, &path, byte, kind);
    if mode == AttachMode::Join {
        if !lock(ATTACHED, libc::F_RDLCK)? {
            return Err(failure(
                libc::EAGAIN,
                format!(
                    "the volume of {} is being recovered; try again",
                    path.display()
                ),
            ));
        }
        // From here on, every process that detaches finds us attached and leaves the session to us.
        if !is_attached_elsewhere(&locks) {
            return Err(nobody_attached(&path.display().to_string()));
        }
        lock_siblings(&found, libc::F_RDLCK)?;
        found.check_current()?;
        return join(found, false, &locks);
    }
    lock_soon(CREATING, libc::F_WRLCK)?;
    let alone = lock(ATTACHED, libc::F_WRLCK)?;
    let read_only = mode == AttachMode::ReadOnly;
    let siblings: Vec<File> = found.files[1..]
        .iter()
        .flatten()
        .filter_map(|file| file.try_clone().ok())
        .collect();
    let result = if alone {
        lock_siblings(&found, libc::F_WRLCK)
            .and_then(|()| found.check_current())
            .and_then(|()| create_session(found, options, read_only, Origin::Made))
    } else {
        lock_soon(ATTACHED, libc::F_RDLCK)?;
        lock_siblings(&found, libc::F_RDLCK)?;
        found.check_current()?;
        join(found, read_only, &locks)
    };
    if result.is_ok() {
        // Pool 0 last: a process that can lock it can lock the others too.
        for file in &siblings {
            let _ = lock_byte(file, ATTACHED, libc::F_RDLCK);
        }
        lock(ATTACHED, libc::F_RDLCK)?;
    }
    lock(CREATING, libc::F_UNLCK)?;
    result
}

/// Map the pools. Stores to private mappings stay in this process (except for device DAX, which the kernel cannot map
/// privately).
pub(crate) fn map_pools(found: &mut Found, private: bool) -> Result<Vec<Arc<Pool>>, VolumeError> {
    let files = std::mem::take(&mut found.files);
    let mut pools = Vec::new();
    for (file, path) in files.into_iter().zip(&found.paths) {
        let Some(file) = file else {
            pools.push(Arc::new(no_pool()));
            continue;
        };
        let is_device = file
            .metadata()
            .is_ok_and(|metadata| metadata.file_type().is_char_device());
        let pool = if private && !is_device {
            Pool::open_private_with_file(file, path)
        } else {
            Pool::open_with_file(file, path, Access::ReadWrite)
        };
        let pool = pool.map_err(|error| failure(libc::EIO, error.to_string()))?;
        pools.push(Arc::new(pool));
    }
    for (index, (pool, sibling)) in pools.iter().zip(&found.superblock.pools).enumerate() {
        if pool.blocks() < sibling.blocks {
            return Err(failure(
                libc::EIO,
                format!(
                    "pool {index} has {} of {} blocks; restore it",
                    pool.blocks(),
                    sibling.blocks
                ),
            ));
        }
    }
    Ok(pools)
}

/// What stands where a pool was removed. Nothing in it is ever used.
pub(crate) fn no_pool() -> Pool {
    Pool::anonymous(BLOCK as u64)
}

fn sizes_of(geometry: &[Geometry]) -> Vec<(u64, u64)> {
    let size = |geometry: &Geometry| (geometry.blocks, geometry.inodes());
    geometry.iter().map(size).collect()
}

/// Layout for these pools alone.
pub(crate) fn layout_of(geometry: &[Geometry]) -> SessionLayout {
    SessionLayout::new(&sizes_of(geometry), geometry.len())
}

/// Layout for these pools, with room for some more that are added while the volume is in use, each as large as the largest.
fn layout_with_room(geometry: &[Geometry]) -> SessionLayout {
    let mut sizes = sizes_of(geometry);
    let blocks = geometry.iter().map(|geometry| geometry.blocks).max();
    let blocks = blocks.unwrap_or(0).max(MIN_ADDED_BLOCKS);
    let room = geometry.len()..MAX_POOLS.min(geometry.len() + ADDED_POOLS);
    sizes.extend(room.flat_map(|pool| sizes_of(&[Geometry::new(pool as u8, blocks)])));
    SessionLayout::new(&sizes, geometry.len())
}

fn join(mut found: Found, read_only: bool, locks: &File) -> Result<Arc<Volume>, VolumeError> {
    let media = map_pools(&mut found, false)?;
    let path = found.paths[0].display().to_string();
    let session = read_session_line(&media[0]).ok_or_else(|| nobody_attached(&path))?;
    let geometry = found.superblock.geometry();
    let name = segment_name(&found.superblock.volume, &session);
    let gone = || std::io::Error::from_raw_os_error(libc::ENOENT);
    let session = found
        .owner
        .and_then(|owner| {
            Some((
                owner,
                segments::find_segment(owner, &found.superblock, &name)?,
            ))
        })
        .ok_or_else(gone)
        .and_then(|(owner, segment)| {
            let layout = |pools| Some(layout_with_room(geometry.get(..pools)?));
            Session::join(segment, layout, owner)
        })
        .map_err(|error| join_failure(&path, &error, locks))?;
    let origin = Origin::Joined;
    Ok(assemble(found, media, geometry, session, read_only, origin))
}

fn nobody_attached(path: &str) -> VolumeError {
    failure(
        libc::ENOENT,
        format!("nobody has the volume of {path} attached now; mount it first with `egeria mount`"),
    )
}

fn join_failure(path: &str, error: &std::io::Error, locks: &File) -> VolumeError {
    let hint = match error.raw_os_error() {
        Some(libc::ENOENT) if !is_attached_elsewhere(locks) => return nobody_attached(path),
        Some(libc::ENOENT) => {
            "it is attached where /dev/shm is another one (a container?): share /dev/shm, or detach it there"
        }
        Some(libc::EPROTO) => {
            "it was attached by another Egeria release: detach it everywhere first"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "its session is another user's; run as that user, or use the mount"
        }
        _ => "check /dev/shm",
    };
    failure(
        error.raw_os_error().unwrap_or(libc::EIO),
        format!("cannot join the session of {path}: {error}; {hint}"),
    )
}

pub(crate) fn assemble(
    found: Found,
    media: Vec<Arc<Pool>>,
    geometry: Vec<Geometry>,
    session: Session,
    read_only: bool,
    origin: Origin,
) -> Arc<Volume> {
    let header = session.header();
    let hash_seed = header.hash_seed.load(Ordering::Acquire);
    let name_words = NameWords::new(&session.layout().sizes);
    Arc::new_cyclic(|weak| Volume {
        media: Appended::new(media, MAX_POOLS),
        geometry: Appended::new(geometry, MAX_POOLS),
        superblocks: Appended::new(vec![found.superblock], 1 + ADDED_POOLS),
        paths: Appended::new(found.paths, MAX_POOLS),
        open_added_pools,
        opening_pools: Mutex::new(()),
        session,
        weak: weak.clone(),
        era: AtomicU64::new(crate::session::slots::new_era().0),
        process: AtomicU32::new(0),
        opens: Default::default(),
        delegates: Delegates::default(),
        late: Default::default(),
        space_busy: Default::default(),
        stuck: Default::default(),
        guesses: crate::session::guess::Guesses::new(),
        walks: Walks::default(),
        hash_seed,
        name_words,
        tight: Default::default(),
        has_refilled: Default::default(),
        description_hint: AtomicU32::new(0),
        read_only,
        reporter: OnceLock::new(),
        reported: Default::default(),
        noted_waits: Default::default(),
        recovery: OnceLock::new(),
        on_behalf: Default::default(),
        leaves_used_names: Default::default(),
        callers: Default::default(),
        findings: Mutex::new((origin == Origin::Private).then(Vec::new)),
        origin,
        identity: found.identity,
        leftover: Default::default(),
        clock_ns: AtomicI64::new(0),
    })
}

/// Random bytes for ids and seeds.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .is_err()
    {
        bytes[..N.min(16)].copy_from_slice(&uuid::Uuid::new_v4().as_bytes()[..N.min(16)]);
    }
    bytes
}

/// Make the session; no other process is attached. A private session is visible to no other process, and its changes
/// stay private (`keep_changes`).
pub(crate) fn create_session(
    mut found: Found,
    options: &AttachOptions,
    read_only: bool,
    origin: Origin,
) -> Result<Arc<Volume>, VolumeError> {
    let private = origin == Origin::Private;
    let media = map_pools(&mut found, private)?;
    // A private session does not change the line: checking a copy must not end the original's session.
    let was_left = !private && remove_stale_segment(&found, &media[0])?;
    let geometry = found.superblock.geometry();
    let id: [u8; 16] = random();
    let owner = found.owner.filter(|_| !private);
    let segment = match owner {
        Some(owner) => owner
            .session_directory(&found.superblock)
            .map_err(|error| no_session(&error))?
            .join(segment_name(&found.superblock.volume, &id)),
        None => PathBuf::new(),
    };
    if !private {
        // Named on pool 0 before it exists: if this process dies here, the next attach removes it. No process can join
        // until then, because `ATTACHED` is held exclusively.
        write_session_line(&media[0], SessionLine::Current, &id)?;
    }
    let layout = match origin {
        Origin::Private => layout_of(&geometry),
        _ => layout_with_room(&geometry),
    };
    let session = make_segment(&segment, layout, owner)?;
    fill_header(
        &session,
        &found.superblock,
        &id,
        u64::from_le_bytes(random()),
    );
    let made = place_nodes(&session, &found.superblock, options).and_then(|()| {
        let volume = assemble(found, media, geometry, session, read_only, origin);
        volume.recover(options, was_left).map(|()| volume)
    });
    let volume = made.inspect_err(|_| segments::remove_segment(&segment))?;
    // Joiners check the magic: everything before it is visible when they see it.
    volume
        .session
        .header()
        .magic
        .store(SESSION_MAGIC, Ordering::Release);
    Ok(volume)
}

fn make_segment(
    path: &Path,
    layout: SessionLayout,
    owner: Option<Owner>,
) -> Result<Session, VolumeError> {
    let made = Session::create(path.to_owned(), layout, owner).and_then(|session| {
        let full = |_| std::io::Error::from_raw_os_error(libc::ENOSPC);
        let backed = session.back_fixed().map_err(full);
        backed
            .map(|()| session)
            .inspect_err(|_| segments::remove_segment(path))
    });
    made.map_err(|error| no_session(&error))
}

fn no_session(error: &std::io::Error) -> VolumeError {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    let hint = match errno {
        libc::EACCES | libc::EPERM | libc::EROFS => "make it writable for this user",
        libc::EEXIST => "another user took the names of this one's directories there; remove them",
        _ => "free space there or mount it larger",
    };
    failure(
        errno,
        format!("cannot make a session in /dev/shm: {error}; {hint}"),
    )
}

/// Remove the segment of a session of these pools if all its users died; returns whether there was one. None of these
/// pools is attached. A live session with the same UUID belongs to other pools with that UUID and must not lose its
/// segment.
fn remove_stale_segment(found: &Found, pool: &Pool) -> Result<bool, VolumeError> {
    let volume = &found.superblock.volume;
    let Some(owner) = found.owner else {
        return Ok(false);
    };
    if segments::is_any_mapped(owner, &found.superblock) {
        return Err(failure(
            libc::EBUSY,
            format!(
                "{} is a copy: other pools with its UUID {} are attached now; unmount those first, only one of the copies can be used at a time",
                found.paths[0].display(),
                uuid::Uuid::from_bytes(*volume)
            ),
        ));
    }
    let stale = read_session_line(pool);
    if let Some(stale) = &stale {
        segments::find_segment(owner, &found.superblock, &segment_name(volume, stale))
            .iter()
            .for_each(|path| {
                segments::remove_segment(path);
                segments::remove_segment(&machine::own_path(path));
            });
    }
    Ok(stale.is_some())
}

/// Remove all sessions of the volume of a pool, even one in use: the volume is about to be removed.
pub fn remove_sessions(pool: &Path) {
    let Ok((owner, file)) = open_pool(pool) else {
        return;
    };
    if let Ok((superblock, _)) = read_superblock(&file, pool) {
        let segments = segments::segments_of(owner, &superblock);
        segments
            .iter()
            .for_each(|path| segments::remove_segment(path));
    }
}

pub(crate) fn fill_header(
    session: &Session,
    superblock: &Superblock,
    id: &[u8; 16],
    hash_seed: u64,
) {
    let header = session.header();
    header.version.store(SESSION_VERSION, Ordering::Relaxed);
    header
        .pool_count
        .store(superblock.pools.len() as u32, Ordering::Relaxed);
    header
        .first_pool_count
        .store(superblock.pools.len() as u32, Ordering::Relaxed);
    for (half, bytes) in superblock.volume.chunks_exact(8).enumerate() {
        header.volume[half].store(get_u64(bytes, 0), Ordering::Relaxed);
    }
    for (half, bytes) in id.chunks_exact(8).enumerate() {
        header.session[half].store(get_u64(bytes, 0), Ordering::Relaxed);
    }
    header.hash_seed.store(hash_seed, Ordering::Relaxed);
    header
        .arena
        .pages
        .store(session.layout().arena_pages as u64, Ordering::Relaxed);
    let session_owner = rustix::process::geteuid().as_raw();
    header
        .arena
        .holes
        .begin(session_owner, HoleAccounts::usual_limit_pages());
}

impl Drop for Volume {
    /// The last process of a session removes it: all its state is in the pools.
    fn drop(&mut self) {
        let process = self.process.load(Ordering::Acquire);
        let forked = Era(self.era.load(Ordering::Relaxed)).has_forked() && process == 0;
        if forked {
            return;
        }
        // They use what is given back now.
        self.delegates.end();
        if process != 0 {
            Leaving::of(self).leave(process as usize - 1);
        }
        if self.origin == Origin::Private {
            return;
        }
        let Some(file) = Leaving::of(self).reopen() else {
            // The pool has moved, so its locks give no answer.
            self.leftover = Leftover(Some(self.session.path().to_owned()));
            return;
        };
        // Release our own shared lock first: it ends with the mapping of pool 0.
        self.media.clear();
        let creating = lock_byte(&file, CREATING, libc::F_WRLCK);
        if matches!(creating, Ok(true))
            && matches!(lock_byte(&file, ATTACHED, libc::F_WRLCK), Ok(true))
        {
            // The name last: if this process dies before, the next attach finds the name and removes the rest.
            segments::remove_segment(self.session.path());
            Leaving::of(self).end_session_line(&file);
        }
    }
}

impl Leaving<'_> {
    /// Note on pool 0 that the session has ended. Called by the last attached process, which holds the lock on `file`.
    fn end_session_line(self, file: &File) {
        let opened = file.try_clone().ok().and_then(|file| {
            Pool::open_with_file(file, &self.volume.paths[0], Access::ReadWrite).ok()
        });
        if let Some(pool) = opened
            && let Some(session) = read_session_line(&pool)
        {
            // After an unclean end, the segment is missing, which has the same meaning.
            let _ = write_session_line(&pool, SessionLine::Ended, &session);
        }
    }

    /// Reopen pool 0, if its path still leads to the same file.
    fn reopen(self) -> Option<File> {
        let opened = crate::session::trust::open_carefully(&self.volume.paths[0], 0);
        opened
            .ok()
            .filter(|file| FileIdentity::of(file).is_ok_and(|now| now == self.volume.identity))
    }

    /// Give back all that this process holds in the session.
    fn leave(self, process: usize) {
        LateWork::of(self.volume).do_late();
        // Deleting files that only this process kept open still needs a thread slot: slots go last. Without a limit on
        // waiting, this deletes all of them.
        let _ = Uses::of(self.volume).reap_opens(process);
        self.volume.session.reap_descriptions(process);
        References::of(self.volume).reap_lookup_references(process);
        Users::of(self.volume).end_watch(process);
        self.volume.thread_exit();
        for (index, slot) in self.volume.session.used_threads().iter().enumerate() {
            if slot.owner.load(Ordering::Acquire) == process as u64 + 1 {
                Slots::of(self.volume).release_thread_slot(index);
            }
        }
        self.volume.session.processes()[process]
            .pid
            .store(0, Ordering::Release);
    }
}

/// Whether any process has the volume of this pool attached; only pool 0 is checked.
pub(crate) fn is_attached(path: &Path) -> bool {
    let Ok(file) = crate::session::trust::open_carefully(path, 0) else {
        return false;
    };
    matches!(lock_when_left(&file), Ok(false))
}

/// Exclude all other processes while a volume is checked or changed as a whole; the locks end when the returned file
/// is closed.
pub(crate) fn lock_for_check(found: &Found) -> Result<File, VolumeError> {
    let path = &found.paths[0];
    let (_, file) = open_pool(path)?;
    let locked = lock_when_left(&file).map_err(|error| {
        io_failure(
            "lock pool",
            path,
            &error,
            "pools must lie on a file system with locks",
        )
    })?;
    if !locked {
        return Err(failure(
            libc::EBUSY,
            format!(
                "the volume of {} is attached; unmount it and end the programs that use it, then try again",
                path.display()
            ),
        ));
    }
    found.check_current()?;
    Ok(file)
}
