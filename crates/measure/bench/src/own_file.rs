//! A file on a scratch volume of this process, for benches of the engine without programs.

use std::path::Path;

use egeria_engine::{
    AttachMode, AttachOptions, CreateOptions, FileReference, InodeNumber, NewInode, Volume,
};
use egeria_harness::{Error, Result};
use egeria_scratch::ScratchPools;

/// Makes a volume of these nodes with an open file, and removes it after use.
///
/// # Errors
/// When there is no room, or what `use_it` says.
pub(crate) fn with_file<T>(
    memory: &Path,
    (nodes, pool_bytes): (&[u16], u64),
    options: &AttachOptions,
    use_it: impl FnOnce(&Volume, FileReference) -> Result<T>,
) -> Result<T> {
    let pools = ScratchPools::make(memory, nodes, pool_bytes, &CreateOptions::default())?;
    let volume = Volume::attach(pools.first(), AttachMode::CreateOrJoin, options);
    let volume = volume.map_err(Error::failed)?;
    let new = NewInode {
        mode: libc::S_IFREG | 0o600,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
    };
    let opened = volume
        .create_open(InodeNumber::ROOT, b"file", &new)
        .and_then(|made| Ok((made.ino, volume.open(made.ino, None)?)));
    let (ino, file) =
        opened.map_err(|error| Error::failed(format!("cannot make a file: {error}")))?;
    let used = use_it(&volume, file);
    volume.close(ino);
    volume.close(ino);
    volume.detach();
    used
}
