//! Replies to requests.

use crate::convert::errno;
use fuser::{
    FileAttr, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyOpen,
};
use rustix::io::Errno;
use std::time::Duration;

/// How long the kernel keeps names and attributes: libfuse's default.
pub(crate) const KEPT: Duration = Duration::from_secs(1);
/// Inode numbers of tmpfs are not used twice.
pub(crate) const GENERATION: Generation = Generation(0);

pub(crate) type Answer<T> = Result<T, Errno>;

pub(crate) fn answer_entry(reply: ReplyEntry, answer: Answer<FileAttr>) {
    match answer {
        Ok(facts) => reply.entry(&KEPT, &facts, GENERATION),
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn answer_attributes(reply: ReplyAttr, answer: Answer<FileAttr>) {
    match answer {
        Ok(facts) => reply.attr(&KEPT, &facts),
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn answer_opened(reply: ReplyOpen, answer: Answer<FileHandle>) {
    match answer {
        Ok(handle) => reply.opened(handle, FopenFlags::empty()),
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn answer_empty(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}
