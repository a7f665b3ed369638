//! A path from the program, into the engine and back: as `descriptor` does for numbers.

use super::bracket::in_call;
use super::descriptor::{open_all_in_kernel, try_open_in_kernel};
use super::guarded::{can_look, look};
use super::ownership;
use super::start::{self, Start};
use crate::description::pin::Pin;
use crate::description::record::{Record, may_any_be_deferred};
use crate::description::reply::Reply;
use crate::descriptors::reclaim;
use crate::signals;
use crate::system::guarded_copy::{copy, copy_string};
use crate::system::readable::is_readable;
use crate::system::{errno, raw};
use crate::thread::{self, Thread, process};
use crate::trust::{admission, settings};
use crate::volumes::identity::Identity;
use crate::volumes::mounts::{self, Mount};
use egeria_engine::rights::READ;
use egeria_engine::{Attributes, InodeNumber, PathEnd, PathStop, PathWalker, Volume};
use libc::{c_char, c_int};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

const PATH_ROOM_BYTES: usize = 4096;
const PAGE_BYTES: usize = 4096;
/// In a pin: the thread uses a volume by a path.
const BY_PATH: NonNull<Record> = NonNull::dangling();

/// A place of the program's to be filled.
#[derive(Clone, Copy)]
pub struct CallerPlace<T>(pub *mut T);

impl<T: Copy> CallerPlace<T> {
    /// Fill it with some values; `EFAULT` when the address is bad.
    pub fn fill(self, values: &[T]) -> Reply {
        // SAFETY: the program gave the address to be written; a bad one answers false.
        let filled = unsafe { copy(self.0.cast(), values.as_ptr().cast(), size_of_val(values)) };
        if filled {
            Reply::Done(0)
        } else {
            Reply::Fails(libc::EFAULT)
        }
    }
}

/// A path in a volume, and who goes it.
pub struct Way<'p> {
    pub mount: &'static Mount,
    pub volume: &'static Volume,
    /// How the mount may be used.
    pub usage: mounts::Use,
    /// Whose rights count.
    pub identity: &'static Identity,
    walker: PathWalker<'static>,
    start: Start<'p>,
}

impl<'p> Way<'p> {
    fn new(start: Start<'p>) -> Option<Way<'p>> {
        let identity = Identity::own()?;
        Some(Way {
            mount: start.mount,
            volume: start.volume,
            usage: start.usage,
            identity,
            walker: PathWalker {
                volume: start.volume,
                credentials: &identity.credentials,
                protects_symlinks: identity.protects_symlinks,
            },
            start,
        })
    }

    /// What the path means.
    pub fn find(&self, follows_last: bool) -> Result<Attributes, PathStop> {
        let directory = self.walker.directory(self.start.ino)?;
        self.walker.find(directory, self.start.path, follows_last)
    }

    /// The directory that the path begins in, or what the descriptor refers to.
    pub fn start_ino(&self) -> InodeNumber {
        self.start.ino
    }

    /// What the path means where an empty one means the descriptor (`AT_EMPTY_PATH`).
    pub fn find_or_own(
        &self,
        follows_last: bool,
        may_be_empty: bool,
    ) -> Result<Attributes, PathStop> {
        if may_be_empty && self.start.path.is_empty() {
            self.inode()
        } else {
            self.find(follows_last)
        }
    }

    /// The same, with other rights.
    pub fn find_as(
        &self,
        credentials: &'static egeria_engine::rights::Credentials,
        follows_last: bool,
    ) -> Result<Attributes, PathStop> {
        let walker = PathWalker {
            credentials,
            ..self.walker
        };
        walker.find(
            walker.directory(self.start.ino)?,
            self.start.path,
            follows_last,
        )
    }

    /// The path without links, `.` and `..`, from the root of the file system on.
    pub fn canonical_path(&self) -> Result<Vec<u8>, PathStop> {
        let point = self.mount.point().to_bytes();
        let above = match self.start.ino {
            InodeNumber::ROOT => Vec::new(),
            ino => self.path_of_working_directory(ino)?,
        };
        let directory = self.walker.directory(self.start.ino)?;
        let inside = self
            .walker
            .canonical_path(directory, above, self.start.path)?;
        Ok([point, &inside].concat())
    }

    /// Where the kernel says that the working directory is, below the mount.
    fn path_of_working_directory(&self, ino: InodeNumber) -> Result<Vec<u8>, PathStop> {
        let mut room = [0u8; PATH_ROOM_BYTES];
        let answer = raw::getcwd(room.as_mut_ptr().cast(), room.len());
        let bytes = usize::try_from(answer).or(Err(PathStop::Elsewhere))?;
        let path = room.get(..bytes.saturating_sub(1)).unwrap_or(&[]);
        let inside = self.mount.inside(path).ok_or(PathStop::Elsewhere)?;
        // Another thread may have changed it, and it may have been removed.
        let root = self.walker.directory(InodeNumber::ROOT)?;
        if self.walker.find(root, inside, false)?.ino == ino {
            Ok(inside.to_vec())
        } else {
            Err(PathStop::Elsewhere)
        }
    }

    /// The inode of a descriptor.
    pub fn inode(&self) -> Result<Attributes, PathStop> {
        self.volume
            .attributes(self.start.ino)
            .or(Err(PathStop::Elsewhere))
    }

    /// Whether files can be opened by their number: by a name that is made in the root, for a process that has it open.
    pub fn may_open_by_number(&self) -> bool {
        let root = self.volume.attributes(InodeNumber::ROOT);
        let credentials = &self.identity.credentials;
        root.is_ok_and(|root| credentials.may(&root, READ) && credentials.may_add(&root))
    }

    /// Where the path ends.
    pub fn find_end(&self) -> Result<PathEnd, PathStop> {
        let directory = self.walker.directory(self.start.ino)?;
        self.walker.find_end(directory, self.start.path)
    }

    /// What the name at its end means.
    pub fn named(&self, end: &PathEnd) -> Result<Attributes, PathStop> {
        self.walker.named(end)
    }
}

/// Before the kernel follows a path: one through `/proc`, `/dev/fd` or `/dev/std…` may lead to a descriptor, whose file
/// it must have open then.
pub fn before_path(path: *const c_char) {
    if may_any_be_deferred() && can_look() && may_lead_to_descriptor(path) {
        open_all_in_kernel();
    }
}

fn may_lead_to_descriptor(path: *const c_char) -> bool {
    // No more is looked at than such a path has: what follows its end may be bad.
    match look(path.cast::<[u8; 5]>()).as_ref() {
        Some(b"/proc") => true,
        Some(start @ b"/dev/") => {
            let name = look(path.wrapping_add(start.len()).cast::<[u8; 2]>());
            matches!(name.as_ref(), Some(b"fd" | b"st"))
        }
        _ => false,
    }
}

/// Serve a path; `None`: not ours, or not for us: call the real function.
pub fn on_path(
    directory: c_int,
    path: *const c_char,
    body: impl FnOnce(&Way<'_>) -> Result<Reply, PathStop>,
) -> Option<c_int> {
    before_path(path);
    let served = Admitted::new(&[(directory, path)]).and_then(|admitted| {
        admitted.run(|thread| {
            let mut room = [const { MaybeUninit::uninit() }; PATH_ROOM_BYTES];
            let way = way(thread, directory, path, &mut room)?;
            Some((way.volume, body(&way)))
        })
    });
    served.or_else(|| by_kernel_at(directory, path))
}

/// Leave a call on a descriptor to the kernel: it must have the file open, and not the placeholder. The call's answer
/// where that fails.
pub fn by_kernel<T: From<i8>>(fd: c_int) -> Option<T> {
    let errno = try_open_in_kernel(fd).err()?;
    errno::set(errno);
    Some(T::from(-1))
}

/// The same of a call on a path, which may be empty and mean the descriptor (`AT_EMPTY_PATH`). An absolute one begins
/// elsewhere, and the kernel sees a bad one first.
pub fn by_kernel_at<T: From<i8>>(directory: c_int, path: *const c_char) -> Option<T> {
    let errno = try_open_in_kernel(directory).err()?;
    match can_look().then(|| look(path.cast::<u8>())) {
        Some(None | Some(b'/')) => None,
        _ => {
            errno::set(errno);
            Some(T::from(-1))
        }
    }
}

/// Serve two paths of one volume.
pub fn on_two_paths(
    [(one_directory, one), (other_directory, other)]: [(c_int, *const c_char); 2],
    body: impl FnOnce(&Way<'_>, &Way<'_>) -> Result<Reply, PathStop>,
) -> Option<c_int> {
    before_path(one);
    before_path(other);
    let paths = [(one_directory, one), (other_directory, other)];
    let served = Admitted::new(&paths).and_then(|admitted| {
        admitted.run(|thread| {
            let mut rooms = [const { [const { MaybeUninit::uninit() }; PATH_ROOM_BYTES] }; 2];
            let [one_room, other_room] = &mut rooms;
            let one = way(thread, one_directory, one, one_room)?;
            let other = way(thread, other_directory, other, other_room)?;
            if !std::ptr::eq(one.mount, other.mount) {
                return None;
            }
            Some((one.volume, body(&one, &other)))
        })
    });
    served
        .or_else(|| by_kernel_at(one_directory, one))
        .or_else(|| by_kernel_at(other_directory, other))
}

/// Serve a descriptor.
pub fn on_descriptor(
    fd: c_int,
    body: impl FnOnce(&Way<'_>) -> Result<Reply, PathStop>,
) -> Option<c_int> {
    let served = Admitted::new(&[(fd, std::ptr::null())]).and_then(|admitted| {
        admitted.run(|_| {
            let way = Way::new(start::of_descriptor(fd)?)?;
            Some((way.volume, body(&way)))
        })
    });
    served.or_else(|| by_kernel(fd))
}

/// Serve a descriptor that is good for more than paths.
pub fn on_open_descriptor(
    fd: c_int,
    body: impl FnOnce(&Way<'_>) -> Result<Reply, PathStop>,
) -> Option<c_int> {
    on_descriptor(fd, |way| {
        if start::is_open(fd) {
            body(way)
        } else {
            Err(PathStop::Elsewhere)
        }
    })
}

/// Run `body` on another string of the program's, while one of its paths is served.
pub fn with_caller_string<T>(text: *const c_char, body: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let mut room = [0; PATH_ROOM_BYTES];
    let bytes = copy_string(&mut room, text.cast())?;
    Some(body(&room[..bytes]))
}

type Room = [MaybeUninit<u8>; PATH_ROOM_BYTES];

#[inline(always)]
fn bytes_of(room: &mut Room) -> &mut [u8; PATH_ROOM_BYTES] {
    // SAFETY: bytes; only those that a copy filled are looked at.
    unsafe { &mut *std::ptr::from_mut(room).cast() }
}

#[inline(always)]
fn way<'r>(
    thread: &Thread,
    directory: c_int,
    path: *const c_char,
    room: &'r mut Room,
) -> Option<Way<'r>> {
    let room = bytes_of(room);
    let bytes = copy_string(room, path.cast())?;
    Way::new(start::start(thread, directory, &room[..bytes])?)
}

/// A thread that may use volumes by paths.
struct Admitted {
    thread: &'static Thread,
    pin: &'static Pin,
}

impl Admitted {
    #[inline(always)]
    fn new(paths: &[(c_int, *const c_char)]) -> Option<Admitted> {
        let thread = thread::current();
        if settings::is_off() || thread.has(thread::INSIDE | thread::FORKING) {
            return None;
        }
        let ready = thread.pin().filter(|pin| {
            thread.gate.load(Ordering::Relaxed) == 0 && pin.thread.load(Ordering::Relaxed) != 0
        });
        let pin = match ready {
            Some(pin) => pin,
            None => make_ready(thread, paths)?,
        };
        Some(Admitted { thread, pin })
    }

    #[inline(always)]
    fn run(
        self,
        body: impl FnOnce(&Thread) -> Option<(&'static Volume, Result<Reply, PathStop>)>,
    ) -> Option<c_int> {
        let Admitted { thread, pin } = self;
        // Once it is off and no pin names anything, the volumes go.
        let hold = || pin.hold(-1, BY_PATH.as_ptr(), || !settings::is_off());
        let value = in_call(
            thread,
            pin,
            || hold().then_some(()),
            |()| {
                let (volume, reply) = body(thread)?;
                let reply = reply.unwrap_or_else(Reply::from);
                if reply.is_by_kernel() {
                    volume.count_passed();
                } else {
                    volume.count_direct();
                }
                Some(reply)
            },
        );
        value.map(|value| value as c_int)
    }
}

/// Prepare the thread, and the process at the first path that leads into a volume.
#[cold]
#[inline(never)]
fn make_ready(thread: &'static Thread, paths: &[(c_int, *const c_char)]) -> Option<&'static Pin> {
    if thread.has(thread::VFORK) && process::in_vfork_child(thread) {
        return None;
    }
    let error = errno::get();
    let pin = (|| {
        mounts::all().next()?;
        let may_lead_inside =
            |(directory, path): &(c_int, *const c_char)| may_lead_inside(thread, *directory, *path);
        if !signals::has_taken_over() && !paths.iter().any(may_lead_inside) {
            return None;
        }
        if !ownership::owns_tables() {
            return None;
        }
        let known = thread
            .pin()
            .filter(|pin| pin.thread.load(Ordering::Relaxed) != 0);
        if known.is_some() {
            return known;
        }
        if !signals::has_taken_over() && !attach_first(thread, paths) {
            return None;
        }
        reclaim::take(thread)
    })();
    errno::set(error);
    pin
}

/// Attach the volume that one of the paths leads to; false when none does.
fn attach_first(thread: &Thread, paths: &[(c_int, *const c_char)]) -> bool {
    thread::inside(|| {
        let attach = || {
            paths.iter().any(|(directory, path)| {
                if path.is_null() {
                    return start::of_descriptor(*directory).is_some();
                }
                let mut room = [const { MaybeUninit::uninit() }; PATH_ROOM_BYTES];
                let path = fetch(*path, &mut room);
                path.is_some_and(|path| start::start(thread, *directory, path).is_some())
            })
        };
        let attach = || catch_unwind(AssertUnwindSafe(attach)).unwrap_or(false);
        admission::admitted(attach).unwrap_or(false)
    })
}

/// Whether a path may lead into a volume, as far as its text and the working directory say: a program that uses none pays
/// for no more than this question.
pub fn may_lead_inside(thread: &Thread, directory: c_int, path: *const c_char) -> bool {
    if path.is_null() {
        return true;
    }
    thread::inside(|| {
        let mut room = [const { MaybeUninit::uninit() }; PATH_ROOM_BYTES];
        let path = fetch(path, &mut room);
        path.is_some_and(|path| start::may_lead_inside(thread, directory, path))
    })
}

/// A string of the program's, before faults come to us: only what the kernel can read is read here.
fn fetch(from: *const c_char, room: &mut Room) -> Option<&[u8]> {
    let room = bytes_of(room);
    let to_page_end = PAGE_BYTES - from as usize % PAGE_BYTES;
    if !is_readable(from as usize) {
        return None;
    }
    let bytes = copy_string(&mut room[..to_page_end], from.cast()).or_else(|| {
        let next = (from as usize).checked_add(to_page_end)?;
        is_readable(next).then(|| copy_string(room, from.cast()))?
    })?;
    Some(&room[..bytes])
}
