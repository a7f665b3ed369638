//! The control call: a program with a descriptor learns which inode of which volume it is.

use crate::adapter::Adapter;
use egeria_fs::Outcome;
use egeria_fs::control::{CONTROL_MAGIC, ControlReply, NO_DESCRIPTION_SLOT};

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
            tracks_lookups: u32::from(self.known.tracks_lookups()),
            reserved: 0,
            mount_pid: std::process::id(),
            pool_path_bytes: self.identity.pool_path_bytes,
            pool_path: self.identity.pool_path,
        })
    }
}
