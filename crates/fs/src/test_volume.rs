//! A volume for tests inside the crate.

use std::path::PathBuf;
use std::sync::Arc;

use crate::*;

/// A new volume of one pool in this directory, and the pool's path.
pub(crate) fn new_volume(directory: &tempfile::TempDir) -> (Arc<Volume>, PathBuf) {
    let path = directory.path().join("pool");
    let pool = PoolRequest {
        node: 0,
        path: path.clone(),
        bytes: Some(16 << 20),
    };
    create_volume(&[pool], &CreateOptions::default()).expect("mkfs");
    let options = AttachOptions::default();
    let volume = Volume::attach(&path, AttachMode::CreateOrJoin, &options).expect("attach");
    (volume, path)
}
