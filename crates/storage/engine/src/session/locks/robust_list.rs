//! Taking and giving back a free mutex without a call of glibc: a short write spends an eighth of its instructions there.
//! Both do what glibc does, on the same words. So such a lock may be waited for, and given back, by glibc.
//!
//! ```text
//! take: pending = mutex; lock: 0 → thread; into the list; pending = none
//! give: pending = mutex; out of the list; lock: thread → 0, wake a waiter; pending = none
//! ```
//! The list is the kernel's: it marks what is in it, or pending, when the thread dies. glibc's layout of a mutex is part
//! of its ABI. It is compared with what glibc does before it is used ([`prepare`]); if it differs, glibc is called.

use super::lock::RobustMutex;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering, compiler_fence};

/// A mutex as glibc has it in memory.
#[repr(C)]
struct Parts {
    /// Kernel id of the thread that holds it, and flags.
    lock: AtomicU32,
    count: AtomicU32,
    owner: AtomicU32,
    users: AtomicU32,
    kind: AtomicU32,
    spins: AtomicU32,
    previous: AtomicPtr<Link>,
    next: Link,
}

/// The `next` of a mutex in the list.
type Link = AtomicPtr<u8>;

/// In `lock`: threads wait.
const WAITERS: u32 = 1 << 31;
/// In a link: not part of the address.
const FLAG: usize = 1;
/// Bytes from the `previous` of a mutex to its link.
const PREVIOUS_BYTES: usize = size_of::<usize>();

/// The kernel's `struct robust_list_head` of a thread.
#[repr(C)]
pub(crate) struct RobustList {
    first: Link,
    /// From a link to the word that the kernel looks at.
    word_bytes: isize,
    pending: AtomicPtr<Link>,
}

const WORD_BYTES: isize = -(std::mem::offset_of!(Parts, next) as isize);

/// A mutex taken by [`take`], and what was in front of the list before.
#[derive(Clone, Copy)]
pub(crate) struct Taken<'a> {
    list: &'a RobustList,
    before: *mut u8,
}

/// Bytes from a thread's pointer to its list, if the layout is as expected. Found once: later a program may have
/// forbidden itself the system call.
static LIST_AT: OnceLock<Option<usize>> = OnceLock::new();

/// Compare the layout with what glibc does; not in a signal handler.
pub(crate) fn prepare() {
    LIST_AT.get_or_init(|| {
        let list = list_of_kernel().filter(|list| is_as_expected(list))?;
        Some(
            std::ptr::from_ref(list)
                .addr()
                .wrapping_sub(thread_pointer()),
        )
    });
}

/// The calling thread's list, if it can be used.
pub(crate) fn of_this_thread() -> Option<&'static RobustList> {
    let at = (*LIST_AT.get()?)?;
    let list = std::ptr::with_exposed_provenance::<RobustList>(thread_pointer().wrapping_add(at));
    // SAFETY: at the same place in the memory of every thread, which lives as long as the thread.
    let list = unsafe { &*list };
    (list.word_bytes == WORD_BYTES).then_some(list)
}

#[inline(always)]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the first word of the thread's own memory holds its address.
    unsafe {
        std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(pure, nomem, nostack, preserves_flags));
    }
    pointer
}

fn list_of_kernel() -> Option<&'static RobustList> {
    let (mut head, mut bytes) = (null_mut::<RobustList>(), 0usize);
    // SAFETY: stores address and length in the two places.
    let asked =
        unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut bytes) };
    if asked != 0 || head.is_null() || bytes != size_of::<RobustList>() {
        return None;
    }
    // SAFETY: what libc registered for this thread; it lies in the thread's own memory and lives as long as the thread.
    let list = unsafe { &*head };
    (list.word_bytes == WORD_BYTES).then_some(list)
}

fn is_as_expected(list: &RobustList) -> bool {
    let mutex = RobustMutex::new();
    let parts = parts_of(&mutex);
    let first = list.first.load(Ordering::Relaxed);
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let is_empty = || {
        let lock = [&parts.lock, &parts.owner, &parts.users];
        let lock_is_empty = lock.iter().all(|word| word.load(Ordering::Relaxed) == 0);
        lock_is_empty
            && parts.previous.load(Ordering::Relaxed).is_null()
            && parts.next.load(Ordering::Relaxed).is_null()
            && list.first.load(Ordering::Relaxed) == first
            && list.pending.load(Ordering::Relaxed).is_null()
    };
    let is_taken = || {
        let lock = [&parts.lock, &parts.count, &parts.owner, &parts.users];
        lock.map(|word| word.load(Ordering::Relaxed)) == [thread, 1, thread, 1]
            && parts.previous.load(Ordering::Relaxed) == previous_of(list)
            && parts.next.load(Ordering::Relaxed) == first
            && list.first.load(Ordering::Relaxed) == link_of(parts).cast()
            && list.pending.load(Ordering::Relaxed).is_null()
    };
    if mutex.try_lock().is_err() {
        return false;
    }
    let by_libc = is_taken();
    mutex.unlock();
    by_libc && is_empty()
}

#[inline(always)]
fn parts_of(mutex: &RobustMutex) -> &Parts {
    const { assert!(size_of::<Parts>() <= size_of::<RobustMutex>()) };
    const { assert!(align_of::<Parts>() <= align_of::<RobustMutex>()) };
    // SAFETY: inside the mutex and aligned; all words are changed atomically, by glibc, the kernel and us.
    unsafe { &*std::ptr::from_ref(mutex).cast() }
}

#[inline(always)]
fn link_of(parts: &Parts) -> *mut Link {
    (&raw const parts.next).cast_mut()
}

#[inline(always)]
fn previous_of(list: &RobustList) -> *mut Link {
    (&raw const list.first).cast_mut()
}

/// The `previous` of what a link leads to: of a mutex, or of the list itself, where libc has one, too.
#[inline(always)]
fn previous_behind(link: *mut u8) -> *const AtomicPtr<Link> {
    link.map_addr(|at| at & !FLAG)
        .wrapping_sub(PREVIOUS_BYTES)
        .cast_const()
        .cast()
}

/// Take a free mutex; `thread`: the kernel's id of the calling thread, whose list this is. `None`: call glibc.
#[inline(always)]
pub(crate) fn take<'a>(
    mutex: &RobustMutex,
    list: &'a RobustList,
    thread: u32,
) -> Option<Taken<'a>> {
    let parts = parts_of(mutex);
    // Its kind was set, and nothing is to be done first.
    if parts.kind.load(Ordering::Relaxed) == 0 || parts.lock.load(Ordering::Relaxed) != 0 {
        return None;
    }
    list.pending.store(link_of(parts), Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let (taken, failed) = (Ordering::Acquire, Ordering::Relaxed);
    if parts
        .lock
        .compare_exchange(0, thread, taken, failed)
        .is_err()
    {
        list.pending.store(null_mut(), Ordering::Relaxed);
        return None;
    }
    if parts.owner.load(Ordering::Relaxed) != 0 {
        // It cannot be used any more, as glibc will say.
        return leave(parts, list);
    }
    let before = list.first.load(Ordering::Relaxed);
    // SAFETY: what is in front of this thread's list is a mutex that it holds, or the list itself.
    unsafe { &*previous_behind(before) }.store(link_of(parts), Ordering::Relaxed);
    parts.next.store(before, Ordering::Relaxed);
    parts.previous.store(previous_of(list), Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    list.first.store(link_of(parts).cast(), Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    list.pending.store(null_mut(), Ordering::Relaxed);
    parts.count.store(1, Ordering::Relaxed);
    parts.owner.store(thread, Ordering::Relaxed);
    parts.users.store(1, Ordering::Relaxed);
    Some(Taken { list, before })
}

#[cold]
#[inline(never)]
fn leave<'a>(parts: &Parts, list: &RobustList) -> Option<Taken<'a>> {
    unlock(parts);
    list.pending.store(null_mut(), Ordering::Relaxed);
    None
}

/// Give back what [`take`] took.
#[inline(always)]
pub(crate) fn give(mutex: &RobustMutex, taken: Taken<'_>) {
    let (parts, list) = (parts_of(mutex), taken.list);
    let is_first = list.first.load(Ordering::Relaxed) == link_of(parts).cast();
    if !is_first || parts.next.load(Ordering::Relaxed) != taken.before {
        // Another one was taken later, or given back before: glibc follows the links.
        return mutex.unlock();
    }
    list.pending.store(link_of(parts), Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    // SAFETY: it was in front of the list before, and still follows.
    unsafe { &*previous_behind(taken.before) }.store(previous_of(list), Ordering::Relaxed);
    list.first.store(taken.before, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    parts.previous.store(null_mut(), Ordering::Relaxed);
    parts.next.store(null_mut(), Ordering::Relaxed);
    parts.owner.store(0, Ordering::Relaxed);
    parts.users.store(0, Ordering::Relaxed);
    unlock(parts);
    list.pending.store(null_mut(), Ordering::Relaxed);
}

/// To be followed by the end of what is pending.
#[inline(always)]
fn unlock(parts: &Parts) {
    if parts.lock.swap(0, Ordering::Release) & WAITERS != 0 {
        wake_one(&parts.lock);
    }
    compiler_fence(Ordering::SeqCst);
}

#[cold]
#[inline(never)]
fn wake_one(word: &AtomicU32) {
    let _ = rustix::thread::futex::wake(word, rustix::thread::futex::Flags::empty(), 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::lock::{Acquired, LockFailure};

    fn thread() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    }

    fn taken(mutex: &RobustMutex) -> Taken<'static> {
        prepare();
        let list = of_this_thread().expect("glibc's layout is known");
        take(mutex, list, thread()).expect("it is free")
    }

    /// A mutex that was locked before, so that it has its kind.
    fn used() -> RobustMutex {
        let mutex = RobustMutex::new();
        assert_eq!(mutex.try_lock(), Ok(Acquired::Clean));
        mutex.unlock();
        mutex
    }

    #[test]
    fn glibc_sees_what_was_taken_and_given() {
        let mutex = used();
        let held = taken(&mutex);
        assert_eq!(mutex.holder(), thread());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| mutex.try_lock());
            assert_eq!(other.join().expect("thread"), Err(LockFailure::Busy));
        });
        give(&mutex, held);
        assert_eq!(mutex.try_lock(), Ok(Acquired::Clean));
        mutex.unlock();
    }

    #[test]
    fn each_thread_has_a_list_of_its_own() {
        prepare();
        let is_own = || {
            let known = of_this_thread().expect("glibc's layout is known");
            std::ptr::eq(known, list_of_kernel().expect("a list"))
        };
        assert!(is_own());
        std::thread::scope(|scope| assert!(scope.spawn(is_own).join().expect("thread")));
    }

    #[test]
    fn locks_of_both_kinds_end_in_any_order() {
        let (first, second, third) = (used(), used(), used());
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            let list = list_of_kernel().expect("a list");
            let before = list.first.load(Ordering::Relaxed);
            let one = taken(&first);
            assert_eq!(second.try_lock(), Ok(Acquired::Clean));
            let three = taken(&third);
            for at in order {
                match at {
                    0 => give(&first, one),
                    1 => second.unlock(),
                    _ => give(&third, three),
                }
            }
            assert_eq!(list.first.load(Ordering::Relaxed), before, "{order:?}");
            assert!(list.pending.load(Ordering::Relaxed).is_null());
        }
    }

    #[test]
    fn the_next_locker_is_told_of_a_dead_owner() {
        let mutex = used();
        std::thread::scope(|scope| {
            let owner = scope.spawn(|| taken(&mutex).before.is_null());
            owner.join().expect("thread");
        });
        assert!(mutex.is_owner_dead());
        let list = of_this_thread().expect("a list");
        assert!(take(&mutex, list, thread()).is_none());
        assert_eq!(mutex.lock(), Some(Acquired::OwnerDied));
        mutex.make_consistent();
        mutex.unlock();
    }

    #[test]
    fn what_cannot_be_used_is_not_taken() {
        let mutex = used();
        std::thread::scope(|scope| {
            let owner = scope.spawn(|| taken(&mutex).before.is_null());
            owner.join().expect("thread");
        });
        assert_eq!(mutex.lock(), Some(Acquired::OwnerDied));
        // Without `make_consistent`.
        mutex.unlock();
        let list = of_this_thread().expect("a list");
        assert!(take(&mutex, list, thread()).is_none());
        assert_eq!(mutex.holder(), 0);
        assert_eq!(mutex.try_lock(), Err(LockFailure::Unusable));
    }

    #[test]
    fn a_waiter_is_woken() {
        let mutex = used();
        let held = taken(&mutex);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let begun = std::time::Instant::now();
                let got = mutex.lock_within(std::time::Duration::from_secs(60));
                mutex.unlock();
                (got, begun.elapsed())
            });
            while parts_of(&mutex).lock.load(Ordering::Acquire) & WAITERS == 0 {
                std::thread::yield_now();
            }
            give(&mutex, held);
            let (got, taken) = waiter.join().expect("waiter");
            assert_eq!(got, Ok(Acquired::Clean));
            assert!(taken < std::time::Duration::from_secs(30));
        });
    }
}
