//! A volume of its own for each test, really mounted.
#![allow(dead_code, unused_imports)] // Every test file uses a part.

use egeria_engine::{
    AttachMode, AttachOptions, CreateOptions, FileReference, InodeNumber, PoolRequest, Volume,
    create_volume,
};
use egeria_harness::memory::Mapping;
pub use egeria_harness::testing::{anybody_can_mount, can_mount};
use egeria_mount::{LeaseTiming, MountHandle, MountOptions, spawn};
use rustix::fs::{self, FallocateFlags, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::thread;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// An unprivileged user and its group.
pub const NOBODY: u32 = 65534;

/// Two pools under /dev/shm, on two nodes, and a mount point others can reach.
pub struct Place {
    pools: TempDir,
    point: TempDir,
}

impl Place {
    /// Pools of this size each, with a volume whose root everybody may write.
    pub fn with_pools_of(bytes: u64) -> Place {
        let pools = tempfile::Builder::new()
            .prefix("egeria-mount-")
            .tempdir_in("/dev/shm")
            .unwrap();
        let point = tempfile::Builder::new()
            .prefix("egeria-mount-")
            .tempdir_in("/tmp")
            .unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(point.path(), open).unwrap();
        let requests: Vec<PoolRequest> = (0..2)
            .map(|node| PoolRequest {
                node,
                path: pools.path().join(format!("pool{node}")),
                bytes: Some(bytes),
            })
            .collect();
        let options = CreateOptions {
            force: false,
            root: Some((0, 0, 0o1777)),
        };
        create_volume(&requests, &options).unwrap();
        Place { pools, point }
    }

    pub fn pool(&self, index: usize) -> PathBuf {
        self.pools.path().join(format!("pool{index}"))
    }

    pub fn point(&self) -> &Path {
        self.point.path()
    }

    pub fn attach(&self, mode: AttachMode) -> Arc<Volume> {
        Volume::attach(&self.pool(0), mode, &AttachOptions::default()).unwrap()
    }
}

/// A mounted volume; unmounted and removed when dropped.
pub struct Mounted {
    pub volume: Arc<Volume>,
    handle: Option<MountHandle>,
    place: Option<Place>,
}

impl Mounted {
    /// Mounted for everybody; `None` without FUSE.
    pub fn new() -> Option<Mounted> {
        Mounted::with(&MountOptions {
            allow_other: true,
            leases: LeaseTiming::AtOnce,
            ..MountOptions::default()
        })
    }

    pub fn with(options: &MountOptions) -> Option<Mounted> {
        if !can_mount() {
            return None;
        }
        let place = Place::with_pools_of(64 << 20);
        Some(Mounted::at(place, AttachMode::CreateOrJoin, options))
    }

    pub fn at(place: Place, mode: AttachMode, options: &MountOptions) -> Mounted {
        let volume = place.attach(mode);
        let handle = Some(spawn(volume.clone(), place.point(), options).unwrap());
        Mounted {
            volume,
            handle,
            place: Some(place),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place().point().join(name)
    }

    pub fn place(&self) -> &Place {
        self.place.as_ref().unwrap()
    }

    pub fn handle(&self) -> &MountHandle {
        self.handle.as_ref().unwrap()
    }

    /// Hold the file open in the engine of this process, past the mount.
    pub fn engine_file(&self, name: &str) -> (InodeNumber, FileReference) {
        Mounted::engine_file_of(&self.volume, &self.path(name))
    }

    pub fn engine_file_of(volume: &Volume, path: &Path) -> (InodeNumber, FileReference) {
        let ino = InodeNumber(std::fs::metadata(path).unwrap().ino());
        (ino, volume.open(ino, None).unwrap())
    }

    /// Unmount, and mount again in another way.
    pub fn again(mut self, mode: AttachMode, options: &MountOptions) -> Mounted {
        let place = self.place.take().unwrap();
        drop(self);
        Mounted::at(place, mode, options)
    }
}

/// Waits for the end of the mount, so that no session outlives its volume.
impl Drop for Mounted {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        let outcome = handle.unmount();
        if !std::thread::panicking() {
            outcome.unwrap();
        }
    }
}

/// Do something as another user: credentials belong to threads, and the kernel sends the thread's.
pub fn as_user<T: Send>(uid: u32, gid: u32, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Raw calls change this thread alone.
            let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
            thread::set_thread_groups(&[]).unwrap();
            thread::set_thread_res_gid(group, group, group).unwrap();
            thread::set_thread_res_uid(user, user, user).unwrap();
            body()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

pub fn c(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap()
}

/// The result of a system call, or its errno.
pub fn sys<T>(outcome: rustix::io::Result<T>) -> Result<T, i32> {
    outcome.map_err(rustix::io::Errno::raw_os_error)
}

/// `open(2)`.
pub fn open(path: impl AsRef<Path>, flags: i32, mode: u32) -> Result<File, i32> {
    let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC;
    let opened = fs::open(path.as_ref(), flags, Mode::from_bits_retain(mode));
    sys(opened).map(File::from)
}

/// `fallocate(2)`.
pub fn allocate(file: &File, mode: i32, offset: u64, length: u64) -> Result<(), i32> {
    let mode = FallocateFlags::from_bits_retain(mode as u32);
    sys(fs::fallocate(file, mode, offset, length))
}

/// `truncate(2)`, which neither std nor rustix has.
pub fn truncate(path: &Path, bytes: i64) -> Result<(), i32> {
    // SAFETY: a terminated path.
    match unsafe { libc::truncate(c(path).as_ptr(), bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

/// `lsetxattr(2)`.
pub fn set_xattr(path: &Path, name: &str, value: &[u8], flags: i32) -> Result<(), i32> {
    let flags = XattrFlags::from_bits_retain(flags as u32);
    sys(fs::lsetxattr(path, name, value, flags))
}

/// `lgetxattr(2)` with room for so many bytes; the size, and what was filled in.
pub fn get_xattr(path: &Path, name: &str, room: usize) -> Result<(usize, Vec<u8>), i32> {
    let mut value = vec![0u8; room];
    let got = match room {
        0 => sys(fs::lgetxattr_query(path, name))?,
        _ => sys(fs::lgetxattr(path, name, &mut value[..]))?,
    };
    value.truncate(got);
    Ok((got, value))
}

/// The errno of a failed operation.
pub fn errno<T: std::fmt::Debug>(outcome: io::Result<T>) -> i32 {
    outcome.unwrap_err().raw_os_error().unwrap()
}

/// Some bytes that are not the same everywhere.
pub fn pattern(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ seed)
        .collect()
}

/// Wait until something holds, for things that happen in the background.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("never happened: {what}");
}

/// A shared mapping of a file.
pub fn map(file: &File, bytes: usize, is_writable: bool) -> Mapping {
    Mapping::of_file(file, bytes, is_writable).unwrap()
}

/// A numbered sequence without a pattern.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
