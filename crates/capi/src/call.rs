//! The border: errno, messages, panics, handles and strings of callers.

use egeria_client::Error;
use libc::{c_char, c_int};
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

thread_local! {
    /// What [`crate::egeria_message`] shows.
    pub(crate) static LAST_MESSAGE: RefCell<CString> = RefCell::new(CString::default());
}

/// What a call fails with: an errno, and what is said of it.
pub(crate) struct Failure(c_int, String);

pub(crate) type Answer<T> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure(error.errno(), error.message().to_owned())
    }
}

/// A failure that is found here.
pub(crate) fn failure(errno: c_int, message: &str) -> Failure {
    Failure(errno, message.to_owned())
}

/// Do what a function does; `failed` is what it returns when that fails.
pub(crate) fn call<T>(failed: T, body: impl FnOnce() -> Answer<T>) -> T {
    let answer = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        // What was thrown may throw again when it is dropped.
        std::mem::forget(panic);
        Err(failure(
            libc::EIO,
            "a defect of libegeria stopped this call; please report what stderr says",
        ))
    });
    answer.unwrap_or_else(|Failure(errno, message)| {
        let message = CString::new(message.replace('\0', "?")).unwrap_or_default();
        let _ = LAST_MESSAGE.try_with(|last| last.replace(message));
        // SAFETY: the errno of this thread.
        unsafe { *libc::__errno_location() = errno };
        failed
    })
}

/// What a handle points to. Each kind has a mark of its own.
pub(crate) trait Handle {
    const MARK: u64;
}

/// What is really there: the mark first, so that a handle of another kind is told by its first word.
#[repr(C)]
struct Marked<T> {
    mark: u64,
    handle: T,
}

/// What a handle means.
///
/// # Safety
/// It is NULL, or points to a handle of this library that nobody closes meanwhile.
pub(crate) unsafe fn borrow<'a, T: Handle>(handle: *const T) -> Answer<&'a T> {
    let marked = handle.cast::<Marked<T>>();
    check(marked)?;
    // SAFETY: it is of this kind, and alive.
    Ok(unsafe { &(*marked).handle })
}

/// Take a handle out of the caller's hands.
///
/// # Safety
/// As `borrow`, and nobody uses it afterwards.
pub(crate) unsafe fn reclaim<T: Handle>(handle: *mut T) -> Answer<T> {
    let marked = handle.cast::<Marked<T>>();
    check(marked)?;
    // SAFETY: made by `hand_out`; the mark goes, so that using it once more is found out as long as its memory stays.
    unsafe {
        marked.cast::<u64>().write_volatile(0);
        Ok(Box::from_raw(marked).handle)
    }
}

/// Give a handle to the caller.
pub(crate) fn hand_out<T: Handle>(handle: T) -> *mut T {
    let mark = T::MARK;
    Box::into_raw(Box::new(Marked { mark, handle })).cast()
}

fn check<T: Handle>(marked: *const Marked<T>) -> Answer<()> {
    if marked.is_null() || !marked.is_aligned() {
        return Err(failure(libc::EINVAL, "the handle is NULL or no handle"));
    }
    // SAFETY: a handle, whose first word says which one.
    match unsafe { marked.cast::<u64>().read_volatile() } == T::MARK {
        true => Ok(()),
        false => Err(failure(
            libc::EBADF,
            "the handle is of another kind, or was closed",
        )),
    }
}

/// A path that a caller gives.
///
/// # Safety
/// NULL, or a string that ends.
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Answer<&'a Path> {
    if path.is_null() {
        return Err(failure(libc::EINVAL, "the path is NULL"));
    }
    // SAFETY: a string that ends, as the caller promises.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Write a result.
///
/// # Safety
/// NULL, or memory for one.
pub(crate) unsafe fn put<T>(result: *mut T, value: T) -> Answer<()> {
    if result.is_null() || !result.is_aligned() {
        return Err(failure(libc::EINVAL, "there is no place for the result"));
    }
    // SAFETY: memory for it, as the caller promises.
    unsafe { result.write(value) };
    Ok(())
}

/// An offset that a caller gives.
pub(crate) fn offset(offset: libc::off_t) -> Answer<u64> {
    u64::try_from(offset).map_err(|_| failure(libc::EINVAL, "the offset is negative"))
}
