//! The emulated machine of a session: memory of its own beside the session, so that all volumes of one owner on one machine
//! meet at its memories and links.
//!
//! Its name is a hash of the machine's description and of this build, so that who asks for the same machine finds it.
//! What it holds are points in time that pass by themselves: who dies in the middle holds nobody up. It is removed when
//! nobody maps it any more, by the last who leaves or by the next who would use it.

use super::layout::SESSION_VERSION;
use super::memory::{SessionMemory, populate};
use crate::volume::segments::{Leftover, is_mapped, remove_segment};
use crate::volume::trust::Owner;
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

/// Whoever makes a machine's memory takes microseconds; longer is waited for nobody.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// What sessions without an emulated machine have.
pub(super) static NONE: LazyLock<Emulation> = LazyLock::new(Emulation::off);

/// An emulated machine that a session uses. Fields are dropped in this order: unmapped, then removed.
pub(super) struct SessionMachine {
    pub(super) emulation: Emulation,
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

/// Number of a machine's memory, never 0.
pub(super) fn number_of(machine: &Machine) -> u64 {
    let mut hasher = DefaultHasher::new();
    SESSION_VERSION.hash(&mut hasher);
    serde_json::to_vec(machine)
        .unwrap_or_default()
        .hash(&mut hasher);
    hasher.finish().max(1)
}

fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("machine-{number:016x}"))
}

impl SessionMachine {
    /// For this process alone.
    pub(super) fn private(machine: &Machine) -> io::Result<SessionMachine> {
        Ok(SessionMachine {
            emulation: Emulation::private(machine).map_err(invalid)?,
            _leftover: Leftover::default(),
        })
    }

    /// The memory of this machine below a directory of sessions, made when there is none.
    pub(super) fn find_or_make(
        machine: &Machine,
        directory: &Path,
        owner: Owner,
    ) -> io::Result<SessionMachine> {
        let _only = lock(directory)?;
        let path = path_of(directory, number_of(machine));
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

    /// The memory of this number below a directory of sessions.
    pub(super) fn join(number: u64, directory: &Path, owner: Owner) -> io::Result<SessionMachine> {
        SessionMachine::open(path_of(directory, number), owner)
    }

    fn open(path: PathBuf, owner: Owner) -> io::Result<SessionMachine> {
        let file = owner.open_session(&path)?;
        match file.metadata()?.len() == size_of::<EmulationState>() as u64 {
            true => SessionMachine::of(map(&file)?, path),
            false => Err(io::Error::from_raw_os_error(libc::EPROTO)),
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

/// Keeps two from making the same machine's memory; ends with what is answered.
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
