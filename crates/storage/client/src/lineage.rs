//! Identifies a process among its forks. What a parent attached does not belong to its child: thread slots, locks and
//! open files of the session are the parent's. A child that used them would release them on the parent's behalf.
//!
//! The number of the process is stored in a page that the kernel clears in a child (`MADV_WIPEONFORK`), so that a
//! child is recognised however it was made. The handler of `pthread_atfork` gives up the attached volumes in the child
//! before other code of the child runs.

use egeria_engine::Volume;
use std::cell::UnsafeCell;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// What this process attached.
struct Attached {
    /// Held while a volume is attached and while the process forks. A fork handler cannot unlock a `std` mutex.
    lock: UnsafeCell<libc::pthread_mutex_t>,
    /// Only under the lock.
    volumes: UnsafeCell<Vec<Weak<Volume>>>,
}

// SAFETY: a mutex is what threads share, and the rest is only used under it.
unsafe impl Sync for Attached {}

static ATTACHED: Attached = Attached {
    lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
    volumes: UnsafeCell::new(Vec::new()),
};

/// The last number given out. Children inherit it, so their numbers differ.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Where the number of this process is stored, in a page that stays mapped; 0 in a child without a number.
static PAGE: OnceLock<&AtomicU64> = OnceLock::new();

/// The number of a process among its forks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Process(u64);

impl Process {
    /// Whether it is the one that runs.
    #[inline]
    pub(crate) fn is_this(self) -> bool {
        PAGE.get()
            .is_some_and(|page| page.load(Ordering::Relaxed) == self.0)
    }
}

/// Whether this is a child in which no fork handler ran (`_Fork`, `clone`).
pub(crate) fn is_untold_child() -> bool {
    PAGE.get()
        .is_some_and(|page| page.load(Ordering::Relaxed) == 0)
}

/// Attach a volume of this process.
pub(crate) fn attach<E: From<io::Error>>(
    attach: impl FnOnce() -> std::result::Result<Arc<Volume>, E>,
) -> std::result::Result<(Arc<Volume>, Process), E> {
    let page = prepare()?;
    let _held = Held::take();
    if page.load(Ordering::Relaxed) == 0 {
        // A child created without the handlers.
        begin_in_child();
    }
    let volume = attach()?;
    // SAFETY: under the lock.
    let attached = unsafe { &mut *ATTACHED.volumes.get() };
    attached.retain(|other| other.strong_count() > 0);
    if !attached
        .iter()
        .any(|other| ptr::eq(other.as_ptr(), Arc::as_ptr(&volume)))
    {
        attached.push(Arc::downgrade(&volume));
    }
    Ok((volume, Process(page.load(Ordering::Relaxed))))
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
    unsafe { libc::pthread_mutex_lock(ATTACHED.lock.get()) };
}

extern "C" fn give() {
    // SAFETY: held by this thread, or by the one that this one is the copy of.
    unsafe { libc::pthread_mutex_unlock(ATTACHED.lock.get()) };
}

extern "C" fn child() {
    begin_in_child();
    give();
}

/// Only stores. Under the lock.
fn begin_in_child() {
    // SAFETY: under the lock; and a volume with holders is alive. Not upgraded: the last holder may be a thread that
    // does not exist here.
    unsafe {
        let attached = &*ATTACHED.volumes.get();
        for volume in attached.iter().filter(|volume| volume.strong_count() > 0) {
            (*volume.as_ptr()).after_fork_in_child();
        }
    }
    if let Some(page) = PAGE.get() {
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        page.store(number, Ordering::Relaxed);
    }
}

fn prepare() -> io::Result<&'static AtomicU64> {
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
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    page.store(number, Ordering::Relaxed);
    Ok(PAGE.get_or_init(|| page))
}

fn map_page() -> io::Result<&'static AtomicU64> {
    // The kernel makes a page of it.
    let bytes = size_of::<AtomicU64>();
    // SAFETY: a new mapping, of a place that the kernel chooses, zeroed and never unmapped.
    unsafe {
        let start = libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if start == libc::MAP_FAILED || libc::madvise(start, bytes, libc::MADV_WIPEONFORK) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(&*start.cast())
    }
}
