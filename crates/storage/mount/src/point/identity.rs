//! The identity of a mount.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The part that is equal in every reply of a mount.
pub(crate) struct Identity {
    pub(crate) volume: [u8; 16],
    pub(crate) pool_path: [u8; 1024],
    pub(crate) pool_path_bytes: u32,
    pub(crate) read_only: bool,
}

impl Identity {
    /// A path that does not fit is left out: programs then stay with the kernel.
    pub(crate) fn new(volume: &egeria_engine::Volume, read_only: bool) -> Self {
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
