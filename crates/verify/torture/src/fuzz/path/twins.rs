//! The same tree twice: in a volume, and in a directory of the kernel's own tmpfs.

use super::draw::{Kind, New};
use egeria_engine::format::MIN_POOL_BYTES;
use egeria_engine::*;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// Where both are.
const MEMORY: &str = "/dev/shm";

/// A volume and a directory.
pub(super) struct Twins {
    pub(super) volume: Arc<Volume>,
    base: PathBuf,
    pub(super) root: OwnedFd,
    /// Inode in the directory to inode of the volume.
    same: HashMap<u64, InodeNumber>,
    /// Removed when dropped.
    _directory: TempDir,
}

fn failed(error: impl ToString) -> String {
    error.to_string()
}

/// An open directory in both.
pub(super) struct Start {
    pub(super) ino: InodeNumber,
    pub(super) directory: OwnedFd,
}

impl Twins {
    pub(super) fn new() -> Result<Twins, String> {
        let directory = tempfile::Builder::new()
            .prefix("egeria-fuzz-path-")
            .tempdir_in(MEMORY)
            .map_err(failed)?;
        let pool = directory.path().join("pool0");
        let request = PoolRequest {
            node: 0,
            path: pool.clone(),
            bytes: Some(MIN_POOL_BYTES),
        };
        create_volume(&[request], &CreateOptions::default()).map_err(failed)?;
        let volume = Volume::attach(&pool, AttachMode::CreateOrJoin, &AttachOptions::default());
        let base = directory.path().join("base");
        std::fs::create_dir(&base).map_err(failed)?;
        for path in [directory.path(), &base] {
            rustix::fs::chmod(path, Mode::from_raw_mode(0o755)).map_err(failed)?;
        }
        let root = open_directory(CWD, base.as_os_str().as_bytes())?;
        let mut twins = Twins {
            volume: volume.map_err(failed)?,
            base,
            root,
            same: HashMap::new(),
            _directory: directory,
        };
        twins.forget()?;
        Ok(twins)
    }

    /// The directory's path.
    pub(super) fn base(&self) -> &[u8] {
        self.base.as_os_str().as_bytes()
    }

    fn forget(&mut self) -> Result<(), String> {
        let root = rustix::fs::fstat(&self.root).map_err(failed)?;
        self.same = HashMap::from([(root.st_ino, InodeNumber::ROOT)]);
        Ok(())
    }

    /// The volume's inode for one of the directory; `None` when that is elsewhere.
    pub(super) fn twin(&self, ino: u64) -> Option<InodeNumber> {
        self.same.get(&ino).copied()
    }

    /// Make the same in both, as root; nothing where no way leads there.
    pub(super) fn make(&mut self, new: &New) -> Result<(), String> {
        let Some((name, above)) = new.names.split_last() else {
            return Ok(());
        };
        let mut parent = InodeNumber::ROOT;
        for step in above {
            match self.volume.lookup(parent, step) {
                Ok(found) if found.kind() == FileKind::Directory => parent = found.ino,
                _ => return Ok(()),
            }
        }
        let path = &new.names.join(&b'/')[..];
        let inode = |kind| NewInode {
            mode: kind | new.mode,
            uid: new.uid,
            gid: new.gid,
            rdev: 0,
        };
        let private = Mode::from_raw_mode(0o700);
        let (twin, made) = match &new.kind {
            Kind::Directory => (
                rustix::fs::mkdirat(&self.root, path, private),
                self.volume.create(parent, name, &inode(libc::S_IFDIR)),
            ),
            Kind::File => (
                rustix::fs::mknodat(
                    &self.root,
                    path,
                    rustix::fs::FileType::RegularFile,
                    private,
                    0,
                ),
                self.volume.create(parent, name, &inode(libc::S_IFREG)),
            ),
            Kind::Link(target) => (
                rustix::fs::symlinkat(&target[..], &self.root, path),
                self.volume.symlink(parent, name, target, new.uid, new.gid),
            ),
        };
        let (twin, made) = (twin.map_err(|errno| errno.raw_os_error()), made);
        if twin != made.map(drop).map_err(|errno| errno.0) {
            return Err(format!(
                "{new:?} is made: {made:?}, by the kernel: {twin:?}"
            ));
        }
        let Ok(made) = made else { return Ok(()) };
        let owner = (
            Some(rustix::fs::Uid::from_raw(new.uid)),
            Some(rustix::fs::Gid::from_raw(new.gid)),
        );
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(&self.root, path, owner.0, owner.1, flags).map_err(failed)?;
        if !matches!(new.kind, Kind::Link(_)) {
            let mode = Mode::from_raw_mode(new.mode);
            rustix::fs::chmodat(&self.root, path, mode, AtFlags::empty()).map_err(failed)?;
        }
        let stat = rustix::fs::statat(&self.root, path, flags).map_err(failed)?;
        self.same.insert(stat.st_ino, made.ino);
        Ok(())
    }

    /// The user made or removed something in both, at this path of the kernel's.
    pub(super) fn note(
        &mut self,
        start: &Start,
        path: &[u8],
        made: InodeNumber,
    ) -> Result<(), String> {
        let stat = rustix::fs::statat(&start.directory, path, AtFlags::empty());
        self.same.insert(stat.map_err(failed)?.st_ino, made);
        Ok(())
    }

    /// A directory that is open in both, from the root on.
    pub(super) fn open(&self, ino: InodeNumber, path: &[u8]) -> Result<Start, String> {
        self.volume.open(ino, None).map_err(failed)?;
        Ok(Start {
            ino,
            directory: open_directory(self.root.as_fd(), path)?,
        })
    }

    /// Remove an open directory that is empty.
    pub(super) fn remove(&self, name: &[u8]) -> Result<(), String> {
        self.volume
            .remove_directory(InodeNumber::ROOT, name)
            .map_err(failed)?;
        rustix::fs::unlinkat(&self.root, name, AtFlags::REMOVEDIR).map_err(failed)
    }

    /// Both are empty again.
    pub(super) fn empty(&mut self) -> Result<(), String> {
        empty(&self.volume, InodeNumber::ROOT).map_err(failed)?;
        let entries = std::fs::read_dir(&self.base).map_err(failed)?;
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_dir() {
                std::fs::remove_dir_all(entry.path())
            } else {
                std::fs::remove_file(entry.path())
            }
            .map_err(failed)?;
        }
        self.forget()
    }
}

fn open_directory(from: impl AsFd, path: &[u8]) -> Result<OwnedFd, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(from, path, flags, Mode::empty()).map_err(failed)
}

fn empty(volume: &Volume, directory: InodeNumber) -> Outcome<()> {
    let mut all = Vec::new();
    volume.read_directory(directory, 0, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            all.push((entry.ino, entry.kind, entry.name.to_vec()));
        }
        true
    })?;
    for (ino, kind, name) in all {
        match kind {
            FileKind::Directory => {
                empty(volume, ino)?;
                volume.remove_directory(directory, &name)?;
            }
            _ => volume.unlink(directory, &name)?,
        }
    }
    Ok(())
}
