//! Numbers that the kernel hands out and closes.

use crate::description::record::Record;
use crate::descriptors::reclaim::{self, drop_reference};
use crate::descriptors::table::{
    Tag, Word, is_alone_with, load, place, replace, wait_while_handed_over,
};
use crate::descriptors::{late_open, placeholder};
use crate::serve::{self, ownership};
use crate::system::libc_threads;
use crate::thread::{self, process};
use crate::trust::settings;
use libc::c_int;

/// A number was just handed out by the kernel: whatever was known of it is over.
pub fn renew(fd: c_int, tag: Tag, payload: u64) {
    if fd < 0 || settings::is_off() {
        return;
    }
    note_closed(fd, fd);
    let before = load(fd);
    let idle = before.tag() == Tag::Unknown && tag == Tag::Unknown;
    if (idle && libc_threads::alone()) || !ownership::owns_tables() {
        return;
    }
    loop {
        let before = load(fd);
        if replace(fd, before, before.renewed(tag, payload)) {
            drop_reference(before);
            return;
        }
        if place(fd).is_none() {
            return;
        }
    }
}

/// These numbers are closed, or mean something else.
#[inline]
pub fn note_closed(first: c_int, last: c_int) {
    // A `vfork` child closes its own.
    if placeholder::is_among(first, last) && ownership::owns_tables() {
        placeholder::forget(first, last);
    }
}

/// A number opened by this process through a hook.
pub fn opened(fd: c_int) {
    renew(fd, Tag::Fresh, process::shares() << 3);
}

/// A number that came in some other way.
pub fn arrived(fd: c_int) {
    renew(fd, Tag::Unknown, 0);
}

/// A close under way.
pub struct Closing {
    fd: c_int,
    before: Word,
    marked: Option<Word>,
    /// No other thread ever used it.
    is_sole: bool,
}

/// Call before the kernel closes a number.
pub fn begin_close(fd: c_int) -> Closing {
    note_closed(fd, fd);
    let mut closing = Closing {
        fd,
        before: load(fd),
        marked: None,
        is_sole: false,
    };
    let idle = closing.before.tag() == Tag::Unknown && libc_threads::alone();
    let known = closing.before.tag() == Tag::Closing;
    wait_while_handed_over(fd);
    if fd < 0 || idle || known || settings::is_off() || !ownership::owns_tables() {
        return closing;
    }
    if !libc_threads::alone() {
        // The closing thread's own calls (in a handler) pass to the kernel from now on, as do those
        // that waited too long: let them find the right position there.
        serve::publish_if_open(fd);
        closing.before = load(fd);
    }
    // Another thread may begin to use it meanwhile.
    while closing.before.tag() != Tag::Closing {
        let marked = closing.before.renewed(
            Tag::Closing,
            u64::from(thread::current().id(process::owner())) << 3,
        );
        let is_sole = is_alone_with(thread::current(), fd, closing.before);
        if replace(fd, closing.before, marked) {
            closing.marked = Some(marked);
            closing.is_sole = is_sole;
            if closing.before.is_ours() && !is_sole {
                reclaim::drain(fd);
                if !libc_threads::alone() {
                    // By another number of the record, calls may go on.
                    late_open::wait_for_opener();
                }
            }
            break;
        }
        let now = load(fd);
        if !now.is_same_file(closing.before) {
            break;
        }
        closing.before = now;
    }
    closing
}

impl Closing {
    /// Whether the number is marked, and so is to be settled by one of the following.
    pub fn is_marked(&self) -> bool {
        self.marked.is_some()
    }

    /// The kernel closed it.
    pub fn done(self) {
        self.become_tag(Tag::Unknown, std::ptr::null_mut());
    }

    /// The kernel closed it and gave the number a new meaning.
    pub fn become_tag(self, tag: Tag, record: *mut Record) -> bool {
        let Some(marked) = self.marked else {
            return false;
        };
        let stored = replace(self.fd, marked, marked.renewed(tag, record as u64));
        if self.is_sole {
            reclaim::retire_sole(self.before.record());
        } else {
            drop_reference(self.before);
        }
        stored
    }

    /// The kernel refused: the number means what it meant.
    pub fn undo(self) {
        let Some(marked) = self.marked else { return };
        let before = marked.renewed(self.before.tag(), self.before.0);
        if !replace(self.fd, marked, before) {
            drop_reference(self.before);
        }
    }
}
