//! How to mount.

/// How to mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Let other users use the mount (`allow_other`).
    pub allow_other: bool,
    /// Refuse every change with `EROFS`. A volume attached read-only is always mounted so.
    pub read_only: bool,
    /// Threads that serve requests (0: two per CPU, at least 4).
    pub threads: usize,
    /// Take the mount point away when this process dies, however it dies. Needs `fusermount3`.
    pub auto_unmount: bool,
    /// Honour set-user-id programs and device files of the volume. Only root may set it. It is safe only when no other
    /// user can open the pools, since a user that can could create such files.
    pub trust_privileged_files: bool,
    /// When the kernel may remember names and attributes.
    pub leases: LeaseTiming,
    /// Bytes of files that the kernel may keep in its page cache for programs that only read them. `None`: a quarter
    /// of the memory; nothing on an emulated machine, because its memory would then not be read.
    pub page_cache_bytes: Option<u64>,
}

/// When the kernel may remember the names and attributes of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaseTiming {
    /// Some time after they changed, and after programs past the kernel wanted to change them.
    #[default]
    Rested,
    /// At once, however often they change: for tests.
    AtOnce,
}
