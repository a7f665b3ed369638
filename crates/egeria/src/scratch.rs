//! Volumes and mount points that live as long as one command.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use egeria_fs::{CreateOptions, PoolRequest, create_volume};
use egeria_machine::{Machine, format_bytes};
use egeria_media::HUGE_PAGE_BYTES;
use egeria_watch::own;
use rustix::fs::{FlockOperation, flock};
use rustix::mount::UnmountFlags;

use crate::placement;
use egeria_cli::failure::{Failure, Outcome};

/// Where scratch pools are made: DRAM.
const MEMORY: &str = "/dev/shm";

/// Names of scratch directories and mount points begin with this; the process id follows.
const PREFIX: &str = "egeria-run-";

/// Held locked while the scratch volume is in use; holds the volume's UUID.
const LOCK: &str = "lock";

/// Says where the scratch volume is mounted.
const MOUNT: &str = "mount";

/// A volume in DRAM, removed when dropped.
pub struct Scratch {
    directory: PathBuf,
    first_pool: PathBuf,
    lock: File,
}

impl Scratch {
    /// A volume of `bytes` in all, with one pool per node of the machine.
    ///
    /// # Errors
    /// When there is no room for it in DRAM.
    pub fn create(bytes: u64, machine: &Machine, root_mode: u32) -> Outcome<Scratch> {
        sweep();
        check_room(bytes)?;
        let (directory, lock) = locked_directory()?;
        let nodes = nodes_with_pools(machine);
        let share = bytes
            .div_ceil(nodes.len() as u64)
            .next_multiple_of(HUGE_PAGE_BYTES);
        let pool = |&node: &u16| PoolRequest {
            node,
            path: directory.join(format!("pool{node}")),
            bytes: Some(share),
        };
        let pools: Vec<PoolRequest> = nodes.iter().map(pool).collect();
        let scratch = Scratch {
            first_pool: pools[0].path.clone(),
            directory,
            lock,
        };
        let root = Some((
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
            root_mode,
        ));
        let options = CreateOptions { force: false, root };
        let volume = create_volume(&pools, &options)?;
        if !machine.is_emulated() {
            placement::prefer_nodes(&pools);
        }
        let _ = (&scratch.lock).write_all(volume.simple().to_string().as_bytes());
        Ok(scratch)
    }

    /// Path of its first pool.
    pub fn pool(&self) -> &Path {
        &self.first_pool
    }

    /// Notes where it is mounted, for those who find it after this process was killed.
    pub fn note_mount(&self, directory: &Path) {
        use std::os::unix::ffi::OsStrExt;
        let _ = File::create(self.directory.join(MOUNT))
            .and_then(|mut file| file.write_all(directory.as_os_str().as_bytes()));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove_session(&self.directory);
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Removes the session of a scratch volume, should one be left: whoever still uses the volume lost its
/// mount, or the process that would have removed it was killed.
fn remove_session(directory: &Path) {
    let volume = fs::read_to_string(directory.join(LOCK)).unwrap_or_default();
    let is_volume = volume.len() == 32 && volume.bytes().all(|byte| byte.is_ascii_hexdigit());
    let places = session_directories().into_iter().filter(|_| is_volume);
    for entry in places.flat_map(fs::read_dir).flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&volume) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Sessions of a user are in directories of his in DRAM.
fn session_directories() -> Vec<PathBuf> {
    let prefix = format!("egeria-{}", own::user());
    let entries = fs::read_dir(MEMORY).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .filter_map(|entry| own::directory(&entry.path()).ok())
        .collect()
}

/// Nodes that get a pool: all that are declared, or those with memory or CPUs.
fn nodes_with_pools(machine: &Machine) -> Vec<u16> {
    let emulated = machine.is_emulated();
    let suits =
        |node: &&egeria_machine::Node| emulated || node.memory_bytes > 0 || !node.cpus.is_empty();
    let mut nodes: Vec<u16> = machine
        .nodes
        .iter()
        .filter(suits)
        .map(|node| node.id.0)
        .collect();
    nodes.truncate(egeria_fs::Counters::default().read_bytes.len());
    if nodes.is_empty() { vec![0] } else { nodes }
}

fn check_room(bytes: u64) -> Outcome {
    let space = rustix::fs::statvfs(MEMORY).map_err(|error| {
        Failure::new(format!(
            "cannot use {MEMORY} for scratch: {error}; mount a tmpfs there"
        ))
    })?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if bytes <= free {
        return Ok(());
    }
    Err(Failure::new(format!(
        "no room for {} of scratch: {MEMORY} has {} free; ask for less, or `mount -o remount,size=… {MEMORY}`",
        format_bytes(bytes),
        format_bytes(free)
    )))
}

fn locked_directory() -> Outcome<(PathBuf, File)> {
    let failed = |error| {
        Failure::io(
            "make a scratch directory in",
            Path::new(MEMORY),
            &error,
            "check its permissions",
        )
    };
    let directory = tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(MEMORY)
        .map_err(failed)?;
    let lock = File::create(directory.path().join(LOCK)).map_err(failed)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
    Ok((directory.keep(), lock))
}

/// Removes what killed runs of this user left behind.
fn sweep() {
    let Ok(entries) = fs::read_dir(MEMORY) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            sweep_one(&entry.path());
        }
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
            .is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
        {
            detach(mount);
            let _ = fs::remove_dir(mount);
        }
    }
    remove_session(directory);
    fs::remove_dir_all(directory).ok()
}

/// Takes a mount away even when it is busy or its process is dead; users of it get `ENOTCONN`.
pub fn detach(directory: &Path) {
    if rustix::mount::unmount(directory, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_err() {
        let mut helper = std::process::Command::new("fusermount3");
        helper.args(["-u", "-z", "-q", "--"]).arg(directory);
        let _ = helper
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
    }
}

/// An empty private directory to mount on, removed when dropped (never what is in it).
pub struct MountPoint {
    directory: PathBuf,
}

impl MountPoint {
    /// In the user's run-time directory, or in `/tmp` when others shall reach it. Another user's is not used,
    /// whatever the environment says: he could put a link there, and the mount would be where it leads.
    ///
    /// # Errors
    /// When no directory can be made there, or others could replace it.
    pub fn create(for_others: bool) -> Outcome<MountPoint> {
        let named = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !for_others);
        let private = named.and_then(|name| own::directory(Path::new(&name)).ok());
        let parent = private.unwrap_or_else(|| PathBuf::from("/tmp"));
        let failed = |error| {
            Failure::io(
                "make a mount point in",
                &parent,
                &error,
                "set XDG_RUNTIME_DIR to a directory of your own",
            )
        };
        let below = own::shared_directory(&parent).map_err(failed)?;
        let made = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&below)
            .map_err(failed)?;
        own::directory(made.path()).map_err(failed)?;
        let directory = made.keep();
        if for_others {
            fs::set_permissions(&directory, Permissions::from_mode(0o755)).map_err(failed)?;
        }
        Ok(MountPoint { directory })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.directory
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}
