//! Requests: served at once, or on a thread that may wait, and answered.

use crate::operations::names::{Found, LookedUp};
use crate::replies::convert::{self, NO_TIME, errno, inode};
use crate::replies::failures::Operation;
use crate::replies::request_counts::RequestKind;
use crate::serving::waiting;
use crate::state::adapter::Adapter;
use egeria_engine::{InodeNumber, Outcome};
use fuser::{
    FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, Request,
};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// The engine as fuser wants it.
pub(crate) struct Requests(pub(crate) Arc<Adapter>);

impl Requests {
    pub(crate) fn new(adapter: Adapter) -> Self {
        Requests(Arc::new(adapter))
    }

    /// Serve one request that does not block. The thread may stay here until it shall read the next request, so this comes
    /// last.
    pub(crate) fn serve(&self, operation: Operation, body: impl FnOnce(&Adapter)) {
        self.serve_first_part(operation, true, body);
    }

    /// `is_whole`: there may be no more parts.
    fn serve_first_part(&self, operation: Operation, is_whole: bool, body: impl FnOnce(&Adapter)) {
        let adapter = &self.0;
        let (readers, bytes) = (&adapter.readers, operation.bytes());
        readers.begin(operation.began(), bytes);
        adapter.leases.work_for_kernel();
        adapter.volume.count_mount_request();
        adapter
            .failures
            .watch(&adapter.volume, operation, || body(adapter));
        readers.done(bytes, is_whole, || adapter.kernel.has_request());
    }

    /// The kernel forgets a number this many times. One request of the kernel may have many numbers, and fuser does not say which
    /// is the last.
    pub(crate) fn serve_forget(&self, request: &Request, ino: INodeNo, times: u64) {
        thread_local! {
            static LAST: Cell<u64> = const { Cell::new(0) };
        }
        let operation = Operation::of(RequestKind::Forget, ino);
        let forget = || {
            let work = move |adapter: &Adapter| {
                adapter.known.forget(&adapter.volume, inode(ino), times);
                Ok(())
            };
            self.now_or_elsewhere(operation, work, |_, _| ());
        };
        let unique = request.unique().0;
        if LAST.replace(unique) == unique {
            self.0.readers.go_on();
            forget();
        } else {
            self.serve_first_part(operation, false, |_| forget());
        }
    }

    /// Serve one request about the content of a file. If programs may have stored to it through mappings, the kernel
    /// writes its pages back first. `None`: stores do not matter.
    pub(crate) fn serve_after_stores<T: 'static>(
        &self,
        operation: Operation,
        ino: Option<InodeNumber>,
        work: impl Fn(&Adapter) -> Outcome<T> + Send + 'static,
        answer: impl FnOnce(&Adapter, Outcome<T>) + Send + 'static,
    ) {
        let Some(ino) = ino.filter(|ino| self.0.may_have_stores(*ino)) else {
            return self.serve_or_wait(operation, work, answer);
        };
        self.serve(operation, |_| {
            // Write-back may wait for the holder of the inode, and no serving thread may block on it.
            let work = move |adapter: &Adapter| {
                adapter.coherence.write_stores_back(ino, &adapter.kernel);
                work(adapter)
            };
            waiting::elsewhere(&self.0, operation, work, answer);
        });
    }

    /// Serve one request. If it would have to wait for the holder of an inode, do so on another thread.
    pub(crate) fn serve_or_wait<T>(
        &self,
        operation: Operation,
        work: impl Fn(&Adapter) -> Outcome<T> + Send + 'static,
        answer: impl FnOnce(&Adapter, Outcome<T>) + Send + 'static,
    ) {
        self.serve(operation, |_| {
            self.now_or_elsewhere(operation, work, answer)
        });
    }

    /// Do a part of a request that is being served. If it would have to wait for the holder of an inode, do so on another
    /// thread.
    pub(crate) fn now_or_elsewhere<T>(
        &self,
        operation: Operation,
        work: impl Fn(&Adapter) -> Outcome<T> + Send + 'static,
        answer: impl FnOnce(&Adapter, Outcome<T>) + Send + 'static,
    ) {
        match waiting::soon(|| work(&self.0)) {
            Some(outcome) => answer(&self.0, outcome),
            None => waiting::elsewhere(&self.0, operation, work, answer),
        }
    }

    /// As [`Requests::serve_or_wait`], of a request that may allocate: new data goes to the caller's node.
    pub(crate) fn serve_writer<T>(
        &self,
        request: &Request,
        operation: Operation,
        work: impl Fn(&Adapter) -> Outcome<T> + Send + 'static,
        answer: impl FnOnce(&Adapter, Outcome<T>) + Send + 'static,
    ) {
        let thread_id = request.pid();
        let work = move |adapter: &Adapter| adapter.write_for(thread_id, || work(adapter));
        self.serve_or_wait(operation, work, answer);
    }
}

pub(crate) fn answer_empty(reply: ReplyEmpty, outcome: Outcome<()>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn answer_data(reply: ReplyData, outcome: Outcome<Vec<u8>>) {
    match outcome {
        Ok(data) => reply.data(&data),
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn answer_entry(reply: ReplyEntry, outcome: Outcome<Found>) {
    match outcome {
        Ok(found) => answer_found(reply, &found),
        Err(error) => reply.error(errno(error)),
    }
}

fn answer_found(reply: ReplyEntry, found: &Found) {
    let (attributes, generation) = (&found.entry.attributes, found.entry.generation);
    let (name_validity, attribute_validity) = (&found.name_validity, &found.attribute_validity);
    reply.entry_with_ttls(attribute_validity, name_validity, attributes, generation);
}

pub(crate) fn answer_created(reply: ReplyCreate, outcome: Outcome<(Found, u64, FopenFlags)>) {
    match outcome {
        Ok((found, handle, flags)) => {
            let handle = FileHandle(handle);
            // fuser has only one validity for both.
            let validity = found.name_validity.min(found.attribute_validity);
            let (attributes, generation) = (&found.entry.attributes, found.entry.generation);
            reply.created(&validity, attributes, generation, handle, flags);
        }
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn answer_look_up(reply: ReplyEntry, outcome: Outcome<LookedUp>) {
    match outcome {
        Ok(LookedUp::Found(found)) => answer_found(reply, &found),
        Ok(LookedUp::Missing(validity)) => {
            reply.entry(&validity, &convert::NOTHING, Generation(0));
        }
        Err(error) => reply.error(errno(error)),
    }
}

/// Attributes, and how long the kernel may cache them.
pub(crate) fn answer_shown(reply: ReplyAttr, outcome: Outcome<(fuser::FileAttr, Duration)>) {
    match outcome {
        Ok((attributes, validity)) => reply.attr(&validity, &attributes),
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
