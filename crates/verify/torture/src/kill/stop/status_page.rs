//! What workers that are stopped, and those who look on, tell whoever stops them: memory that all share.

use super::calls::{Call, Observation};
use crate::kill::call_time::CallTime;
use crate::kill::processes::AccessPath;
use egeria_harness::memory::Shared;
use egeria_harness::shared_values;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most workers that can be stopped.
const WORKERS: usize = 16;
/// Most threads that look on.
pub const OBSERVERS: usize = 256;

shared_values! {
    /// A worker that is stopped now and then.
    pub struct Worker {
        time: CallTime,
        /// The call under way, or the last one.
        call: AtomicU64,
        /// Not 0: it is about to be stopped, and pauses no more.
        ordered: AtomicU64,
        pub calls: AtomicU64,
        pub faults: AtomicU64,
    }

    /// A thread that looks on.
    pub struct Observer {
        pub time: CallTime,
        pub calls: AtomicU64,
        pub faults: AtomicU64,
    }

    struct Words {
        ended: AtomicU64,
        workers: [Worker; WORKERS],
        observers: [Observer; OBSERVERS],
    }
}

/// The whole page.
pub struct StatusPage(&'static Words);

impl StatusPage {
    /// Make or open one.
    pub fn open(path: &Path) -> io::Result<StatusPage> {
        Ok(StatusPage(Shared::<Words>::open(path)?.leak()))
    }

    pub fn worker(&self, index: usize) -> &'static Worker {
        &self.0.workers[index]
    }

    pub fn observer(&self, index: usize) -> &'static Observer {
        &self.0.observers[index]
    }

    /// Everybody ends after the call under way.
    pub fn end(&self) {
        self.0.ended.store(1, Ordering::Release);
    }

    pub fn is_ended(&self) -> bool {
        self.0.ended.load(Ordering::Acquire) != 0
    }
}

impl Worker {
    pub fn begin(&self, call: Call) {
        self.call.store(call as u64, Ordering::Release);
        self.time.begin();
    }

    pub fn end(&self) {
        self.time.end();
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Have it make calls without a pause, or not any more.
    pub fn order(&self, ordered: bool) {
        self.ordered.store(u64::from(ordered), Ordering::Release);
    }

    pub fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::Acquire) != 0
    }

    /// The call in the middle of which it is.
    pub fn call(&self) -> Option<Call> {
        let begun_ns = self.time.begun_ns();
        let call = self.call.load(Ordering::Acquire) as usize;
        Call::ALL.get(call).copied().filter(|_| begun_ns != 0)
    }
}

/// Who looks on in which way at what, by the number of the thread: each way has `copies` of each look.
pub fn look_of(copies: usize, index: usize) -> Observation {
    Observation::ALL[index / copies]
}

pub fn threads_of(access_path: AccessPath) -> usize {
    Observation::ALL.len() * copies_of(access_path)
}

/// More of them look through the mount than it has threads to serve them.
pub fn copies_of(access_path: AccessPath) -> usize {
    match access_path {
        AccessPath::Mount => 4,
        AccessPath::Preload | AccessPath::Engine => 1,
    }
}
