//! A volume that lives as long as a measurement: pools in memory, mounted by this process, gone
//! without trace whatever happens.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use egeria_fs::{AttachMode, AttachOptions, CreateOptions, PoolRequest, Volume};
use egeria_machine::Machine;
use egeria_mount::{MountHandle, MountOptions};
use egeria_watch::own;
use procfs::{Current, Meminfo};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

use crate::error::{Error, Result};

fn prefix() -> String {
    format!("{}{}-", crate::SCRATCH_PREFIX, std::process::id())
}

/// A directory in memory that is removed when dropped.
pub fn memory_directory(below: &Path) -> Result<TempDir> {
    private_directory(below).map_err(|error| {
        let doing = format!("cannot make a directory in {}", below.display());
        Error::io(doing, error, "name a writable tmpfs")
    })
}

/// An empty directory to mount on, removed when dropped. Not where others could put a link in its place: the
/// mount would be where that leads.
pub fn mount_directory() -> Result<TempDir> {
    let below = own::shared_directory(&std::env::temp_dir());
    let made = below.and_then(|below| private_directory(&below));
    made.map_err(|error| {
        Error::io(
            "cannot make a mount point",
            error,
            "set TMPDIR to a writable directory of your own",
        )
    })
}

fn private_directory(below: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(&prefix())
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(below)
}

/// Fails when the file system of `directory`, or memory, has less than `bytes` left.
pub fn check_room(directory: &Path, bytes: u64, hint: &str) -> Result<()> {
    let free = free_bytes(directory).min(available_memory_bytes());
    if free >= bytes {
        return Ok(());
    }
    let (need, have, at) = (bytes >> 20, free >> 20, directory.display());
    Err(Error::failed(format!(
        "{need} MiB of memory are needed at {at}, {have} MiB are free; {hint}"
    )))
}

fn free_bytes(directory: &Path) -> u64 {
    let space = rustix::fs::statvfs(directory);
    space.map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize))
}

/// `MemAvailable`; without it, as much as one likes.
fn available_memory_bytes() -> u64 {
    let memory = Meminfo::current().ok();
    memory
        .and_then(|memory| memory.mem_available)
        .unwrap_or(u64::MAX)
}

/// A mounted scratch volume; dropping it unmounts and removes everything.
pub struct ScratchVolume {
    volume: Arc<Volume>,
    mount: Option<MountHandle>,
    mount_directory: TempDir,
    pool_paths: Vec<PathBuf>,
    /// After the fields that use the pools: fields drop in order.
    _pool_directory: TempDir,
}

impl ScratchVolume {
    /// Makes pools of `pool_bytes`, one for each of `nodes`, in `memory`, and mounts their volume.
    pub fn make(
        memory: &Path,
        nodes: &[u16],
        pool_bytes: u64,
        machine: Option<Machine>,
    ) -> Result<ScratchVolume> {
        let pool_directory = memory_directory(memory)?;
        let request = |(index, node): (usize, &u16)| PoolRequest {
            node: *node,
            path: pool_directory.path().join(format!("pool{index}")),
            bytes: Some(pool_bytes),
        };
        let pools: Vec<PoolRequest> = nodes.iter().enumerate().map(request).collect();
        egeria_fs::create_volume(&pools, &CreateOptions::default()).map_err(Error::failed)?;
        let options = AttachOptions {
            machine,
            allocation: None,
        };
        let volume = Volume::attach(&pools[0].path, AttachMode::CreateOrJoin, &options)
            .map_err(Error::failed)?;
        let mount_directory = mount_directory()?;
        let mount = egeria_mount::spawn(
            Arc::clone(&volume),
            mount_directory.path(),
            &MountOptions::default(),
        )
        .map_err(Error::failed)?;
        Ok(ScratchVolume {
            volume,
            mount: Some(mount),
            mount_directory,
            pool_paths: pools.into_iter().map(|pool| pool.path).collect(),
            _pool_directory: pool_directory,
        })
    }

    /// The volume as the mount has it.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The same, for others to keep.
    pub fn shared(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Where it is mounted.
    pub fn mount_directory(&self) -> &Path {
        self.mount_directory.path()
    }

    /// The pools' files.
    pub fn pool_paths(&self) -> &[PathBuf] {
        &self.pool_paths
    }
}

impl Drop for ScratchVolume {
    fn drop(&mut self) {
        let Some(mount) = self.mount.take() else {
            return;
        };
        if mount.unmount().is_err() {
            // Somebody still sits or hangs in there: cut them off, or the directory stays for good.
            let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
            let _ = unmount(self.mount_directory.path(), flags);
        }
    }
}
