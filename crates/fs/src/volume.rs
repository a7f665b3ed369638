//! An attached volume: the operations every front end calls.

use crate::types::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a volume cannot be made, attached or checked: one line with cause and mend.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct VolumeError {
    /// Cause and mend.
    pub message: String,
    /// The errno that fits best.
    pub errno: i32,
}

/// A pool to make: `NODE:PATH:SIZE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRequest {
    /// Node the pool belongs to.
    pub node: u16,
    /// File or device.
    pub path: PathBuf,
    /// Size in bytes (None: as large as the file or device is).
    pub bytes: Option<u64>,
}

/// How to make a volume.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Overwrite pools that hold a volume already.
    pub force: bool,
    /// Owner, group and mode of the root directory (None: caller's, 0755).
    pub root: Option<(u32, u32, u32)>,
}

/// How to attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// Join the session, or recover the volume and create one (mount, command line, Rust API).
    CreateOrJoin,
    /// Only join an existing session (preload).
    Join,
    /// Join or create, refuse every change with `EROFS`.
    ReadOnly,
}

/// What of the session only its creator decides; ignored by those who join.
#[derive(Clone, Debug, Default)]
pub struct AttachOptions {
    /// Emulated or declared machine; None: this one.
    pub machine: Option<egeria_machine::Machine>,
    /// Where new data goes.
    pub allocation: Option<AllocationPolicy>,
}

/// Counters of one thread or summed over many, all since the session began. Indexed by pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes read from each pool.
    pub read_bytes: [u64; 16],
    /// Bytes written to each pool.
    pub written_bytes: [u64; 16],
    /// Bytes read or written on the pool of the node where the thread ran.
    pub local_bytes: u64,
    /// Bytes on other nodes.
    pub remote_bytes: u64,
    /// Calls the preload library served itself.
    pub direct_calls: u64,
    /// Calls on files of a mount that it passed on to the kernel.
    pub passed_calls: u64,
    /// Requests the mount served.
    pub mount_requests: u64,
}

/// A regular file by number, for the data path: cheap to copy, valid while the volume is attached
/// and the inode is held open (see [`Volume::open`]).
#[derive(Clone, Copy, Debug)]
pub struct FileReference {
    pub(crate) ino: InodeNumber,
}

/// Index of an open-description slot of the session (design: Front ends, Offsets).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptionSlot(pub u32);

/// An attached volume. `Send + Sync`; every method may be called from any thread.
pub struct Volume {}

/// Make a volume of these pools.
pub fn create_volume(pools: &[PoolRequest], options: &CreateOptions) -> Result<uuid::Uuid, VolumeError> {
    todo!()
}

impl Volume {
    /// Attach by any pool's path. A second attach in one process gives the same `Volume`.
    pub fn attach(pool: &Path, mode: AttachMode, options: &AttachOptions) -> Result<Arc<Volume>, VolumeError> {
        todo!()
    }
    /// UUID of the volume.
    pub fn uuid(&self) -> uuid::Uuid { todo!() }
    /// Paths of the pools, by pool index.
    pub fn pool_paths(&self) -> Vec<PathBuf> { todo!() }
    /// Node of each pool, by pool index.
    pub fn pool_nodes(&self) -> Vec<u16> { todo!() }
    /// Whether every change is refused.
    pub fn is_read_only(&self) -> bool { todo!() }
    /// Where new data goes; changed for the whole session.
    pub fn set_allocation(&self, policy: AllocationPolicy) { todo!() }
    /// Emulated timing on or off (off while data is prepared); false when no machine is emulated.
    pub fn set_timing(&self, on: bool) -> bool { todo!() }
    /// The media pools, for benchmarks' bare copies.
    pub fn pools(&self) -> &[Arc<egeria_media::Pool>] { todo!() }

    // --- namespace (callers check permission; the engine checks kinds, names, sticky is the caller's) ---

    /// Find a name. `.` and `..` work.
    pub fn lookup(&self, parent: InodeNumber, name: &[u8]) -> Outcome<Attributes> { todo!() }
    /// Attributes, fresh.
    pub fn attributes(&self, ino: InodeNumber) -> Outcome<Attributes> { todo!() }
    /// Change attributes in one commit. Changing owner, or the size by someone not privileged, is
    /// told by the caller through `clear_setid`.
    pub fn set_attributes(&self, ino: InodeNumber, change: &AttributeChange, clear_setid: bool) -> Outcome<Attributes> { todo!() }
    /// Make a file, directory, pipe, socket or device. `EEXIST` when the name is there. In a setgid
    /// directory the group, and for directories the bit, is the directory's.
    pub fn create(&self, parent: InodeNumber, name: &[u8], new: &NewInode) -> Outcome<Attributes> { todo!() }
    /// As `create`, but the inode is also opened (see `open`), in one step, so that it cannot vanish between.
    pub fn create_open(&self, parent: InodeNumber, name: &[u8], new: &NewInode) -> Outcome<Attributes> { todo!() }
    /// Make a regular file without a name, opened (`O_TMPFILE`).
    pub fn create_unnamed(&self, parent: InodeNumber, new: &NewInode) -> Outcome<Attributes> { todo!() }
    /// Make a symbolic link.
    pub fn symlink(&self, parent: InodeNumber, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Outcome<Attributes> { todo!() }
    /// Target of a symbolic link.
    pub fn read_link(&self, ino: InodeNumber) -> Outcome<Vec<u8>> { todo!() }
    /// Make another name.
    pub fn link(&self, ino: InodeNumber, parent: InodeNumber, name: &[u8]) -> Outcome<Attributes> { todo!() }
    /// Remove a name that is not a directory.
    pub fn unlink(&self, parent: InodeNumber, name: &[u8]) -> Outcome<()> { todo!() }
    /// Remove an empty directory.
    pub fn remove_directory(&self, parent: InodeNumber, name: &[u8]) -> Outcome<()> { todo!() }
    /// Rename.
    pub fn rename(&self, parent: InodeNumber, name: &[u8], new_parent: InodeNumber, new_name: &[u8], mode: RenameMode) -> Outcome<()> { todo!() }
    /// Entries after `cookie` (0: from the start; `.` and `..` first), until `emit` returns false
    /// (that entry is then not consumed).
    pub fn read_directory(&self, ino: InodeNumber, cookie: u64, emit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool) -> Outcome<()> { todo!() }
    /// Extended attribute (`user.*`, also `trusted.*` and `security.*` as opaque bytes). `ENODATA` when absent.
    pub fn get_xattr(&self, ino: InodeNumber, name: &[u8]) -> Outcome<Vec<u8>> { todo!() }
    /// Set an extended attribute.
    pub fn set_xattr(&self, ino: InodeNumber, name: &[u8], value: &[u8], mode: XattrMode) -> Outcome<()> { todo!() }
    /// Names of all extended attributes.
    pub fn list_xattr(&self, ino: InodeNumber) -> Outcome<Vec<Vec<u8>>> { todo!() }
    /// Remove an extended attribute.
    pub fn remove_xattr(&self, ino: InodeNumber, name: &[u8]) -> Outcome<()> { todo!() }
    /// Space of the volume, or of one pool.
    pub fn space(&self, pool: Option<u8>) -> SpaceReport { todo!() }

    // --- open files ---

    /// Hold an inode open in this process: it lives on when its last name goes. Counted: call `close`
    /// as often. `ESTALE` when `generation` is given and another one lives there now.
    pub fn open(&self, ino: InodeNumber, generation: Option<u32>) -> Outcome<FileReference> { todo!() }
    /// Give back one `open`.
    pub fn close(&self, ino: InodeNumber) { todo!() }
    /// Size now.
    pub fn size_bytes(&self, file: FileReference) -> Outcome<u64> { todo!() }
    /// Read into caller's memory (a bad address gives `EFAULT`); fewer bytes at end of file.
    /// # Safety
    /// Any address is allowed when `media::guard` is installed; else `buffer..+bytes` must be writable.
    pub unsafe fn read_raw(&self, file: FileReference, offset_bytes: u64, buffer: *mut u8, bytes: usize) -> Outcome<usize> { todo!() }
    /// Write from caller's memory; durable when it returns.
    /// # Safety
    /// As `read_raw`, readable.
    pub unsafe fn write_raw(&self, file: FileReference, offset_bytes: u64, buffer: *const u8, bytes: usize) -> Outcome<usize> { todo!() }
    /// Write at the end of file, atomically; returns the offset it landed at and the bytes written.
    /// # Safety
    /// As `write_raw`.
    pub unsafe fn append_raw(&self, file: FileReference, buffer: *const u8, bytes: usize) -> Outcome<(u64, usize)> { todo!() }
    /// Safe form of `read_raw`.
    pub fn read(&self, file: FileReference, offset_bytes: u64, buffer: &mut [u8]) -> Outcome<usize> { todo!() }
    /// Safe form of `write_raw`.
    pub fn write(&self, file: FileReference, offset_bytes: u64, buffer: &[u8]) -> Outcome<usize> { todo!() }
    /// Safe form of `append_raw`.
    pub fn append(&self, file: FileReference, buffer: &[u8]) -> Outcome<(u64, usize)> { todo!() }
    /// Reserve, punch or zero a range.
    pub fn allocate(&self, file: FileReference, offset_bytes: u64, length_bytes: u64, mode: AllocateMode) -> Outcome<()> { todo!() }
    /// Next data at or after the offset (`ENXIO` past the end).
    pub fn seek_data(&self, file: FileReference, offset_bytes: u64) -> Outcome<u64> { todo!() }
    /// Next hole at or after the offset (`ENXIO` past the end).
    pub fn seek_hole(&self, file: FileReference, offset_bytes: u64) -> Outcome<u64> { todo!() }
    /// Where the data of a file lies.
    pub fn extents(&self, ino: InodeNumber) -> Outcome<Vec<ExtentReport>> { todo!() }

    // --- coherence with the kernel's page cache (design: Front ends, Coherence) ---

    /// Mark the inode kernel-cached, under its lock; from when this returns, `*_direct` calls of every
    /// process fail with `EAGAIN` until `unmark_kernel_cached`. Counted in the session, not per process.
    pub fn mark_kernel_cached(&self, ino: InodeNumber) -> Outcome<()> { todo!() }
    /// Take the mark off (after the kernel's pages were dropped).
    pub fn unmark_kernel_cached(&self, ino: InodeNumber) { todo!() }
    /// One relaxed load: does the kernel hold pages of it?
    pub fn is_kernel_cached(&self, file: FileReference) -> bool { todo!() }
    /// As `read_raw`, for preload: `Errno(EAGAIN)` when the inode is kernel-cached (pass the call to the kernel).
    /// # Safety
    /// As `read_raw`.
    pub unsafe fn read_direct(&self, file: FileReference, offset_bytes: u64, buffer: *mut u8, bytes: usize) -> Outcome<usize> { todo!() }
    /// As `write_raw`, for preload: `EAGAIN` when kernel-cached (decided under the inode's lock), and setuid/setgid
    /// bits are cleared when the caller is not privileged.
    /// # Safety
    /// As `write_raw`.
    pub unsafe fn write_direct(&self, file: FileReference, offset_bytes: u64, buffer: *const u8, bytes: usize) -> Outcome<usize> { todo!() }
    /// As `append_raw`, for preload, like `write_direct`.
    /// # Safety
    /// As `append_raw`.
    pub unsafe fn append_direct(&self, file: FileReference, buffer: *const u8, bytes: usize) -> Outcome<(u64, usize)> { todo!() }

    // --- open descriptions (mount allocates one per FUSE open; preload finds it by the control call) ---

    /// Take a slot for a new open description; None when all are taken.
    pub fn description_allocate(&self) -> Option<DescriptionSlot> { todo!() }
    /// Give a slot back.
    pub fn description_free(&self, slot: DescriptionSlot) { todo!() }
    /// Run `body` under the slot's lock (survives a dead owner). The lock is held across the kernel's
    /// lseek calls, never across anything that takes engine locks of another slot.
    pub fn description_locked<T>(&self, slot: DescriptionSlot, body: impl FnOnce() -> T) -> T { todo!() }

    // --- counters ---

    /// Sum over all threads, living and dead, of the session.
    pub fn counters(&self) -> Counters { todo!() }
    /// Count a call served directly (preload), passed on (preload), or a request (mount) for this thread.
    pub fn count_direct(&self) { todo!() }
    /// See `count_direct`.
    pub fn count_passed(&self) { todo!() }
    /// See `count_direct`.
    pub fn count_mount_request(&self) { todo!() }

    // --- life of threads and processes ---

    /// This thread ends: give its slot back (also done by thread-local drop in ordinary programs).
    pub fn thread_exit(&self) { todo!() }
    /// Call in the child after fork (preload's atfork handler): forget the parent's slots; the child
    /// takes its own at next use. Async-signal-safe: only stores.
    pub fn after_fork_in_child(&self) { todo!() }
    /// Reap dead processes now (the mount calls it every second): their locks, slots, opens, space.
    pub fn reap(&self) { todo!() }
    /// Detach cleanly: the last one of the session saves and removes it. Drop does the same.
    pub fn detach(self: Arc<Self>) { todo!() }
}

/// One thing `check` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What and where, in one line.
    pub what: String,
    /// Path or inode it means, when known.
    pub affects: String,
    /// It was repaired (or, without `repair`, can be).
    pub repairable: bool,
}

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Everything wrong.
    pub findings: Vec<Finding>,
    /// Inodes looked at.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Blocks in use.
    pub used_blocks: u64,
    /// Repairs made.
    pub repaired: u64,
}

/// Verify a volume that nobody has attached, wholly; `progress(done, total)` is called now and then.
pub fn check_volume(pool: &Path, repair: bool, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckReport, VolumeError> {
    todo!()
}
