//! The control call: a program with a descriptor learns which inode of which volume it is.

use crate::requests::Adapter;
use egeria_fs::Outcome;
use egeria_fs::control::{CONTROL_MAGIC, ControlReply, NO_DESCRIPTION_SLOT};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What is the same in every reply of a mount.
pub(crate) struct Identity {
    volume: [u8; 16],
    pool_path: [u8; 1024],
    pool_path_bytes: u32,
    read_only: bool,
}

impl Identity {
    /// A path that does not fit is left out: programs then stay with the kernel.
    pub(crate) fn new(volume: &egeria_fs::Volume, read_only: bool) -> Self {
        let first = volume.pool_paths().into_iter().next().unwrap_or_default();
        let absolute: PathBuf = std::path::absolute(first).unwrap_or_default();
        let bytes = absolute.as_os_str().as_bytes();
        let mut pool_path = [0; 1024];
        let fits = pool_path.get_mut(..bytes.len());
        let pool_path_bytes = fits.map_or(0, |place| {
            place.copy_from_slice(bytes);
            bytes.len() as u32
        });
        Identity {
            volume: *volume.uuid().as_bytes(),
            pool_path,
            pool_path_bytes,
            read_only,
        }
    }
}

impl Adapter {
    /// Somebody is about to map the file.
    pub(crate) fn mark(&self, handle: u64) -> Outcome<()> {
        let open = self.files.get(handle)?;
        self.coherence.mark(open.ino, &open.mark)
    }

    pub(crate) fn identify(&self, handle: u64) -> Outcome<ControlReply> {
        let open = self.files.get(handle)?;
        let attributes = self.volume.attributes(open.ino)?;
        Ok(ControlReply {
            magic: CONTROL_MAGIC,
            volume: self.identity.volume,
            ino: open.ino.0,
            generation: attributes.generation,
            description_slot: open.slot.map_or(NO_DESCRIPTION_SLOT, |slot| slot.0),
            kind: attributes.kind() as u32,
            read_only: u32::from(self.identity.read_only),
            mount_pid: std::process::id(),
            pool_path_bytes: self.identity.pool_path_bytes,
            pool_path: self.identity.pool_path,
        })
    }
}
