//! Log lines of requests that are answered with `EIO`: which operation, on what, and why. A program gets only the
//! number, and the operator should know of damage that no program reports.
//!
//! Programs may try again without end, so the number of lines per interval is limited. Further ones are counted, and
//! the count is logged.
//!
//! A request that finds no space, or exceeds a limit of a directory tree, is logged once in a while, with what is left on
//! each node, or in each tree.

use crate::replies::request_counts::{ErrorCause, RequestCounts, RequestKind};
use egeria_engine::{Errno, FailureCause, Volume, forget_failure_cause};
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines in a [`WINDOW`].
const LINES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);
/// How often a lack of space is logged at most.
const FULL_WINDOW: Duration = Duration::from_secs(60);

/// What a request asks for, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    kind: RequestKind,
    ino: u64,
    range: Option<(u64, u64)>,
    began: Instant,
}

impl Operation {
    /// An operation that begins now, on an inode; for operations with a name, on its directory.
    pub(crate) fn of(kind: RequestKind, ino: fuser::INodeNo) -> Self {
        Operation {
            kind,
            ino: ino.0,
            range: None,
            began: Instant::now(),
        }
    }

    /// When it began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Bytes of the file that it is about.
    pub(crate) fn bytes(&self) -> u64 {
        self.range.map_or(0, |(_, bytes)| bytes)
    }

    /// Adds the range of the file to the operation.
    pub(crate) fn at(self, offset_bytes: u64, length_bytes: u64) -> Self {
        Operation {
            range: Some((offset_bytes, length_bytes)),
            ..self
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of inode {}", self.kind.name(), self.ino)?;
        match self.range {
            Some((offset, length)) => write!(formatter, ", {length} bytes at {offset}"),
            None => Ok(()),
        }
    }
}

thread_local! {
    /// The request under way was answered with `EIO`.
    static ANSWERED: Cell<bool> = const { Cell::new(false) };
    /// It was answered with `ENOSPC`.
    static FULL: Cell<bool> = const { Cell::new(false) };
    /// It was answered with `EDQUOT`.
    static OVER_LIMIT: Cell<bool> = const { Cell::new(false) };
    /// Another thread continues it.
    static HANDED_ON: Cell<bool> = const { Cell::new(false) };
}

/// Note that the request under way is answered with `EIO`.
pub(crate) fn note_answer() {
    ANSWERED.set(true);
}

/// Note that the request under way is answered with `ENOSPC`.
pub(crate) fn note_full() {
    FULL.set(true);
}

/// Note that the request under way is answered with `EDQUOT`.
pub(crate) fn note_over_limit() {
    OVER_LIMIT.set(true);
}

/// Note that another thread continues the request under way, and answers it.
pub(crate) fn note_handed_on() {
    HANDED_ON.set(true);
}

/// Lines in the window that is under way.
struct Window {
    began: Instant,
    lines: u32,
    left_out: u64,
}

/// The log of requests that failed, and the counts of all.
pub(crate) struct Failures {
    window: Mutex<Window>,
    counts: Arc<RequestCounts>,
    /// When a lack of space was logged last.
    full: Mutex<Option<Instant>>,
    /// When a limit of a directory tree was logged last.
    over_limit: Mutex<Option<Instant>>,
}

/// What is to be logged now.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    /// Lines left out in the window that is over.
    left_out: u64,
    /// Whether the line is logged, and is the last one of the window.
    line: Option<bool>,
}

impl Failures {
    pub(crate) fn new(counts: Arc<RequestCounts>) -> Self {
        let window = Mutex::new(Window {
            began: Instant::now(),
            lines: 0,
            left_out: 0,
        });
        Failures {
            window,
            counts,
            full: Mutex::new(None),
            over_limit: Mutex::new(None),
        }
    }

    /// Serve a request. A panic in it drops the reply unsent, which fuser answers with `EIO`.
    pub(crate) fn watch(&self, volume: &Volume, operation: Operation, serve: impl FnOnce()) {
        forget_failure_cause();
        ANSWERED.set(false);
        FULL.set(false);
        OVER_LIMIT.set(false);
        HANDED_ON.set(false);
        match catch_unwind(AssertUnwindSafe(serve)) {
            Ok(()) if !ANSWERED.get() => {}
            Ok(()) => self.log(operation, &Reason::Cause(volume.failure_cause())),
            Err(panic) => self.log(operation, &Reason::Panic(text_of(&*panic))),
        }
        // A long extended attribute is answered so, too, whatever is left.
        if FULL.get() && operation.kind != RequestKind::Setxattr {
            self.log_full(volume, operation);
        }
        if OVER_LIMIT.get() {
            self.log_over_limit(volume, operation);
        }
        if !HANDED_ON.get() {
            self.counts.count(operation.kind, operation.began.elapsed());
        }
    }

    /// Log a request that was answered with `EIO` because no thread could be started for it.
    pub(crate) fn log_without_thread(&self, operation: Operation, error: &std::io::Error) {
        self.log(operation, &Reason::NoThread(error));
        self.counts.count(operation.kind, operation.began.elapsed());
    }

    /// Log how many lines were left out, once the window is over.
    pub(crate) fn log_left_out(&self) {
        let mut window = self.locked();
        if window.left_out > 0 {
            let due = window.due_at(Instant::now(), false);
            drop(window);
            log_count(due.left_out);
        }
    }

    /// Log how many lines were left out, even if the window is not over: the mount ends.
    pub(crate) fn log_all_left_out(&self) {
        log_count(std::mem::take(&mut self.locked().left_out));
    }

    /// Log that stores through a mapping could not be written: the program that made them may have ended.
    pub(crate) fn log_lost_stores(&self, operation: Operation, errno: Errno) {
        // `EIO` is logged with its cause, as for every request.
        if errno != Errno(libc::EIO) {
            let reason = rustix::io::Errno::from_raw_os_error(errno.0);
            self.log_line(&format!(
                "{operation}, which programs stored through a mapping, are lost: {reason}; their fsync or msync says so"
            ));
        }
    }

    #[cold]
    fn log_over_limit(&self, volume: &Volume, operation: Operation) {
        if is_due(&self.over_limit) {
            tracing::warn!(
                "{operation} exceeds a limit: {}; remove files, or raise it with `egeria quota set`",
                volume.quotas_left()
            );
        }
    }

    #[cold]
    fn log_full(&self, volume: &Volume, operation: Operation) {
        if is_due(&self.full) {
            tracing::warn!(
                "{operation} found no space: {}; remove files, or add a pool with `egeria pool add`",
                volume.space_left()
            );
        }
    }

    fn log(&self, operation: Operation, reason: &Reason<'_>) {
        self.counts.count_error(reason.cause());
        self.log_line(&format!("{operation} was answered with EIO: {reason}"));
    }

    fn log_line(&self, line: &str) {
        let due = self.locked().due_at(Instant::now(), true);
        log_count(due.left_out);
        match due.line {
            Some(false) => tracing::error!("{line}"),
            Some(true) => tracing::error!(
                "{line}; no more such lines for up to {} s, they are counted",
                WINDOW.as_secs()
            ),
            None => {}
        }
    }

    fn locked(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    /// What is due now, with one more line or none.
    fn due_at(&mut self, now: Instant, more: bool) -> Due {
        let mut left_out = 0;
        if now.duration_since(self.began) >= WINDOW {
            left_out = self.left_out;
            *self = Window {
                began: now,
                lines: 0,
                left_out: 0,
            };
        }
        let line = if !more {
            None
        } else if self.lines < LINES {
            self.lines += 1;
            Some(self.lines == LINES)
        } else {
            self.left_out += 1;
            None
        };
        Due { left_out, line }
    }
}

/// Whether the last line of this kind was logged long ago; then this one is logged now.
fn is_due(last: &Mutex<Option<Instant>>) -> bool {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = last.is_none_or(|last| last.elapsed() >= FULL_WINDOW);
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
}

fn log_count(left_out: u64) {
    if left_out > 0 {
        tracing::error!("{left_out} more requests failed so, and their lines were left out");
    }
}

enum Reason<'a> {
    Cause(Option<FailureCause>),
    Panic(&'a str),
    NoThread(&'a std::io::Error),
}

impl Reason<'_> {
    fn cause(&self) -> ErrorCause {
        match self {
            Reason::Cause(cause) => (*cause).into(),
            Reason::Panic(_) => ErrorCause::Panic,
            Reason::NoThread(_) => ErrorCause::NoThread,
        }
    }
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Cause(Some(cause)) => write!(formatter, "{cause}"),
            Reason::Cause(None) => write!(
                formatter,
                "the cause is not known; `egeria scrub` names damaged files"
            ),
            Reason::Panic(text) => write!(
                formatter,
                "a panic ({text}), which is an error of Egeria; please report it"
            ),
            Reason::NoThread(error) => write!(
                formatter,
                "no thread could be started ({error}); raise the limit of processes (ulimit -u)"
            ),
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_of_failures_is_counted_instead_of_logged() {
        let began = Instant::now();
        let mut window = Window {
            began,
            lines: 0,
            left_out: 0,
        };
        let logged = (0..1000).filter(|_| window.due_at(began, true).line.is_some());
        assert_eq!(logged.count(), LINES as usize);
        assert_eq!(window.left_out, 1000 - u64::from(LINES));
        let later = began + WINDOW;
        let due = window.due_at(later, true);
        assert_eq!(due.left_out, 1000 - u64::from(LINES));
        assert_eq!(due.line, Some(false));
        assert_eq!(window.due_at(later + WINDOW, false).left_out, 0);
    }

    #[test]
    fn a_line_names_operation_place_and_panic() {
        let operation = Operation::of(RequestKind::Read, fuser::INodeNo(7)).at(4096, 100);
        assert_eq!(operation.to_string(), "read of inode 7, 100 bytes at 4096");
        let panic = catch_unwind(|| panic!("of {}", "mine")).unwrap_err();
        assert_eq!(text_of(&*panic), "of mine");
    }
}
