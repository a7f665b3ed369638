//! Pools in memory that live as long as one process; what a killed one left is removed by the next.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use egeria_engine::{CreateOptions, PoolRequest, create_volume, remove_sessions};
use rustix::fs::{FlockOperation, flock};

use super::directory::{SCRATCH_PREFIX, memory_directory};
use super::mount_point::detach;
use egeria_files::{Error, Result};

/// What names of pools begin with.
const POOL: &str = "pool";

/// Held locked while the scratch volume is in use.
const LOCK: &str = "lock";

/// Says where the scratch volume is mounted.
const MOUNT: &str = "mount";

/// A volume in memory, removed when dropped.
pub struct ScratchPools {
    directory: PathBuf,
    /// The directory of its user that it is in.
    own: Option<PathBuf>,
    pools: Vec<PoolRequest>,
    _lock: File,
}

impl ScratchPools {
    /// A volume with a pool of `pool_bytes` for each of `nodes`, in a directory of its own in `memory`.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn make(
        memory: &Path,
        nodes: &[u16],
        pool_bytes: u64,
        options: &CreateOptions,
    ) -> Result<ScratchPools> {
        let (own, (directory, lock)) = locked_directory_in(memory)?;
        let pool = |&node: &u16| PoolRequest {
            node,
            path: directory.join(format!("{POOL}{node}")),
            bytes: Some(pool_bytes),
        };
        let pools = nodes.iter().map(pool).collect();
        let scratch = ScratchPools {
            directory,
            own,
            pools,
            _lock: lock,
        };
        create_volume(&scratch.pools, options).map_err(Error::failed)?;
        Ok(scratch)
    }

    /// The pools, as they were made.
    pub fn pools(&self) -> &[PoolRequest] {
        &self.pools
    }

    /// Path of the first pool.
    pub fn first(&self) -> &Path {
        &self.pools[0].path
    }

    /// Notes where it is mounted, for those who find it after this process was killed.
    pub fn note_mount(&self, directory: &Path) {
        use std::os::unix::ffi::OsStrExt;
        let _ = File::create(self.directory.join(MOUNT))
            .and_then(|mut file| file.write_all(directory.as_os_str().as_bytes()));
    }
}

impl Drop for ScratchPools {
    fn drop(&mut self) {
        remove_session(&self.directory);
        let _ = fs::remove_dir_all(&self.directory);
        // It stays while it holds another volume.
        let _ = self.own.as_ref().map(fs::remove_dir);
    }
}

/// Removes the session of a scratch volume, should one be left: whoever still uses the volume lost its
/// mount, or the process that would have removed it was killed.
fn remove_session(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(POOL) {
            remove_sessions(&entry.path());
        }
    }
}

/// The directory of this user that scratch volumes are in, so that what killed processes left is found without looking
/// through what others have in `memory`; `None` when another user took its name.
fn own_directory(memory: &Path) -> Option<PathBuf> {
    let path = memory.join(format!("{SCRATCH_PREFIX}of-{}", egeria_files::user()));
    // There already, as a rule.
    let _ = fs::DirBuilder::new().mode(0o700).create(&path);
    egeria_files::directory(&path).ok()
}

/// A directory for a new volume, and that of its user around it, after what killed processes left was removed.
fn locked_directory_in(memory: &Path) -> Result<(Option<PathBuf>, (PathBuf, File))> {
    const TRIES: usize = 16;
    for _ in 0..TRIES {
        let Some(own) = own_directory(memory) else {
            break;
        };
        sweep(&own);
        match locked_directory(&own) {
            // Another process of this user removed it, empty.
            Err(_) if !own.exists() => {}
            made => return Ok((Some(own), made?)),
        }
    }
    Ok((None, locked_directory(memory)?))
}

fn locked_directory(memory: &Path) -> Result<(PathBuf, File)> {
    let failed = |error: io::Error| {
        let doing = format!("cannot make a scratch directory in {}", memory.display());
        Error::io(doing, error, "check its permissions")
    };
    let directory = memory_directory(memory)?;
    // Others take a lock that nobody holds for that of a dead process: they see it locked only.
    let unseen = directory.path().join("new");
    let lock = File::create(&unseen).map_err(failed)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
    fs::rename(&unseen, directory.path().join(LOCK)).map_err(failed)?;
    Ok((directory.keep(), lock))
}

/// Removes what killed processes of this user left behind in its directory.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        sweep_one(&entry.path());
    }
}

/// Removes one scratch directory if it is ours and its owner is dead: nobody holds its lock.
fn sweep_one(directory: &Path) -> Option<()> {
    let metadata = fs::symlink_metadata(directory).ok()?;
    let ours = metadata.is_dir()
        && metadata.uid() == rustix::process::getuid().as_raw()
        && metadata.mode() & 0o077 == 0;
    if !ours {
        return None;
    }
    let lock = File::open(directory.join(LOCK)).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    if let Ok(mount) = fs::read_to_string(directory.join(MOUNT)) {
        let mount = Path::new(&mount);
        if mount
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(SCRATCH_PREFIX))
        {
            detach(mount);
            let _ = fs::remove_dir(mount);
        }
    }
    remove_session(directory);
    fs::remove_dir_all(directory).ok()
}

/// Removes the volumes that killed processes of this user left in `memory`.
pub fn remove_left_behind(memory: &Path) {
    let own = own_directory(memory);
    own.as_deref().map(sweep);
    // It stays while it holds a volume in use.
    let _ = own.map(fs::remove_dir);
}
