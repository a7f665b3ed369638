//! The emulated machine of a session, in memory separate from the session. So volumes of one owner can share its
//! memories and links.
//!
//! It is named after its session if only that session uses it. Otherwise its name is a hash of the machine's
//! description, of this build and of the name under which it is shared. It contains only points in time that pass by
//! themselves, so a process that dies in the middle blocks no other. When no process maps it any more, it is removed
//! by the last process that detaches, or by the next one that would use it.

use crate::session::layout::SESSION_VERSION;
use crate::session::memory::{SessionMemory, populate};
use crate::session::segments::{Leftover, is_mapped, remove_segment};
use crate::session::trust::Owner;
use egeria_machine::Machine;
use egeria_media::emulation::{Emulation, EmulationError, EmulationState};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Making a machine's memory takes microseconds; after this time waiting ends.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// What sessions without an emulated machine have.
pub(in crate::session) static NONE: LazyLock<Emulation> = LazyLock::new(Emulation::off);

/// An emulated machine that a session uses. Fields are dropped in this order: unmapped, then removed.
pub(in crate::session) struct SessionMachine {
    pub(in crate::session) emulation: Emulation,
    _leftover: Leftover,
}

/// Mapped memory of a machine.
struct MappedState(SessionMemory);

impl Deref for MappedState {
    type Target = EmulationState;

    fn deref(&self) -> &EmulationState {
        // SAFETY: mapped for as long as `self` lives, page-aligned and of that size (`map`); only atomics, for which zeroed
        // and concurrently changed memory is valid.
        unsafe { &*self.0.base.0.cast() }
    }
}

/// Number of a machine that belongs to one session only.
const OWN: u64 = 1;

/// Number of a machine's memory, never 0: shared by volumes under a name, or owned by one session.
pub(in crate::session) fn number_of(machine: &Machine, shared_as: Option<&str>) -> u64 {
    let Some(name) = shared_as else {
        return OWN;
    };
    let mut hasher = DefaultHasher::new();
    (SESSION_VERSION, name).hash(&mut hasher);
    serde_json::to_vec(machine)
        .unwrap_or_default()
        .hash(&mut hasher);
    hasher.finish().max(OWN + 1)
}

/// Where it is, for this session.
pub(crate) fn path_of(number: u64, session: &Path) -> PathBuf {
    match number {
        OWN => own_path(session),
        _ => session.with_file_name(format!("machine-{number:016x}")),
    }
}

/// Path of the machine that belongs to one session only.
pub(crate) fn own_path(session: &Path) -> PathBuf {
    let mut name = session.as_os_str().to_owned();
    name.push(".machine");
    name.into()
}

impl SessionMachine {
    /// For this process alone.
    pub(in crate::session) fn private(machine: &Machine) -> io::Result<SessionMachine> {
        Ok(SessionMachine {
            emulation: Emulation::private(machine).map_err(invalid)?,
            _leftover: Leftover::default(),
        })
    }

    /// The memory of this machine at this path, created if missing.
    pub(in crate::session) fn find_or_make(
        machine: &Machine,
        path: PathBuf,
        owner: Owner,
    ) -> io::Result<SessionMachine> {
        let _only = lock(path.parent().unwrap_or(Path::new("/")))?;
        if is_mapped(&path) == Some(true) {
            return SessionMachine::open(path, owner);
        }
        remove_segment(&path);
        let unfinished = path.with_extension("new");
        remove_segment(&unfinished);
        let file = owner.create_session(&unfinished)?;
        let made = file
            .set_len(size_of::<EmulationState>() as u64)
            .and_then(|()| map(&file))
            .and_then(|state| {
                populate(state.0.base.0, size_of::<EmulationState>())
                    .map_err(|_| io::Error::from_raw_os_error(libc::ENOSPC))?;
                state.configure(machine).map_err(invalid)?;
                renameat_with(CWD, &unfinished, CWD, &path, RenameFlags::NOREPLACE)?;
                SessionMachine::of(state, path)
            });
        made.inspect_err(|_| remove_segment(&unfinished))
    }

    /// The memory of the machine at this place.
    pub(in crate::session) fn open(path: PathBuf, owner: Owner) -> io::Result<SessionMachine> {
        let file = owner.open_session(&path)?;
        if file.metadata()?.len() == size_of::<EmulationState>() as u64 {
            SessionMachine::of(map(&file)?, path)
        } else {
            Err(io::Error::from_raw_os_error(libc::EPROTO))
        }
    }

    fn of(state: MappedState, path: PathBuf) -> io::Result<SessionMachine> {
        Ok(SessionMachine {
            emulation: Emulation::over(Box::new(state)).map_err(invalid)?,
            _leftover: Leftover(Some(path)),
        })
    }
}

fn map(file: &File) -> io::Result<MappedState> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    SessionMemory::map(size_of::<EmulationState>(), flags, file.as_raw_fd()).map(MappedState)
}

fn invalid(error: EmulationError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// Prevents two processes from creating the memory of one machine; ends when the returned file is closed.
fn lock(directory: &Path) -> io::Result<File> {
    let directory = File::open(directory)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(directory),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
}
