//! The bracket around every call that is served: inside, the thread's hooks go straight to the kernel and the
//! program's handlers wait; the body runs on a stack of the library's own; `errno` is kept where nothing fails; and a
//! panic of the engine ends here, with the call left to the kernel.

use crate::description::pin::Pin;
use crate::description::reply::Reply;
use crate::system::errno;
use crate::thread::{self, Thread};
use libc::c_int;

/// Serve a call: `hold` names in the pin what the call uses, so that it is not freed, and `body` does it. `None`: the
/// kernel is to be asked.
#[inline(always)]
pub(super) fn in_call<H>(
    thread: &Thread,
    pin: &Pin,
    hold: impl FnOnce() -> Option<H>,
    body: impl FnOnce(H) -> Option<Reply>,
) -> Option<isize> {
    thread.set(thread::INSIDE);
    let Some(held) = hold() else {
        leave(thread, pin);
        return None;
    };
    let errno_before: c_int = errno::get();
    let outcome = thread.stacks.try_run(|| body(held));
    leave(thread, pin);
    let reply = outcome.ok().flatten().unwrap_or(Reply::Pass);
    reply.publish(errno_before)
}

#[inline(always)]
fn leave(thread: &Thread, pin: &Pin) {
    pin.let_go();
    thread.leave();
}
