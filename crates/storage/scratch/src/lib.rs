//! A volume that lives as long as a measurement: pools in memory, mounted by this process, gone
//! without trace whatever happens.

mod directory;
mod mount_point;
mod pools;

pub use directory::memory_directory;
pub use egeria_files::{Error, Result};
pub use mount_point::{MountPoint, detach};
pub use pools::{ScratchPools, remove_left_behind};

use std::path::Path;
use std::sync::Arc;

use egeria_engine::{AttachMode, AttachOptions, CreateOptions, PoolRequest, Volume};
use egeria_machine::Machine;
use egeria_mount::{MountHandle, MountOptions};
use procfs::{Current, Meminfo};

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
    mount: Option<MountHandle>,
    volume: Arc<Volume>,
    point: MountPoint,
    /// After the fields that use the pools: fields drop in order.
    pools: ScratchPools,
}

impl ScratchVolume {
    /// Makes pools of `pool_bytes`, one for each of `nodes`, in `memory`, and mounts their volume.
    pub fn make(
        memory: &Path,
        nodes: &[u16],
        pool_bytes: u64,
        machine: Option<Machine>,
    ) -> Result<ScratchVolume> {
        let options = AttachOptions {
            machine,
            ..AttachOptions::default()
        };
        ScratchVolume::make_with(memory, nodes, pool_bytes, &options)
    }

    /// The same, attached as the options say.
    pub fn make_with(
        memory: &Path,
        nodes: &[u16],
        pool_bytes: u64,
        options: &AttachOptions,
    ) -> Result<ScratchVolume> {
        let pools = ScratchPools::make(memory, nodes, pool_bytes, &CreateOptions::default())?;
        let volume = Volume::attach(pools.first(), AttachMode::CreateOrJoin, options)
            .map_err(Error::failed)?;
        let point = MountPoint::create(false)?;
        pools.note_mount(point.path());
        let options = MountOptions::default();
        let mount = egeria_mount::spawn(Arc::clone(&volume), point.path(), &options)
            .map_err(Error::failed)?;
        Ok(ScratchVolume {
            mount: Some(mount),
            volume,
            point,
            pools,
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
        self.point.path()
    }

    /// The pools, as they were made.
    pub fn pools(&self) -> &[PoolRequest] {
        self.pools.pools()
    }

    /// The pools' files.
    pub fn pool_paths(&self) -> impl Iterator<Item = &Path> {
        self.pools.pools().iter().map(|pool| pool.path.as_path())
    }
}

impl Drop for ScratchVolume {
    fn drop(&mut self) {
        let Some(mount) = self.mount.take() else {
            return;
        };
        if mount.unmount().is_err() {
            // Somebody still sits or hangs in there: cut them off, or the directory stays for good.
            detach(self.point.path());
        }
    }
}
