//! The mounts of volumes that this process sees, and whether they still lead there.
//!
//! The kernel does not say when mounts change, so what was seen is believed for [`VALID_TICKS`] and then looked at
//! again: that the mount is still at its place, with nothing mounted inside, and how it may be used.

use super::registry::{self, Known};
use crate::sync::pause;
use crate::system::raw::{self, MountRequest};
use crate::thread;
use crate::trust::Place;
use crate::trust::control_call::ask_mount;
use egeria_engine::control::{ControlReply, MountLine, volume_mounts};
use egeria_engine::{FileKind, InodeNumber, Volume};
use libc::c_int;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

const MAX_MOUNTS: usize = 16;
/// How long what was seen of a mount is believed, in ticks of the processor's clock: 26 to 100 us at 5 to 1.3 GHz.
const VALID_TICKS: u64 = 1 << 17;

const STATMOUNT_SB_BASIC: u64 = 1;
const STATMOUNT_MNT_BASIC: u64 = 2;
const SB_READ_ONLY: u32 = 1;
const MOUNT_READ_ONLY: u64 = 1;
const MOUNT_NO_EXEC: u64 = 8;
/// Of these bits none is `relatime`.
const MOUNT_ACCESS_TIMES: u64 = 0x70;
const MOUNT_NO_SYMLINKS: u64 = 0x20_0000;

/// The mount leads to the volume, and nothing is mounted inside.
const LEADS: u32 = 1;
/// Changes are refused.
const READ_ONLY: u32 = 2;
/// Programs are not executed.
const NO_EXEC: u32 = 4;
/// From here on, what `statfs` tells as flags.
const SPACE_FLAGS_SHIFT: u32 = 8;

/// Flags that `statfs` tells: set in this attribute of the mount, told as this.
const SPACE_FLAGS: [(u64, u64); 6] = [
    (MOUNT_READ_ONLY, libc::ST_RDONLY),
    (2, libc::ST_NOSUID),
    (4, libc::ST_NODEV),
    (MOUNT_NO_EXEC, libc::ST_NOEXEC),
    (0x10, libc::ST_NOATIME),
    (0x80, libc::ST_NODIRATIME),
];
/// The kernel tells flags.
const SPACE_FLAGS_VALID: u64 = 0x20;
/// Told as they are set in the superblock.
const SPACE_FLAGS_OF_ALL: u64 = libc::ST_RDONLY | libc::ST_SYNCHRONOUS | libc::ST_MANDLOCK;

/// What `statfs` tells, in words: type, size of a block, blocks, free, available, inodes, free, two of an identity in one,
/// longest name, size of a fragment, flags, and spare ones.
pub type SpaceWords = [u64; 15];

static MOUNTS: [AtomicPtr<Mount>; MAX_MOUNTS] = [const { AtomicPtr::new(null_mut()) }; MAX_MOUNTS];
/// Whether somebody looked for them.
static LOOKED: AtomicU8 = AtomicU8::new(NOBODY_LOOKED);
const NOBODY_LOOKED: u8 = 0;
const SOMEBODY_LOOKS: u8 = 1;
const HAVE_LOOKED: u8 = 2;
/// Rounds of waiting for another thread's look, which takes less than a millisecond; in all a tenth of a second. Then that
/// thread is taken to be gone.
const MAX_ROUNDS: u32 = 1200;

/// A mount, known for good.
pub struct Mount {
    point: CString,
    id: u64,
    /// What the kernel says of its root: device, masks and the number of the mount are those of every inode.
    pub template: libc::statx,
    /// Null: not asked yet.
    known: AtomicPtr<Known>,
    /// What the kernel said of its space once: type, sizes and identity stay. Null: not asked yet.
    space: AtomicPtr<SpaceWords>,
    /// The mount cannot be used past the kernel.
    is_refused: AtomicBool,
    seen: AtomicU32,
    seen_at_ticks: AtomicU64,
}

/// How a mount may be used now.
#[derive(Clone, Copy)]
pub struct Use(u32);

impl Use {
    /// Whether changes are allowed.
    pub fn is_writable(self) -> bool {
        self.0 & READ_ONLY == 0
    }

    /// Whether programs may be executed.
    pub fn is_executable(self) -> bool {
        self.0 & NO_EXEC == 0
    }

    /// The flags that `statfs` tells.
    pub fn space_flags(self) -> u64 {
        u64::from(self.0 >> SPACE_FLAGS_SHIFT)
    }
}

/// The processor's clock, for [`is_fresh`].
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; where it is forbidden, so is libc's clock.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Whether what was seen at these ticks is still to be believed.
#[inline(always)]
pub fn is_fresh(seen_at_ticks: u64) -> bool {
    ticks().wrapping_sub(seen_at_ticks) < VALID_TICKS
}

/// Every mount; looks for them at the first call, unless in a signal handler.
#[inline(always)]
pub fn all() -> impl Iterator<Item = &'static Mount> {
    if LOOKED.load(Ordering::Acquire) != HAVE_LOOKED {
        look();
    }
    MOUNTS.iter().map_while(|entry| {
        // SAFETY: entries are leaked boxes, set once.
        unsafe { entry.load(Ordering::Acquire).as_ref() }
    })
}

#[cold]
fn look() {
    if thread::current().handler_depth.load(Ordering::Relaxed) > 0 {
        return;
    }
    let (nobody, somebody) = (NOBODY_LOOKED, SOMEBODY_LOOKS);
    if (LOOKED.compare_exchange(nobody, somebody, Ordering::AcqRel, Ordering::Relaxed)).is_err() {
        // Files that the kernel opened instead would be left to it from then on.
        let mut round = 0;
        while LOOKED.load(Ordering::Acquire) == SOMEBODY_LOOKS && round < MAX_ROUNDS {
            pause(&mut round);
        }
        if round >= MAX_ROUNDS {
            let _ = LOOKED.compare_exchange(somebody, nobody, Ordering::AcqRel, Ordering::Relaxed);
        }
        return;
    }
    let found = thread::inside(|| {
        let list = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        let mounts = volume_mounts(&list).into_iter().filter_map(Mount::new);
        mounts
            .map(|mount| Box::into_raw(Box::new(mount)))
            .take(MAX_MOUNTS)
            .collect::<Vec<_>>()
    });
    for (entry, mount) in MOUNTS.iter().zip(&found) {
        entry.store(*mount, Ordering::Release);
    }
    thread::inside(|| drop(found));
    LOOKED.store(HAVE_LOOKED, Ordering::Release);
}

/// A file of a volume was met on a mount that may be newer than the look: look again at the next path.
pub fn note(id: u64) {
    if LOOKED.load(Ordering::Acquire) == HAVE_LOOKED && all().all(|mount| mount.id != id) {
        LOOKED.store(NOBODY_LOOKED, Ordering::Release);
    }
}

/// In a fork child: a thread that was looking is not here.
pub fn reset_in_child() {
    let (nobody, somebody) = (NOBODY_LOOKED, SOMEBODY_LOOKS);
    let _ = LOOKED.compare_exchange(somebody, nobody, Ordering::AcqRel, Ordering::Relaxed);
}

impl Mount {
    fn new(line: MountLine) -> Option<Mount> {
        let point = CString::new(line.point).ok()?;
        // What the kernel knows: a mount that hangs must not be waited for.
        let facts = facts_at(
            &point,
            libc::STATX_BASIC_STATS | libc::STATX_MNT_ID_UNIQUE,
            libc::AT_STATX_DONT_SYNC,
        )?;
        let id = (facts.stx_mask & libc::STATX_MNT_ID_UNIQUE != 0).then_some(facts.stx_mnt_id)?;
        let mut template = facts;
        template.stx_mnt_id = line.id;
        template.stx_mask = template.stx_mask & !libc::STATX_MNT_ID_UNIQUE | libc::STATX_MNT_ID;
        Some(Mount {
            point,
            id,
            template,
            known: AtomicPtr::new(null_mut()),
            space: AtomicPtr::new(null_mut()),
            is_refused: AtomicBool::new(false),
            seen: AtomicU32::new(0),
            seen_at_ticks: AtomicU64::new(0),
        })
    }

    pub fn point(&self) -> &CStr {
        &self.point
    }

    /// The number that the kernel never gives out again.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where its files are.
    pub fn place(&self) -> Place {
        Place::of_mount(&self.template, self.id)
    }

    /// What follows the mount point in an absolute path, with its slash; `None` when the path leads elsewhere.
    #[inline]
    pub fn inside<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let rest = path.strip_prefix(self.point.as_bytes())?;
        matches!(rest.first(), None | Some(b'/')).then_some(rest)
    }

    /// The volume; attached at the first call. The caller is inside.
    #[inline(always)]
    pub fn volume(&self) -> Option<&'static Volume> {
        // SAFETY: known for good once it is known.
        match unsafe { self.known.load(Ordering::Acquire).as_ref() } {
            Some(known) => known.volume(),
            None => self.attach(),
        }
    }

    #[cold]
    fn attach(&self) -> Option<&'static Volume> {
        if self.is_refused.load(Ordering::Relaxed)
            || thread::current().handler_depth.load(Ordering::Relaxed) > 0
        {
            return None;
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        let root = raw::openat(libc::AT_FDCWD, self.point.as_ptr(), flags, 0) as c_int;
        let known = if root >= 0 {
            let known = self.known_by(root);
            raw::close(root);
            known
        } else {
            None
        };
        let Some(known) = known else {
            self.is_refused.store(true, Ordering::Relaxed);
            return None;
        };
        self.known
            .store(std::ptr::from_ref(known).cast_mut(), Ordering::Release);
        known.volume()
    }

    fn known_by(&self, root: c_int) -> Option<&'static Known> {
        let place = Place::of_directory(root)?;
        if place.mount() != Some(self.id) || !place.is_trusted(root) {
            return None;
        }
        let is_usable = |reply: &ControlReply| {
            reply.kind == FileKind::Directory as u32
                && reply.ino == InodeNumber::ROOT.0
                && reply.tracks_lookups != 0
        };
        let reply = ask_mount(root, place).filter(is_usable)?;
        registry::of_mount(&reply)
    }

    /// What `statfs` tells of the mount; the counts and flags are those of the first look. The caller is inside.
    pub fn space(&self) -> Option<SpaceWords> {
        // SAFETY: null, or a leaked box.
        match unsafe { self.space.load(Ordering::Acquire).as_ref() } {
            Some(space) => Some(*space),
            None => self.ask_space(),
        }
    }

    #[cold]
    fn ask_space(&self) -> Option<SpaceWords> {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let root = raw::openat(libc::AT_FDCWD, self.point.as_ptr(), flags, 0) as c_int;
        if root < 0 {
            return None;
        }
        let mut space = [0; 15];
        let is_there = Place::of_directory(root).is_some_and(|at| at.mount() == Some(self.id))
            && raw::fstatfs(root, space.as_mut_ptr().cast()) == 0;
        raw::close(root);
        if !is_there {
            return None;
        }
        let known = Box::into_raw(Box::new(space));
        let first =
            self.space
                .compare_exchange(null_mut(), known, Ordering::AcqRel, Ordering::Relaxed);
        if first.is_err() {
            // SAFETY: made above, and stored nowhere.
            drop(unsafe { Box::from_raw(known) });
        }
        Some(space)
    }

    /// How the mount may be used; `None` when the kernel must go the way.
    #[inline(always)]
    pub fn usage(&self) -> Option<Use> {
        let seen = if is_fresh(self.seen_at_ticks.load(Ordering::Acquire)) {
            self.seen.load(Ordering::Relaxed)
        } else {
            self.look_again()
        };
        (seen & LEADS != 0).then_some(Use(seen))
    }

    #[cold]
    fn look_again(&self) -> u32 {
        // Taken before the look, for what is seen may change right after.
        let now = ticks();
        let seen = self.look().unwrap_or(0);
        self.seen.store(seen, Ordering::Relaxed);
        self.seen_at_ticks.store(now, Ordering::Release);
        seen
    }

    fn look(&self) -> Option<u32> {
        let flags = libc::AT_STATX_DONT_SYNC;
        let facts = facts_at(&self.point, libc::STATX_MNT_ID_UNIQUE, flags)?;
        if facts.stx_mnt_id != self.id || self.has_mounts_inside() {
            return None;
        }
        // Words from the front: sizes, mask, device, magic, flags and type, three of numbers, attributes.
        let mut answer = [0u64; 64];
        let request = self.request(STATMOUNT_SB_BASIC | STATMOUNT_MNT_BASIC);
        let bytes = size_of_val(&answer);
        if raw::statmount(&raw const request, answer.as_mut_ptr().cast(), bytes, 0) < 0 {
            return None;
        }
        let (flags, attributes) = (answer[4] as u32, answer[8]);
        if attributes & MOUNT_NO_SYMLINKS != 0 {
            return None;
        }
        let is_read_only = flags & SB_READ_ONLY != 0 || attributes & MOUNT_READ_ONLY != 0;
        let mut seen = LEADS;
        if is_read_only {
            seen |= READ_ONLY;
        }
        if attributes & MOUNT_NO_EXEC != 0 {
            seen |= NO_EXEC;
        }
        Some(seen | (space_flags(flags, attributes) as u32) << SPACE_FLAGS_SHIFT)
    }

    fn has_mounts_inside(&self) -> bool {
        let (request, mut first) = (self.request(0), 0);
        raw::listmount(&raw const request, &raw mut first, 1, 0) != 0
    }

    fn request(&self, parameter: u64) -> MountRequest {
        MountRequest {
            bytes: size_of::<MountRequest>() as u32,
            spare: 0,
            mount: self.id,
            parameter,
        }
    }
}

fn facts_at(point: &CStr, wanted: u32, flags: c_int) -> Option<libc::statx> {
    let mut facts = MaybeUninit::<libc::statx>::zeroed();
    let (at, flags) = (libc::AT_FDCWD, flags | libc::AT_NO_AUTOMOUNT);
    let answer = raw::statx(at, point.as_ptr(), flags, wanted, facts.as_mut_ptr());
    // SAFETY: zeroed, which is valid, and filled by the kernel.
    (answer == 0).then(|| unsafe { facts.assume_init() })
}

fn space_flags(superblock: u32, attributes: u64) -> u64 {
    let told = SPACE_FLAGS.iter().filter(|(set, _)| attributes & set != 0);
    let mut flags = SPACE_FLAGS_VALID | u64::from(superblock) & SPACE_FLAGS_OF_ALL;
    flags |= told.fold(0, |flags, (_, told)| flags | told);
    match attributes & MOUNT_ACCESS_TIMES {
        0 => flags | libc::ST_RELATIME,
        _ => flags,
    }
}
