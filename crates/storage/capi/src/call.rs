//! The border: errno, messages, panics.

use egeria_client::Error;
use libc::c_int;
use std::cell::RefCell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// What [`crate::egeria_message`] shows.
    pub(crate) static LAST_MESSAGE: RefCell<CString> = RefCell::new(CString::default());
}

/// An error of a call: an errno and its message.
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

/// Run the body of a function; `failed` is the return value on an error.
pub(crate) fn call<T>(failed: T, body: impl FnOnce() -> Answer<T>) -> T {
    let answer = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        // The panic's payload may panic again when it is dropped.
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

/// An offset that a caller gives.
pub(crate) fn offset(offset: libc::off_t) -> Answer<u64> {
    u64::try_from(offset).map_err(|_| failure(libc::EINVAL, "the offset is negative"))
}
