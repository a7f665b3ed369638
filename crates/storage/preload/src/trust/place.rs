//! Whose mounts are believed: those of root and of this process's own user, who could do to it what they
//! like in other ways. System calls and the stack alone: this may run in a signal handler.
//!
//! Who serves a mount is remembered by the mount's number that the kernel never gives out again. Numbers of
//! devices do not do: the one of root's mount is anybody's next when root's mount is gone.

use crate::system::raw;
use crate::system::zeros::zeros;
use egeria_engine::control::serving_user;
use libc::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

const FUSE_MAGIC: i64 = 0x6573_5546;
const MOUNTS: usize = 32;
/// No mount of ours: its files go through the kernel, whoever asks.
const NOT_OURS: u64 = 1;
/// The same, and no FUSE file system either.
const NOT_FUSE: u64 = 2;
const FIRST_USER: u64 = 3;

/// What is known of one mount, for good.
struct Seen {
    /// Its number; 0: the place is free.
    mount: AtomicU64,
    /// 0 (not known yet), [`NOT_OURS`], [`NOT_FUSE`], or who serves it.
    answer: AtomicU64,
}

static SEEN: [Seen; MOUNTS] = [const {
    Seen {
        mount: AtomicU64::new(0),
        answer: AtomicU64::new(0),
    }
}; MOUNTS];

/// Where an open file lies.
#[derive(Clone, Copy)]
pub struct Place {
    device: u64,
    /// Number of the mount; 0 on kernels before Linux 6.8, where one mount may have another's number: those
    /// are asked about each time.
    mount: u64,
}

impl Place {
    /// The place of a regular file, without asking its file system; `None` for everything else.
    pub fn of_regular_file(fd: c_int) -> Option<Place> {
        Place::of(fd, libc::S_IFREG)
    }

    /// The place of a directory, likewise.
    pub fn of_directory(fd: c_int) -> Option<Place> {
        Place::of(fd, libc::S_IFDIR)
    }

    /// The number of the mount that the kernel never gives out again; `None` before Linux 6.8.
    pub fn mount(self) -> Option<u64> {
        (self.mount != 0).then_some(self.mount)
    }

    /// The place of a mount, whose root this is.
    pub fn of_mount(root: &libc::statx, mount: u64) -> Place {
        Place {
            device: device_of(root),
            mount,
        }
    }

    /// Whether a file lies on its device.
    pub fn is_on_device(self, facts: &libc::statx) -> bool {
        device_of(facts) == self.device
    }

    /// The place of whatever is open.
    pub fn of_any(fd: c_int) -> Option<Place> {
        Place::of(fd, 0)
    }

    fn of(fd: c_int, kind: u32) -> Option<Place> {
        let mut facts: libc::statx = zeros();
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
        let wanted = libc::STATX_TYPE | libc::STATX_MNT_ID_UNIQUE;
        if raw::statx(fd, c"".as_ptr(), flags, wanted, &raw mut facts) < 0 {
            return None;
        }
        let is_kind = kind == 0 || u32::from(facts.stx_mode) & libc::S_IFMT == kind;
        let told = facts.stx_mask & libc::STATX_MNT_ID_UNIQUE != 0;
        is_kind.then_some(Place {
            device: device_of(&facts),
            mount: if told { facts.stx_mnt_id } else { 0 },
        })
    }

    /// Whether root or our own user serves the FUSE mount that the file of this number lies on.
    pub fn is_trusted(self, fd: c_int) -> bool {
        let answer = self.answer(fd);
        // Whoever serves a mount says which inode of which volume a file is: others could name any.
        answer == FIRST_USER
            || (answer == FIRST_USER + raw::geteuid() as u64 && is_in_own_users_hands())
    }

    /// Whether the file system of the file of this number is another kind than a mount of ours.
    pub fn is_no_fuse(self, fd: c_int) -> bool {
        self.answer(fd) == NOT_FUSE
    }

    fn answer(self, fd: c_int) -> u64 {
        match self.remembered() {
            0 => self.find_out(fd),
            known => known,
        }
    }

    /// Some other FUSE file system, whoever serves it.
    pub fn is_not_ours(self) {
        self.remember(NOT_OURS);
    }

    fn remembered(self) -> u64 {
        if self.mount == 0 {
            return 0;
        }
        SEEN.iter()
            .find(|seen| seen.mount.load(Ordering::Relaxed) == self.mount)
            .map_or(0, |seen| seen.answer.load(Ordering::Relaxed))
    }

    fn find_out(self, fd: c_int) -> u64 {
        let mut facts: libc::statfs = zeros();
        if raw::fstatfs(fd, &raw mut facts) < 0 {
            return 0;
        }
        let answer = if facts.f_type == FUSE_MAGIC {
            mounted_by(self.device).map_or(0, |user| FIRST_USER + u64::from(user))
        } else {
            NOT_FUSE
        };
        self.remember(answer);
        answer
    }

    /// When the places are full, it is asked again each time.
    fn remember(self, answer: u64) {
        if self.mount == 0 || answer == 0 {
            return;
        }
        let place = SEEN.iter().find(|seen| {
            let taken =
                seen.mount
                    .compare_exchange(0, self.mount, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok() || taken == Err(self.mount)
        });
        if let Some(seen) = place {
            seen.answer.store(answer, Ordering::Relaxed);
        }
    }
}

fn device_of(facts: &libc::statx) -> u64 {
    (u64::from(facts.stx_dev_major) << 32) | u64::from(facts.stx_dev_minor)
}

/// Whether our user could do to this process what they like: not when it keeps rights that the user has not, or
/// gave up some and may still know what they let it see.
fn is_in_own_users_hands() -> bool {
    const VERSION: u32 = 0x2008_0522;
    // Of each half of the capabilities: effective, permitted, inheritable.
    let (mut header, mut sets) = ([VERSION, 0], [u32::MAX; 6]);
    raw::prctl(libc::PR_GET_DUMPABLE, 0) == 1
        && raw::capget(&raw mut header, &raw mut sets) == 0
        && (raw::geteuid() == 0 || (sets[1] == 0 && sets[4] == 0))
}

/// The user who serves a FUSE mount; `None` when the kernel lists none here. The number of a device is good as
/// long as a file of it is open.
fn mounted_by(device: u64) -> Option<u32> {
    let path = c"/proc/self/mountinfo".as_ptr();
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let file = raw::openat(libc::AT_FDCWD, path, flags, 0) as i32;
    if file < 0 {
        return None;
    }
    let user = serving_user(device, |room| {
        raw::read(file, room.as_mut_ptr().cast(), room.len())
    });
    raw::close(file);
    user
}
