//! Extended attributes.

use crate::replies::convert;
use crate::state::adapter::Adapter;
use crate::state::privilege::Caller;
use egeria_engine::{Errno, InodeNumber, Outcome, XattrMode};
use fuser::ReplyXattr;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::LazyLock;

/// Namespaces that the volume keeps. Not `system.`: it holds access control lists, and the kernel would not enforce
/// them here.
const NAMESPACES: [&[u8]; 3] = [b"user.", TRUSTED, b"security."];
/// Attributes that only callers with `CAP_SYS_ADMIN` may see.
const TRUSTED: &[u8] = b"trusted.";

/// The label of SELinux. `ls -l`, `cp -a` and others ask every file for it, unless the answer is that there are none.
const SELINUX_LABEL: &[u8] = b"security.selinux";
static HAS_SELINUX: LazyLock<bool> =
    LazyLock::new(|| Path::new("/sys/fs/selinux/enforce").exists());

/// The attribute's name, if its namespace is one that the volume keeps.
fn attribute(name: &OsStr) -> Outcome<&[u8]> {
    let name = name.as_bytes();
    let kept = |space: &&[u8]| name.starts_with(space) && name.len() > space.len();
    if NAMESPACES.iter().any(kept) {
        Ok(name)
    } else {
        Err(Errno(libc::EOPNOTSUPP))
    }
}

impl Adapter {
    pub(crate) fn xattr(&self, ino: InodeNumber, name: &OsStr) -> Outcome<Vec<u8>> {
        let held = self.known.hold(&self.volume, ino)?;
        let name = attribute(name)?;
        let value = self.volume.get_xattr(held.ino, name);
        match value {
            Err(Errno(libc::ENODATA)) if name == SELINUX_LABEL && !*HAS_SELINUX => {
                Err(Errno(libc::EOPNOTSUPP))
            }
            value => value,
        }
    }

    pub(crate) fn set_xattr(
        &self,
        ino: InodeNumber,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Outcome<()> {
        let mode = match flags {
            0 => XattrMode::Any,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => return Err(Errno(libc::EINVAL)),
        };
        let held = self.known.hold(&self.volume, ino)?;
        let outcome = self
            .volume
            .set_xattr(held.ino, attribute(name)?, value, mode);
        self.changed(ino);
        outcome
    }

    /// The names that the caller may see, each ended by a NUL. (The kernel checks permission to read and change
    /// attributes, but not to list them.)
    pub(crate) fn xattr_names(&self, caller: Caller, ino: InodeNumber) -> Outcome<Vec<u8>> {
        let held = self.known.hold(&self.volume, ino)?;
        let mut names = self.volume.list_xattr(held.ino)?;
        let is_trusted = |name: &Vec<u8>| name.starts_with(TRUSTED);
        if names.iter().any(is_trusted) && !caller.administers() {
            names.retain(|name| !is_trusted(name));
        }
        Ok(names
            .into_iter()
            .flat_map(|name| name.into_iter().chain([0]))
            .collect())
    }

    pub(crate) fn remove_xattr(&self, ino: InodeNumber, name: &OsStr) -> Outcome<()> {
        let held = self.known.hold(&self.volume, ino)?;
        let outcome = self.volume.remove_xattr(held.ino, attribute(name)?);
        self.changed(ino);
        outcome
    }
}

/// Size 0 asks how much there is; a size too small is `ERANGE`.
pub(crate) fn answer(reply: ReplyXattr, outcome: Outcome<Vec<u8>>, size_bytes: u32) {
    match outcome {
        Err(error) => reply.error(convert::errno(error)),
        Ok(value) if size_bytes == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size_bytes as usize => reply.error(fuser::Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}
