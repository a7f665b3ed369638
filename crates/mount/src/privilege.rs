//! What callers may by their capabilities, where the kernel does not say: keep set-user-id and
//! set-group-id bits, and know of `trusted.` attributes.
//!
//! The kernel says with each write whether it must clear them
//! (`FUSE_WRITE_KILL_SUIDGID`). It says so with truncations too, but fuser does not pass
//! that on; so for those, and only when there is a bit to clear, the caller's capabilities are
//! looked up.

use crate::leases::Asker;
use egeria_fs::Attributes;
use fuser::Request;
use procfs::FromRead;
use procfs::process::Status;

/// Who sent a request.
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

/// `CAP_FSETID`: whoever has it may change files without clearing the bits.
const CAP_FSETID: u32 = 4;

/// `CAP_SYS_ADMIN`: who has it may know of `trusted.` attributes.
const CAP_SYS_ADMIN: u32 = 21;

/// Is there anything to clear?
pub(crate) fn has_setid(attributes: &Attributes) -> bool {
    attributes.mode & (libc::S_ISUID | libc::S_ISGID) != 0
        && attributes.mode & libc::S_IFMT != libc::S_IFDIR
}

/// May the caller change a file without clearing the bits?
pub(crate) fn keeps_setid(caller: Caller) -> bool {
    has_capability(caller, CAP_FSETID)
}

/// May the caller know of `trusted.` attributes?
pub(crate) fn administers(caller: Caller) -> bool {
    has_capability(caller, CAP_SYS_ADMIN)
}

/// A caller who cannot be looked up (another pid namespace, or gone) has it if root.
fn has_capability(caller: Caller, capability: u32) -> bool {
    let status = std::fs::read(format!("/proc/{}/status", caller.pid));
    match status.ok().as_deref().and_then(effective_capabilities) {
        Some(capabilities) => capabilities & (1 << capability) != 0,
        None => caller.uid == 0,
    }
}

/// Of a status file. The name in it may hold any bytes, where the parser takes text only.
fn effective_capabilities(status: &[u8]) -> Option<u64> {
    let status = Status::from_read(String::from_utf8_lossy(status).as_bytes());
    status.ok().map(|status| status.capeff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_whatever_the_program_is_called() {
        let own = std::fs::read("/proc/self/status").unwrap();
        let of = |name: &[u8]| {
            let (_, rest) = own.split_at(own.iter().position(|byte| *byte == b'\n').unwrap());
            effective_capabilities(&[b"Name:\t", name, rest].concat())
        };
        let capabilities = of(b"cat");
        assert!(capabilities.is_some());
        for name in [&b"\xff"[..], b"CapEff:\t0", b"a b) (c", b""] {
            assert_eq!(of(name), capabilities, "{name:?}");
        }
        assert_eq!(effective_capabilities(b"Name:\tcat\n"), None);
    }
}
