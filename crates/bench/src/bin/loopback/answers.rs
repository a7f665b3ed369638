//! Replies to requests.

use crate::convert::errno;
use crate::files::{Answer, GENERATION, KEPT};
use fuser::{FileAttr, FileHandle, FopenFlags, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyOpen};

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
