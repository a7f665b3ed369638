//! A scratch volume for tests.
#![allow(dead_code)]

pub mod clock;

use egeria_engine::*;
use std::path::PathBuf;
use std::sync::Arc;

/// Pools in a directory of /dev/shm that goes with it.
pub struct Scratch {
    pub directory: tempfile::TempDir,
    pub pools: Vec<PathBuf>,
}

impl Scratch {
    /// Make a volume of `pools` pools of this size, on nodes 0, 1, ...
    pub fn new(pools: usize, bytes: u64) -> Scratch {
        let directory = tempfile::tempdir_in("/dev/shm").expect("scratch directory");
        let paths: Vec<PathBuf> = (0..pools)
            .map(|index| directory.path().join(format!("pool{index}")))
            .collect();
        let requests: Vec<PoolRequest> = paths
            .iter()
            .enumerate()
            .map(|(node, path)| PoolRequest {
                node: node as u16,
                path: path.clone(),
                bytes: Some(bytes),
            })
            .collect();
        create_volume(
            &requests,
            &CreateOptions {
                force: false,
                root: Some((0, 0, 0o755)),
            },
        )
        .expect("mkfs");
        Scratch {
            directory,
            pools: paths,
        }
    }

    pub fn attach(&self) -> Arc<Volume> {
        self.attach_with(&AttachOptions::default())
    }

    pub fn attach_with(&self, options: &AttachOptions) -> Arc<Volume> {
        let volume =
            Volume::attach(&self.pools[0], AttachMode::CreateOrJoin, options).expect("attach");
        volume.set_reporter(Box::new(|_, line| eprintln!("{line}")));
        volume
    }

    /// Check must find nothing.
    pub fn assert_clean(&self) {
        let report = check_volume(&self.pools[0], false, &mut |_, _| {}).expect("check");
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }
}

/// Where the sessions of this user are.
pub fn sessions() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    PathBuf::from(format!("/dev/shm/egeria-{user}"))
}

/// Segments of a volume's sessions.
pub fn segments(volume: uuid::Uuid) -> Vec<PathBuf> {
    let prefix = format!("{}-", volume.simple());
    let entries = std::fs::read_dir(sessions())
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

pub const FILE: NewInode = NewInode {
    mode: libc::S_IFREG | 0o644,
    uid: 0,
    gid: 0,
    rdev: 0,
};
pub const DIRECTORY: NewInode = NewInode {
    mode: libc::S_IFDIR | 0o755,
    uid: 0,
    gid: 0,
    rdev: 0,
};

/// What is made here from now on has checksums of data, or with `off` none.
pub fn set_checksums(volume: &Volume, directory: InodeNumber, value: &[u8]) -> Outcome<()> {
    volume.set_xattr(directory, CHECKSUM_ATTRIBUTE, value, XattrMode::Any)
}

/// See `set_checksums`.
pub const CHECKSUM_ATTRIBUTE: &[u8] = b"user.egeria.checksum";

pub fn names(volume: &Volume, directory: InodeNumber) -> Vec<String> {
    let mut names = Vec::new();
    volume
        .read_directory(directory, 0, &mut |entry| {
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            true
        })
        .expect("read directory");
    names
}
