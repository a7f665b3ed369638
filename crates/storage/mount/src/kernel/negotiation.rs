//! Features that the mount and the kernel agree on when the connection begins.

use fuser::{InitFlags, KernelConfig};

/// Most bytes one request may carry: the maximum requested from the kernel at the start.
pub(crate) const REQUEST_BYTES: usize = 1 << 20;

/// Features requested from the kernel, if it has them.
///
/// Not `FUSE_ATOMIC_O_TRUNC`: with it the kernel truncates a file when it opens it, and only then notices that it is a
/// running program.
///
/// Not `FUSE_AUTO_INVAL_DATA`: with it the kernel asks for the size at the first `read` after each `write`, and then
/// drops all pages, because the file has another time. Pages are dropped by notifications instead.
const CAPABILITIES: [InitFlags; 7] = [
    // A symbolic link never has another target.
    InitFlags::FUSE_CACHE_SYMLINKS,
    // The control call on directories.
    InitFlags::FUSE_HAS_IOCTL_DIR,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    // The mount clears set-user-id bits itself (module `privilege`).
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // Shared mappings of files that are read and written directly.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    // Handles of files and NFS: the kernel looks up `.` and `..` of inodes that it has forgotten (module `handles`).
    InitFlags::FUSE_EXPORT_SUPPORT,
];

/// Request the capabilities and sizes that the mount is built for; an older kernel does without some.
pub(crate) fn request(config: &mut KernelConfig) {
    for capability in CAPABILITIES {
        // An older kernel does without.
        let _ = config.add_capabilities(capability);
    }
    let _ = config.set_max_write(REQUEST_BYTES as u32);
    let _ = config.set_max_background(64);
}
