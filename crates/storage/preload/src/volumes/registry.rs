//! The volumes this process attached, or tried to: once per volume and mount, never again.

use crate::descriptors::reclaim;
use crate::signals;
use crate::sync::Lock;
use crate::system::libc_threads;
use crate::thread::{self, endings};
use crate::trust::{admission, settings};
use egeria_engine::control::ControlReply;
use egeria_engine::{AttachMode, AttachOptions, FaultHandling, Volume};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

const VOLUMES: usize = 32;

/// A volume of a mount, as this process knows it for good.
pub struct Known {
    volume: [u8; 16],
    mount_process: u32,
    /// Null: this process cannot have it, or left it.
    attached: AtomicPtr<Volume>,
}

static KNOWN: [AtomicPtr<Known>; VOLUMES] = [const { AtomicPtr::new(null_mut()) }; VOLUMES];
static ATTACHING: Lock = Lock::new();

fn known() -> impl Iterator<Item = &'static Known> {
    // SAFETY: entries are leaked boxes, set once.
    KNOWN
        .iter()
        .map_while(|entry| unsafe { entry.load(Ordering::Acquire).as_ref() })
}

impl Known {
    /// The volume; `None` when this process cannot have it, or left it.
    #[inline(always)]
    pub fn volume(&self) -> Option<&'static Volume> {
        // SAFETY: detached only when nobody uses it, and nobody will; in a fork child nobody else is there.
        unsafe { self.attached.load(Ordering::Acquire).as_ref() }
    }
}

fn find(reply: &ControlReply) -> Option<&'static Known> {
    known().find(|known| known.volume == reply.volume && known.mount_process == reply.mount_pid)
}

/// The volume of a reply, attached now if need be; `None` when this process cannot have it.
/// The caller is inside.
pub fn attached(reply: &ControlReply) -> Option<&'static Volume> {
    of_mount(reply).and_then(Known::volume)
}

/// What is known of the volume of a reply, attached now if need be; `None` when it may be had another time. The
/// caller is inside.
pub fn of_mount(reply: &ControlReply) -> Option<&'static Known> {
    match find(reply) {
        Some(known) => Some(known),
        None => ATTACHING.with(|| match find(reply) {
            Some(known) => Some(known),
            None => libc_threads::uncancelled(|| attach(reply)),
        }),
    }
}

fn attach(reply: &ControlReply) -> Option<&'static Known> {
    let free = KNOWN
        .iter()
        .find(|entry| entry.load(Ordering::Acquire).is_null())?;
    let path = Path::new(OsStr::from_bytes(reply.pool_path()?));
    if !path.is_absolute() || !prepare_process() {
        return None;
    }
    let options = AttachOptions {
        faults: FaultHandling::Caller,
        ..AttachOptions::default()
    };
    let outcome = Volume::attach(path, AttachMode::Join, &options);
    let attached = match outcome {
        Ok(volume) => {
            volume.leave_used_names_to_kernel();
            // Making a thread takes memory from the program's `malloc`, which the handler may have interrupted.
            volume.start_delegates_if(|| !thread::current().is_in_handler());
            Some(volume).filter(|volume| *volume.uuid().as_bytes() == reply.volume)
        }
        Err(error) if is_passing(error.errno) => return None,
        Err(_) => None,
    };
    let entry = Known {
        volume: reply.volume,
        mount_process: reply.mount_pid,
        attached: AtomicPtr::new(attached.map_or(null_mut(), |it| Arc::into_raw(it).cast_mut())),
    };
    let entry: &'static Known = Box::leak(Box::new(entry));
    admission::note_attach();
    free.store(std::ptr::from_ref(entry).cast_mut(), Ordering::Release);
    Some(entry)
}

/// Errors that may be gone next time.
fn is_passing(error: i32) -> bool {
    [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOMEM,
        libc::EINTR,
        libc::EAGAIN,
    ]
    .contains(&error)
}

/// What the process needs before the first attach; false when it cannot be had.
fn prepare_process() -> bool {
    if admission::any() {
        return true;
    }
    std::panic::set_hook(Box::new(|_| {}));
    settings::look_at_limits();
    if !settings::leaves_pools_open() {
        egeria_media::protection::protect_stores(signals::close_pools_later);
    }
    reclaim::register_barrier() && endings::prepare() && signals::take_over()
}

/// A thread is attaching, or was at the fork.
pub fn was_attaching() -> bool {
    ATTACHING.is_held()
}

/// Hold attaching still across a fork.
pub fn hold() {
    ATTACHING.take();
}

/// Let it go in the parent.
pub fn release() {
    ATTACHING.give();
}

/// In a fork child: the engine takes slots of the child's own at its next use.
pub fn after_fork_in_child() {
    ATTACHING.reset();
    for known in known() {
        if let Some(volume) = known.volume() {
            let _ = catch_unwind(AssertUnwindSafe(|| volume.after_fork_in_child()));
        }
    }
}

/// Whether a volume is attached. Waits for a thread that is attaching one; the caller is inside.
pub fn is_attached() -> bool {
    ATTACHING.with(|| known().any(|known| !known.attached.load(Ordering::Acquire).is_null()))
}

/// Detach all volumes, which unmaps them: nobody uses one, nor will. The caller is inside.
pub fn detach_all() {
    for known in known() {
        let volume = known.attached.swap(null_mut(), Ordering::AcqRel);
        if volume.is_null() {
            continue;
        }
        // SAFETY: from `into_raw`, and taken out by nobody else.
        let volume = unsafe { Arc::from_raw(volume) };
        let _ = catch_unwind(AssertUnwindSafe(|| detach(volume)));
    }
}

/// A volume with several mounts is here several times; the last one detaches it. A thread that ends may
/// have it for a moment, while it gives its slot back.
fn detach(mut volume: Arc<Volume>) {
    const ROUNDS: u32 = 1000;
    let mut round = 0;
    let here = |volume: &Arc<Volume>| {
        known()
            .any(|known| std::ptr::eq(known.attached.load(Ordering::Acquire), &raw const **volume))
    };
    while round < ROUNDS && !here(&volume) {
        match Arc::try_unwrap(volume) {
            Ok(last) => return drop(last),
            Err(shared) => volume = shared,
        }
        crate::sync::pause(&mut round);
    }
}
