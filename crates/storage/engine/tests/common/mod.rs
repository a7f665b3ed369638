//! A scratch volume for tests.
#![allow(dead_code)]

pub mod clock;

use egeria_engine::format::*;
use egeria_engine::*;
use egeria_media::recorder::{CrashImages, Recorder};
use std::os::unix::fs::FileExt;
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

    /// Make the volume one of an older version. Nothing of newer versions may be in it yet.
    pub fn age(&self, version: u32) {
        for pool in &self.pools {
            let file = std::fs::File::options().read(true).write(true).open(pool);
            let file = file.expect("a pool");
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            file.read_exact_at(&mut bytes, 0).expect("a superblock");
            let young = Superblock::decode(&bytes).expect("a superblock");
            assert_eq!(young.version, FORMAT_VERSION);
            let secret = if version < FIRST_VERSION_WITH_SECRET {
                [0; 16]
            } else {
                young.secret
            };
            let old = Superblock {
                version,
                secret,
                ..young
            };
            for copy in SUPERBLOCK_COPIES {
                let written = file.write_all_at(&old.encode(), copy * BLOCK as u64);
                written.expect("a superblock");
            }
        }
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

pub const FILE: NewInode = NewInode::of_root(libc::S_IFREG | 0o644);
pub const DIRECTORY: NewInode = NewInode::of_root(libc::S_IFDIR | 0o755);

/// A new open file with this number of blocks of data.
pub fn filled_file(volume: &Volume, blocks: u64) -> FileReference {
    let made = volume.create_open(InodeNumber::ROOT, b"file", &FILE);
    let file = volume.open(made.expect("create").ino, None).expect("open");
    for block in 0..blocks {
        let written = volume.write(file, block * 4096, &[7; 4096]);
        written.expect("fill");
    }
    file
}

/// Cuts a file to this size, or extends it.
pub fn truncate(volume: &Volume, ino: InodeNumber, size_bytes: u64) {
    let change = AttributeChange {
        size_bytes: Some(size_bytes),
        ..AttributeChange::default()
    };
    volume.set_attributes(ino, &change).expect("truncate");
}

/// How many marks a recording has; at each, no store is pending.
pub fn durable_marks(recorder: &Recorder) -> usize {
    let mut images = CrashImages::new(recorder.take()).expect("a recording");
    let points = images.recording().points().collect::<Vec<_>>();
    let mut marks = 0;
    for point in points {
        if images.recording().marks_before(point).count() > marks {
            marks += 1;
            let pending = images.state_at(point).pending();
            assert!(pending.is_empty(), "mark {marks} left {pending:?}");
        }
    }
    marks
}

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
