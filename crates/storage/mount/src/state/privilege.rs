//! Rights of callers by their capabilities, if the kernel does not report them: keeping set-user-id and set-group-id
//! bits, and seeing `trusted.` attributes.
//!
//! With each write the kernel says whether the mount must clear these bits (`FUSE_WRITE_KILL_SUIDGID`). It says so
//! with truncations too, but fuser does not pass that on. So for truncations, and only if there is a bit to clear, the
//! caller's capabilities are looked up.

use crate::leases::Asker;
use egeria_engine::rights::cleared_setid;
use egeria_engine::{Attributes, FileKind};
use fuser::Request;
use procfs::FromRead;
use procfs::process::Status;

/// The process that sent a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub uid: u32,
    pub gid: u32,
    pid: u32,
}

impl Caller {
    pub(crate) fn of(request: &Request) -> Self {
        Caller {
            uid: request.uid(),
            gid: request.gid(),
            pid: request.pid(),
        }
    }

    pub(crate) fn asker(self) -> Asker {
        Asker(self.pid)
    }
}

/// May change files without clearing set-user-id and set-group-id bits.
const CAP_FSETID: u32 = 4;

/// May see `trusted.` attributes.
const CAP_SYS_ADMIN: u32 = 21;

impl Caller {
    /// May the caller change a file without clearing the bits?
    pub(crate) fn keeps_setid(self) -> bool {
        self.has_capability(CAP_FSETID)
    }

    /// May the caller see `trusted.` attributes?
    pub(crate) fn administers(self) -> bool {
        self.has_capability(CAP_SYS_ADMIN)
    }

    /// Set-user-id and set-group-id bits that go when the caller, which is not privileged, changes the content.
    pub(crate) fn clears_with_content(self, attributes: &Attributes) -> u32 {
        match attributes.kind() {
            FileKind::Directory => 0,
            _ => cleared_setid(attributes.mode, || self.is_member(attributes.gid)),
        }
    }

    /// Set-user-id and set-group-id bits to clear when the caller changes the owner.
    pub(crate) fn clears_with_owner(self, attributes: &Attributes) -> u32 {
        let keeps_group = || self.is_member(attributes.gid) || self.keeps_setid();
        match attributes.kind() {
            FileKind::Directory => 0,
            _ => cleared_setid(attributes.mode, keeps_group),
        }
    }

    fn status(self) -> Option<Status> {
        let status = std::fs::read(format!("/proc/{}/status", self.pid)).ok()?;
        status_of(&status)
    }

    /// A caller that cannot be looked up (another pid namespace, or gone) has it if root.
    fn has_capability(self, capability: u32) -> bool {
        let status = self.status();
        status.map_or(self.uid == 0, |status| {
            status.capeff & (1 << capability) != 0
        })
    }

    /// A caller that cannot be looked up counts as a member of one group only.
    fn is_member(self, group: u32) -> bool {
        let groups = || self.status().map_or(Vec::new(), |status| status.groups);
        self.gid == group || groups().contains(&group)
    }
}

/// Parses a status file. The name in it may hold any bytes, but the parser takes text only.
fn status_of(status: &[u8]) -> Option<Status> {
    Status::from_read(String::from_utf8_lossy(status).as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_whatever_the_program_is_called() {
        let capabilities_of = |status: &[u8]| status_of(status).map(|status| status.capeff);
        let own = std::fs::read("/proc/self/status").unwrap();
        let of = |name: &[u8]| {
            let (_, rest) = own.split_at(own.iter().position(|byte| *byte == b'\n').unwrap());
            capabilities_of(&[b"Name:\t", name, rest].concat())
        };
        let capabilities = of(b"cat");
        assert!(capabilities.is_some());
        for name in [&b"\xff"[..], b"CapEff:\t0", b"a b) (c", b""] {
            assert_eq!(of(name), capabilities, "{name:?}");
        }
        assert_eq!(capabilities_of(b"Name:\tcat\n"), None);
    }
}
