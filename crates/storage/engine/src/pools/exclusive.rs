//! A volume that this process alone uses: it is locked, its pools are mapped for stores, and the session is memory of
//! this process. If the process dies, the pools are as after any crash.

use crate::attach::attach_volume::{assemble, fill_header, layout_of};
use crate::attach::private::{PrivateMemory, found_of};
use crate::format::*;
use crate::requests::*;
use crate::session::map::Session;
use crate::session::volume::{Origin, Volume};
use crate::space::placement::place_nodes;
use egeria_media::Pool;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Recover the volume on these pools, by index, into a session of this process. The caller holds its locks.
pub(super) fn recover_alone(
    superblock: &Superblock,
    paths: &[PathBuf],
    media: Vec<Arc<Pool>>,
) -> Result<Arc<Volume>, VolumeError> {
    let geometry = superblock.geometry();
    let layout = layout_of(&geometry);
    let memory = PrivateMemory::default().take(layout.bytes);
    let memory = memory.map_err(|error| {
        let message = format!("no memory for a session: {error}; free some");
        failure(libc::ENOMEM, message)
    })?;
    let session = Session::over(PathBuf::new(), layout, memory);
    let options = AttachOptions::default();
    fill_header(&session, superblock, &[0; 16], 0);
    place_nodes(&session, superblock, &options)?;
    let mut found = found_of(superblock.clone(), &media);
    found.paths = paths.to_vec();
    let volume = assemble(found, media, geometry, session, false, Origin::Private);
    volume.recover(&options, false)?;
    Ok(volume)
}

/// Index of the pool at a path that leads to one of these.
pub(super) fn index_of(paths: &[PathBuf], pool: &Path) -> Result<u8, VolumeError> {
    let canonical = std::fs::canonicalize(pool).unwrap_or(pool.to_owned());
    let index = paths.iter().position(|path| *path == canonical);
    let index = index.and_then(|index| u8::try_from(index).ok());
    index.ok_or_else(|| {
        failure(
            libc::ENOENT,
            format!("{} was moved just now; try again", pool.display()),
        )
    })
}

/// Refuse a volume of a format that cannot change its list of pools.
pub(super) fn check_version(superblock: &Superblock, pool: &Path) -> Result<(), VolumeError> {
    if superblock.version >= FIRST_VERSION_WITH_POOL_CHANGES {
        return Ok(());
    }
    let pool = pool.display();
    Err(failure(
        libc::EPROTO,
        format!(
            "the volume of {pool} has format version {}, which cannot change its pools; run `egeria upgrade {pool}` first",
            superblock.version
        ),
    ))
}
