//! Control calls: `ioctl` on a descriptor of the mount, by which a program learns how to bypass the kernel.

use crate::state::adapter::Adapter;
use crate::state::privilege::Caller;
use egeria_engine::control::{
    CONTROL_MAGIC, CONTROL_REQUEST, ControlReply, MARK_REQUEST, NO_DESCRIPTION_SLOT, NumberTicket,
    TICKET_REQUEST,
};
use egeria_engine::{Errno, Outcome};

/// The arguments of an `ioctl`.
pub(crate) struct ControlCall {
    pub caller: Caller,
    pub command: u32,
    /// Given by the caller: not trusted.
    pub data: Vec<u8>,
    /// Room for the answer.
    pub room_bytes: usize,
}

impl Adapter {
    /// The answer to a control call; `ENOTTY` for a command that is unknown.
    pub(crate) fn control(&self, handle: u64, call: &ControlCall) -> Outcome<Vec<u8>> {
        match call.command {
            MARK_REQUEST => self.mark(handle).map(|()| Vec::new()),
            CONTROL_REQUEST if call.room_bytes >= size_of::<ControlReply>() => {
                Ok(self.identify(handle)?.as_bytes().to_vec())
            }
            TICKET_REQUEST if call.room_bytes >= size_of::<NumberTicket>() => {
                let ticket = NumberTicket::of_request(&call.data).ok_or(Errno(libc::EINVAL))?;
                Ok(self.issue_ticket(call.caller, handle, ticket)?.to_vec())
            }
            _ => Err(Errno(libc::ENOTTY)),
        }
    }

    /// The caller is about to map the file.
    fn mark(&self, handle: u64) -> Outcome<()> {
        let open = self.files.get(handle)?;
        self.coherence.mark(open.ino, &open.mark)
    }

    /// Which inode of which volume the descriptor is.
    fn identify(&self, handle: u64) -> Outcome<ControlReply> {
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
