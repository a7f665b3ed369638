//! Whose rights count for paths: read once, as every way to change them leaves the volumes first (see `withdraw`).

use crate::system::raw;
use egeria_engine::rights::Credentials;
use once_cell::race::OnceBox;
use std::sync::atomic::{AtomicU32, Ordering};

const CAPABILITY_VERSION: u32 = 0x2008_0522;
const UMASK_UNKNOWN: u32 = u32::MAX;
/// Each thread may have its own.
const UMASK_OF_THREADS: u32 = u32::MAX - 1;

/// Never waited for: a fork child would wait for a thread that is not there.
static IDENTITY: OnceBox<Option<Identity>> = OnceBox::new();
static UMASK: AtomicU32 = AtomicU32::new(UMASK_UNKNOWN);

/// The process towards file systems.
#[derive(Debug)]
pub struct Identity {
    /// What counts for all calls but `access`.
    pub credentials: Credentials,
    /// What counts for `access`, which asks for the real user; `None`: the kernel answers.
    pub real: Option<Credentials>,
    /// `fs.protected_symlinks`
    pub protects_symlinks: bool,
    /// `fs.protected_hardlinks`
    pub protects_hardlinks: bool,
    /// Labels of a security module (SELinux, Smack) are the kernel's own; without one, `security.` attributes are
    /// kept as all others.
    pub has_labels: bool,
}

impl Identity {
    /// The process's; `None` when the kernel must decide: in a user namespace, under a system call filter, or where
    /// something cannot be found out. The caller is inside.
    pub fn own() -> Option<&'static Identity> {
        IDENTITY.get_or_init(|| Box::new(find_out())).as_ref()
    }
}

fn find_out() -> Option<Identity> {
    let status = std::fs::read("/proc/thread-self/status").ok()?;
    let field = |name: &str| {
        let line = status
            .split(|byte| *byte == b'\n')
            .find_map(|line| line.strip_prefix(name.as_bytes()))?;
        std::str::from_utf8(line).ok().map(str::trim)
    };
    if field("Seccomp:")? != "0" || !is_initial_user_namespace() {
        return None;
    }
    let umask = u32::from_str_radix(field("Umask:")?, 8).ok()?;
    let numbers = |name| -> Option<Vec<u32>> {
        let numbers = field(name)?.split_ascii_whitespace();
        numbers.map(|number| number.parse().ok()).collect()
    };
    let [real_uid, .., uid] = numbers("Uid:")?[..] else {
        return None;
    };
    let [real_gid, .., gid] = numbers("Gid:")?[..] else {
        return None;
    };
    let [effective, permitted] = capabilities()?;
    let credentials = Credentials {
        uid,
        gid,
        groups: numbers("Groups:")?,
        capabilities: effective,
    };
    let is_plain = real_uid == uid && real_gid == gid && (uid != 0 || effective == permitted);
    let real = Credentials {
        // `access` drops the capabilities of everybody but root.
        capabilities: if uid == 0 { effective } else { 0 },
        ..credentials.clone()
    };
    // A call to `umask` since the status was read counts more.
    let _ = UMASK.compare_exchange(UMASK_UNKNOWN, umask, Ordering::Relaxed, Ordering::Relaxed);
    Some(Identity {
        credentials,
        real: is_plain.then_some(real),
        protects_symlinks: is_set("/proc/sys/fs/protected_symlinks")?,
        protects_hardlinks: is_set("/proc/sys/fs/protected_hardlinks")?,
        has_labels: has_labels(),
    })
}

/// Numbers of users mean the same to the process and to the mount.
fn is_initial_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// Without a module the kernel refuses to read the label. AppArmor, which confines by paths, labels a process that it
/// does not confine `unconfined`.
fn has_labels() -> bool {
    let label = std::fs::read("/proc/thread-self/attr/current");
    label.is_ok_and(|label| !label.starts_with(b"unconfined"))
}

fn is_set(setting: &str) -> Option<bool> {
    let text = std::fs::read_to_string(setting).ok()?;
    Some(text.trim() != "0")
}

/// Effective and permitted.
fn capabilities() -> Option<[u64; 2]> {
    let (mut header, mut sets) = ([CAPABILITY_VERSION, 0], [0; 6]);
    if raw::capget(&raw mut header, &raw mut sets) < 0 {
        return None;
    }
    let whole = |low: usize| u64::from(sets[low]) | u64::from(sets[low + 3]) << 32;
    Some([whole(0), whole(1)])
}

/// The program set its umask.
pub fn note_umask(mask: u32) {
    let noted = |before| (before != UMASK_OF_THREADS).then_some(mask & 0o777);
    let _ = UMASK.fetch_update(Ordering::Relaxed, Ordering::Relaxed, noted);
}

/// A thread is about to have a umask of its own: only the kernel knows them all.
pub fn note_umasks_of_threads() {
    UMASK.store(UMASK_OF_THREADS, Ordering::Relaxed);
}

/// The permissions of something new; `None` when the kernel must make it. Only after [`Identity::own`].
pub fn without_umask(permissions: u32) -> Option<u32> {
    let mask = UMASK.load(Ordering::Relaxed);
    (mask != UMASK_OF_THREADS).then_some(permissions & !mask)
}
