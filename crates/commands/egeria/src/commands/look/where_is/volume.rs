//! Files of Egeria's volumes: their pools say what lies where.

use std::path::Path;
use std::sync::Arc;

use egeria_engine::{AttachMode, AttachOptions, FileKind, InodeNumber, Volume};
use egeria_machine::NodeId;
use egeria_pages::NodeBytes;

use crate::{control, session};
use egeria_cli::failure::{Failure, Outcome};

/// The volume that a path is on, and its inode; `None` elsewhere. Root becomes the owner of that volume.
pub(super) fn of(path: &Path) -> Outcome<Option<(Arc<Volume>, InodeNumber)>> {
    let Some(identity) = control::identify_mounted(path)? else {
        return Ok(None);
    };
    let options = AttachOptions::default();
    let volume = session::attach(&identity.pool, AttachMode::ReadOnly, &options)?;
    if volume.uuid() != identity.volume {
        return Err(Failure::new(format!(
            "{} now holds another volume than the one mounted; unmount and mount again",
            identity.pool.display()
        )));
    }
    Ok(Some((volume, identity.ino)))
}

/// What each node has of a file; nothing of what is no file or gone.
pub(super) fn bytes(volume: &Volume, inode: InodeNumber) -> NodeBytes {
    let mut bytes = NodeBytes::default();
    let attributes = volume.attributes(inode);
    if attributes.is_ok_and(|attributes| attributes.kind() == FileKind::Regular) {
        for extent in volume.extents(inode).into_iter().flatten() {
            bytes.add(NodeId(extent.node), extent.length_bytes);
        }
    }
    bytes
}
