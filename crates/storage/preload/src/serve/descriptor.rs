//! The way from a hook into the engine and back (invariant 5: the host must not notice).
//!
//! Inside, the thread's hooks go straight to the kernel and the program's handlers wait; `errno` is
//! kept on success; a panic of the engine ends here and the call passes to the kernel.

use super::bracket::in_call;
use super::identify::{Identified, identify};
use super::ownership;
use crate::bare_calls::{self, signs};
use crate::description::pin::Pin;
use crate::description::record::{Record, may_any_be_deferred};
use crate::description::reply::Reply;
use crate::descriptors::offset::publish_record;
use crate::descriptors::table::{self, Tag, Word};
use crate::descriptors::{late_open, reclaim};
use crate::system::{errno, libc_threads};
use crate::thread::{self, Thread, process};
use crate::trust::{Place, settings};
use libc::c_int;
use std::sync::atomic::{Ordering, compiler_fence};

/// Run `body` on the record of a descriptor. `None`: not ours, or not for us: call the real function.
#[inline(always)]
pub fn serve(fd: c_int, body: impl FnOnce(&Record) -> Reply) -> Option<isize> {
    let thread = thread::current();
    let word = table::load(fd);
    let (word, pin) = ready(thread, fd, word)?;
    run(thread, pin, fd, word, body)
}

/// The short way of calls that nearly always go well: `body` touches no `errno`, needs little of
/// the caller's stack and cannot panic; `None` from it, or from here, means that nothing happened and [`serve`] is to follow.
#[inline(always)]
pub fn serve_quickly(fd: c_int, body: impl FnOnce(&Record) -> Option<usize>) -> Option<isize> {
    let thread = thread::current();
    let place = table::first_place(fd)?;
    let word = Word::at(place);
    let pin = thread.pin()?;
    let usual = table::may_use(thread, fd, word)
        && thread.gate.load(Ordering::Relaxed) == 0
        && pin.thread.load(Ordering::Relaxed) != 0;
    if !usual {
        return None;
    }
    libc_threads::end_if_cancelled();
    // No other bit is set.
    thread.gate.store(thread::INSIDE, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let done = if pin.hold(fd, word.record(), || Word::at(place) == word) {
        // SAFETY: pinned, and named by the table after it was pinned.
        body(unsafe { &*word.record() })
    } else {
        None
    };
    pin.let_go();
    thread.close_pools();
    compiler_fence(Ordering::SeqCst);
    thread.gate.store(0, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    thread.deliver();
    done.map(|bytes| bytes as isize)
}

/// As [`serve`], for calls that are cancellation points.
#[inline(always)]
pub fn serve_cancellable(fd: c_int, body: impl FnOnce(&Record) -> Reply) -> Option<isize> {
    let thread = thread::current();
    let word = table::load(fd);
    let (word, pin) = ready(thread, fd, word)?;
    // Nothing is held yet.
    libc_threads::end_if_cancelled();
    run(thread, pin, fd, word, body)
}

/// Run `body` on the record if the descriptor is known to be ours; nothing is counted.
pub fn quietly(fd: c_int, body: impl FnOnce(&Record)) {
    let thread = thread::current();
    let word = table::load(fd);
    if !word.is_ours() {
        return;
    }
    let Some((word, pin)) = ready(thread, fd, word) else {
        return;
    };
    let same = |pinned: &Word| pinned.record() == word.record();
    let hold = || pin_record(thread, pin, fd, word).filter(same);
    in_call(thread, pin, hold, |pinned| {
        // SAFETY: pinned, and named by the table after it was pinned.
        body(unsafe { &*pinned.record() });
        None
    });
}

/// Run `body` on the record of a number, if it is a file of ours, while nobody closes the number; also when the library is
/// off. By a thread that is inside and in no call, while no record is freed.
pub fn while_open(thread: &Thread, fd: c_int, body: impl FnOnce(&Record)) {
    let live = |pin: &&Pin| pin.thread.load(Ordering::Relaxed) != 0;
    let pin = thread.pin().filter(live).or_else(|| reclaim::take(thread));
    let word = match pin {
        Some(pin) => pin_changed(thread, pin, fd),
        // No pins left: better at the risk of a close than not at all.
        None => Some(table::load(fd)).filter(|word| word.is_ours()),
    };
    if let Some(word) = word {
        // SAFETY: named by the table when looked at, and not freed meanwhile.
        body(unsafe { &*word.record() });
    }
    if let Some(pin) = pin {
        pin.let_go();
    }
}

/// As [`while_open`], also while records are freed, and by a thread that may be in a call. `body` cannot panic.
pub fn while_used(fd: c_int, body: impl FnOnce(&Record)) {
    let thread = thread::current();
    let is_free = |pin: &&Pin| pin.thread.load(Ordering::Relaxed) != 0 && !pin.is_in_any_call();
    if thread.pin().is_some_and(|pin| is_free(&pin)) {
        return while_open(thread, fd, body);
    }
    reclaim::while_none_is_freed(|| {
        let word = table::load(fd);
        if word.is_ours() {
            // SAFETY: named by the table, and not freed meanwhile.
            body(unsafe { &*word.record() });
        }
    });
}

/// The descriptor's word, ours for sure, and the thread's pin.
#[inline(always)]
fn ready(thread: &Thread, fd: c_int, word: Word) -> Option<(Word, &'static Pin)> {
    let pin = thread.pin();
    if table::may_use(thread, fd, word)
        && thread.gate.load(Ordering::Relaxed) == 0
        && let Some(pin) = pin
        && pin.thread.load(Ordering::Relaxed) != 0
    {
        return Some((word, pin));
    }
    if word.tag() == Tag::NotOurs {
        return None;
    }
    make_ready(thread, fd)
}

#[cold]
#[inline(never)]
fn make_ready(thread: &Thread, fd: c_int) -> Option<(Word, &'static Pin)> {
    if thread.has(thread::INSIDE | thread::FORKING) {
        return None;
    }
    if settings::is_off() {
        table::wait_while_handed_over(fd);
        return None;
    }
    if thread.has(thread::VFORK) && process::in_vfork_child(thread) {
        return None;
    }
    let pin = thread.pin();
    let known = pin.filter(|pin| pin.thread.load(Ordering::Relaxed) != 0);
    if known.is_none() && !ownership::owns_tables() {
        return None;
    }
    look_for_signs(|| may_be_served(fd));
    let word = loop {
        let word = settled(fd);
        if table::may_use(thread, fd, word) {
            break word;
        }
        if word.is_ours() && bare_calls::may_happen() {
            if still_means(thread, fd, word) {
                break word;
            } else {
                forget(fd, word)
            }
            continue;
        }
        if word.is_ours() {
            table::share(fd, word);
            continue;
        }
        if word.tag() == Tag::NotOurs || word.tag() == Tag::Closing {
            return None;
        }
        match identify(thread, fd, word) {
            Identified::NotNow => return None,
            Identified::LookAgain => {}
            Identified::Shared => share(fd),
        }
    };
    let pin = match known {
        Some(pin) => pin,
        None => reclaim::take(thread).or_else(|| {
            open_unpinned(fd, word);
            None
        })?,
    };
    Some((word, pin))
}

/// Before a file of a volume is opened or used: look whether calls may go past the library, where objects are new. All code
/// of the program is read then, so it is not looked for what is on no volume, as `may_be_on_volume` says.
#[inline(always)]
pub fn look_for_signs(may_be_on_volume: impl FnOnce() -> bool) {
    if signs::is_due() && !bare_calls::may_happen() && signs::are_new(may_be_on_volume) {
        expect_bare_calls();
    }
}

/// Whether a number is in the table, or is a regular file of a mount that may be one of ours.
fn may_be_served(fd: c_int) -> bool {
    let error = errno::get();
    let is_on_mount = || Place::of_regular_file(fd).is_some_and(|place| place.is_trusted(fd));
    let may_be = table::load(fd).is_ours() || thread::inside(is_on_mount);
    errno::set(error);
    may_be
}

/// From now on the kernel opens all files and has all positions, and every call looks at what its number means.
#[cold]
pub fn expect_bare_calls() {
    if settings::is_off() || bare_calls::expect() {
        return;
    }
    late_open::end();
    process::count_share();
    publish_all();
    open_all_in_kernel();
    table::distrust_all();
}

/// The number means another file, or none.
fn forget(fd: c_int, word: Word) {
    if table::replace(fd, word, word.renewed(Tag::Unknown, 0)) {
        reclaim::drop_reference(word);
    }
}

/// Whether the kernel has the file of a word under its number.
#[cold]
fn still_means(thread: &Thread, fd: c_int, word: Word) -> bool {
    let mut means = false;
    let look = |record: *mut Record| {
        // SAFETY: named by the table when looked at, and not freed meanwhile.
        bare_calls::means(fd, unsafe { &*record })
    };
    thread::inside(|| {
        let is_live = |pin: &&Pin| pin.thread.load(Ordering::Relaxed) != 0;
        match thread.pin().filter(is_live) {
            Some(pin) => {
                let is_held = pin.hold(fd, word.record(), || table::load(fd) == word);
                means = is_held && look(word.record());
                pin.let_go();
            }
            None => reclaim::while_none_is_freed(|| {
                means = table::load(fd) == word && look(word.record());
            }),
        }
    });
    means
}

/// No call can be served in this thread, and the kernel must be able to.
fn open_unpinned(fd: c_int, word: Word) {
    thread::inside(|| {
        reclaim::while_none_is_freed(|| {
            if table::load(fd).is_same_file(word) {
                // SAFETY: named by the table, and not freed meanwhile.
                let _ = late_open::open_in_kernel(unsafe { &*word.record() }, fd);
            }
        });
    });
}

/// The number's word when another thread's close of it is over.
fn settled(fd: c_int) -> Word {
    const ROUNDS: u32 = 1200;
    let mut round = 0;
    loop {
        let word = table::load(fd);
        if word.tag() != Tag::Closing || word.closed_by_caller() || round > ROUNDS {
            return word;
        }
        crate::sync::pause(&mut round);
    }
}

/// Name the record in the pin: the word that it is used by; `None` when the number is no file of ours any more.
#[inline(always)]
fn pin_record(thread: &Thread, pin: &Pin, fd: c_int, word: Word) -> Option<Word> {
    if pin.hold(fd, word.record(), || table::load(fd) == word) {
        Some(word)
    } else {
        pin_changed(thread, pin, fd)
    }
}

/// The number means another file by now, or more threads use it.
#[cold]
fn pin_changed(thread: &Thread, pin: &Pin, fd: c_int) -> Option<Word> {
    loop {
        let word = table::load(fd);
        if !word.is_ours() {
            return None;
        }
        if !table::may_use(thread, fd, word) {
            if bare_calls::may_happen() {
                // This word was not looked at: the kernel serves the call.
                return None;
            }
            table::share(fd, word);
            continue;
        }
        if pin.hold(fd, word.record(), || table::load(fd) == word) {
            return Some(word);
        }
    }
}

#[inline(always)]
fn run(
    thread: &Thread,
    pin: &'static Pin,
    fd: c_int,
    word: Word,
    body: impl FnOnce(&Record) -> Reply,
) -> Option<isize> {
    in_call(
        thread,
        pin,
        || pin_record(thread, pin, fd, word),
        |word| {
            // SAFETY: pinned, and named by the table after it was pinned.
            let record = unsafe { &*word.record() };
            let reply = if record.is_path() {
                Reply::Pass
            } else {
                body(record)
            };
            let reply = in_kernel(record, fd, reply);
            if reply.is_by_kernel() {
                record.count_passed();
            } else {
                record.count_direct();
            }
            Some(reply)
        },
    )
}

/// What is passed on must be open in the kernel.
#[inline(always)]
fn in_kernel(record: &Record, fd: c_int, reply: Reply) -> Reply {
    match reply {
        Reply::Pass if record.is_deferred() => match late_open::open_in_kernel(record, fd) {
            Ok(()) => Reply::Pass,
            Err(errno) => Reply::Fails(errno),
        },
        reply => reply,
    }
}

/// The kernel is about to be asked about the number: have it open the file.
#[inline]
pub fn open_in_kernel(fd: c_int) {
    // Where that fails, the call on the placeholder does, too.
    let _ = try_open_in_kernel(fd);
}

/// The same.
///
/// # Errors
/// The errno of the open; the mount may be gone.
#[inline]
pub fn try_open_in_kernel(fd: c_int) -> Result<(), c_int> {
    let mut outcome = Ok(());
    if may_any_be_deferred() {
        quietly(fd, |record| outcome = late_open::open_in_kernel(record, fd));
    }
    outcome
}

/// Whether the number is a regular file of ours, open for data, that the kernel has not opened.
#[inline]
pub fn is_deferred(fd: c_int) -> bool {
    let mut is_deferred = false;
    if may_any_be_deferred() {
        quietly(fd, |record| {
            is_deferred = record.is_deferred() && !record.is_directory() && !record.is_path();
        });
    }
    is_deferred
}

/// Have the kernel open the files of all numbers.
pub fn open_all_in_kernel() {
    if may_any_be_deferred() {
        table::for_each_ours(|fd, _| open_in_kernel(fd));
    }
}

/// The number's offset goes to the kernel, which is about to use it; it also gets none later.
pub fn publish(fd: c_int) {
    if settings::is_off() {
        return;
    }
    let word = table::load(fd);
    if word.is_ours() {
        return quietly(fd, |record| publish_record(record, fd));
    }
    let unknown = word.learned(Tag::Unknown, std::ptr::null_mut());
    if word.tag() == Tag::Fresh && ownership::owns_tables() && !table::replace(fd, word, unknown) {
        publish(fd);
    }
}

/// As [`publish`], when the kernel has the file open.
pub fn publish_if_open(fd: c_int) {
    quietly(fd, |record| {
        if !record.is_deferred() {
            publish_record(record, fd);
        }
    });
}

/// As [`publish`], and other processes may get the description.
pub fn share(fd: c_int) {
    publish(fd);
    if table::load(fd).is_ours() {
        quietly(fd, Record::mark_shared);
    }
}

/// All descriptors of this process become shared.
pub fn publish_all() {
    table::for_each_ours(|fd, _| share(fd));
}
