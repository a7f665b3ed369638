//! Rules for a write that depend on the caller.

use crate::session::direct::DirectCommit;
use crate::session::layout::SessionInode;
use crate::types::{Errno, Outcome};

/// The kind of writer, as far as it matters.
#[derive(Clone, Copy, Default)]
pub(crate) struct WriteRules {
    /// Fail with `EAGAIN` when the kernel holds pages of the inode.
    pub(crate) direct: bool,
    /// New data for a mapped block may take from the reserve. For writes within one block.
    pub(crate) replaces: bool,
}

impl WriteRules {
    /// Rules for writers that bypass the kernel.
    pub(crate) const DIRECT: WriteRules = WriteRules {
        direct: true,
        replaces: false,
    };

    /// Direct writers check for the last time whether the kernel holds pages.
    #[inline(always)]
    pub(crate) fn begin_commit(self, inode: &SessionInode) -> Outcome<Option<DirectCommit<'_>>> {
        if self.direct {
            match DirectCommit::begin(inode) {
                None => Err(Errno(libc::EAGAIN)),
                commit => Ok(commit),
            }
        } else {
            Ok(None)
        }
    }
}
