//! Which process of a line of forks this is. What a parent attached is not its child's: thread slots, locks and open
//! files of the session are the parent's, and a child that used them would give them back for it.
//!
//! The number of the process lies in a page that the kernel empties in a child (`MADV_WIPEONFORK`), so that a child is
//! known however it was made. `pthread_atfork` gives the attached volumes up in the child before anything of it runs.

use egeria_fs::Volume;
use std::cell::UnsafeCell;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Held while a volume is attached and while the process forks. A `std` mutex cannot be given back by a handler.
struct ForkLock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is what threads share.
unsafe impl Sync for ForkLock {}

static LOCK: ForkLock = ForkLock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

/// Volumes attached by this process; only under [`LOCK`].
struct Attached(UnsafeCell<Vec<Weak<Volume>>>);

// SAFETY: only used under the lock.
unsafe impl Sync for Attached {}

static ATTACHED: Attached = Attached(UnsafeCell::new(Vec::new()));

/// Numbers given out; inherited by children, whose numbers differ therefore.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Where the number of this process is; 0 in a child that nobody told so.
struct Page(NonNull<AtomicU64>);

// SAFETY: it points to an atomic that stays mapped.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

static PAGE: OnceLock<Page> = OnceLock::new();

/// The number of a process in its line of forks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Process(u64);

impl Process {
    /// Whether it is the one that runs.
    #[inline]
    pub(crate) fn is_this(self) -> bool {
        PAGE.get().is_some_and(|page| page.number() == self.0)
    }
}

impl Page {
    #[inline]
    fn number(&self) -> u64 {
        // SAFETY: the page stays mapped.
        unsafe { self.0.as_ref() }.load(Ordering::Relaxed)
    }

    fn set(&self, number: u64) {
        // SAFETY: the page stays mapped.
        unsafe { self.0.as_ref() }.store(number, Ordering::Relaxed);
    }
}

/// Whether this is a child that no handler ran in (`_Fork`, `clone`).
pub(crate) fn is_untold_child() -> bool {
    PAGE.get().is_some_and(|page| page.number() == 0)
}

/// Attach a volume of this process.
pub(crate) fn attach<E: From<io::Error>>(
    attach: impl FnOnce() -> std::result::Result<Arc<Volume>, E>,
) -> std::result::Result<(Arc<Volume>, Process), E> {
    let page = prepare()?;
    let _held = Held::take();
    if page.number() == 0 {
        // A child made past the handlers.
        begin_in_child();
    }
    let volume = attach()?;
    // SAFETY: under the lock.
    let attached = unsafe { &mut *ATTACHED.0.get() };
    attached.retain(|other| other.strong_count() > 0);
    if !attached
        .iter()
        .any(|other| ptr::eq(other.as_ptr(), Arc::as_ptr(&volume)))
    {
        attached.push(Arc::downgrade(&volume));
    }
    Ok((volume, Process(page.number())))
}

struct Held;

impl Held {
    fn take() -> Held {
        take();
        Held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        give();
    }
}

extern "C" fn take() {
    // SAFETY: a mutex initialised by its definition.
    unsafe { libc::pthread_mutex_lock(LOCK.0.get()) };
}

extern "C" fn give() {
    // SAFETY: held by this thread, or by the one that this one is the copy of.
    unsafe { libc::pthread_mutex_unlock(LOCK.0.get()) };
}

extern "C" fn child() {
    begin_in_child();
    give();
}

/// Only stores. Under the lock.
fn begin_in_child() {
    // SAFETY: under the lock.
    for volume in unsafe { &*ATTACHED.0.get() } {
        if volume.strong_count() > 0 {
            // SAFETY: somebody holds it. Not upgraded: the last holder may be a thread that is not here.
            unsafe { &*volume.as_ptr() }.after_fork_in_child();
        }
    }
    if let Some(page) = PAGE.get() {
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        page.set(number);
    }
}

fn prepare() -> io::Result<&'static Page> {
    if let Some(page) = PAGE.get() {
        return Ok(page);
    }
    let _held = Held::take();
    if let Some(page) = PAGE.get() {
        return Ok(page);
    }
    let page = map_page()?;
    // SAFETY: functions that stay where they are: the library is linked so that it is never unloaded.
    let errno = unsafe { libc::pthread_atfork(Some(take), Some(give), Some(child)) };
    if errno != 0 {
        return Err(io::Error::from_raw_os_error(errno));
    }
    page.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    Ok(PAGE.get_or_init(|| page))
}

fn map_page() -> io::Result<Page> {
    // SAFETY: no argument that it takes has a meaning for others.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    // SAFETY: a new mapping, of a place that the kernel chooses.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping just made.
    if unsafe { libc::madvise(start, bytes, libc::MADV_WIPEONFORK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast())
        .map(Page)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}
