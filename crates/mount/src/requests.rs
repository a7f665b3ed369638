//! Requests on their way: served at once, or on a thread that may wait, and answered.

use crate::adapter::Adapter;
use crate::convert::{self, Entry, NO_TIME, errno};
use crate::failures::Operation;
use crate::names::LookedUp;
use crate::open::DIRECT;
use crate::waiting;
use egeria_fs::Outcome;
use fuser::{
    FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry, ReplyOpen,
};
use std::sync::Arc;

/// The engine as fuser wants it.
pub(crate) struct Requests(pub(crate) Arc<Adapter>);

impl Requests {
    pub(crate) fn new(adapter: Adapter) -> Self {
        Requests(Arc::new(adapter))
    }

    /// Serve one request that waits for nobody.
    pub(crate) fn serve(&self, operation: Operation, body: impl FnOnce(&Adapter)) {
        let adapter = &self.0;
        adapter.leases.work_for_kernel();
        adapter.volume.count_mount_request();
        adapter
            .failures
            .watch(&adapter.volume, operation, || body(adapter));
    }

    /// Serve one request that may have to wait for whoever holds an inode: then elsewhere.
    pub(crate) fn serve_or_wait<T>(
        &self,
        operation: Operation,
        work: impl Fn(&Adapter) -> Outcome<T> + Send + 'static,
        answer: impl FnOnce(&Adapter, Outcome<T>) + Send + 'static,
    ) {
        self.serve(operation, |adapter| match waiting::soon(|| work(adapter)) {
            Some(outcome) => answer(adapter, outcome),
            None => waiting::elsewhere(&self.0, operation, work, answer),
        });
    }
}

pub(crate) fn answer_empty(reply: ReplyEmpty, outcome: Outcome<()>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn answer_entry(reply: ReplyEntry, outcome: Outcome<Entry>) {
    match outcome {
        Ok(entry) => reply.entry(&NO_TIME, &entry.attributes, entry.generation),
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn answer_created(reply: ReplyCreate, outcome: Outcome<(Entry, u64)>) {
    match outcome {
        Ok((entry, handle)) => {
            let handle = FileHandle(handle);
            reply.created(
                &NO_TIME,
                &entry.attributes,
                entry.generation,
                handle,
                DIRECT,
            );
        }
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn answer_look_up(reply: ReplyEntry, outcome: Outcome<LookedUp>) {
    match outcome {
        Ok(LookedUp::Found {
            entry,
            name_validity,
            attribute_validity,
        }) => reply.entry_with_ttls(
            &attribute_validity,
            &name_validity,
            &entry.attributes,
            entry.generation,
        ),
        Ok(LookedUp::Missing(validity)) => {
            reply.entry(&validity, &convert::NOTHING, Generation(0));
        }
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn answer_attributes(reply: ReplyAttr, outcome: Outcome<fuser::FileAttr>) {
    match outcome {
        Ok(attributes) => reply.attr(&NO_TIME, &attributes),
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn answer_open(reply: ReplyOpen, outcome: Outcome<(u64, FopenFlags)>) {
    match outcome {
        Ok((handle, flags)) => reply.opened(FileHandle(handle), flags),
        Err(error) => reply.error(errno(error)),
    }
}
