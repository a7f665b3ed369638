//! An access to memories, and its cost.

use egeria_machine::costs::{self, Pattern};

use super::AccessKind;

/// One of the memories of an access.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) place: usize,
    pub(super) bytes: u64,
    pub(super) cached_bytes: u64,
    /// The memory of the thread that a delegate copies for: read where the access writes, and written where it reads.
    /// The delegate does not wait for it.
    pub(super) is_buffer: bool,
}

/// An access, and what led to it.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    pub(super) place: usize,
    pub(super) bytes: u64,
    pub(super) kind: AccessKind,
    /// The part of `bytes` that the LLC of the thread's node holds.
    pub(super) cached_bytes: u64,
    /// CPU time since the last access, ns.
    pub(super) computed_ns: u64,
    /// What steps between threads took since then, ns.
    pub(super) owed_ns: u64,
    pub(super) pattern: Pattern,
    /// The thread does not wait for this access before it begins the next.
    pub(super) at_once: bool,
    /// It is one of several that a caller hands over at the same moment.
    pub(super) in_burst: bool,
    /// The parts of a striped access on other memories. The thread uses the memories in turn, so it waits for the
    /// slowest.
    pub(super) rest: &'a [Part],
}

/// What one access takes, machine ns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cost {
    /// Occupies the memory.
    pub(super) service_ns: f64,
    /// What the medium writes for it, bytes.
    pub(super) medium_written_bytes: f64,
    /// From beginning to end with no contention except in queues.
    pub(super) undisturbed_ns: f64,
    /// From beginning to end with no contention and no waiting in queues.
    pub(super) unwaited_ns: f64,
}

impl Part {
    pub(super) const NONE: Part = Part {
        place: 0,
        bytes: 0,
        cached_bytes: 0,
        is_buffer: false,
    };
}

/// Most memories of one access.
pub(super) const MAX_PARTS: usize = 16;

impl<'a> Access<'a> {
    /// The parts on each memory, as separate accesses.
    pub(super) fn parts(self) -> impl Iterator<Item = Access<'a>> {
        let rest = self.rest.iter().map(move |part| Access {
            place: part.place,
            bytes: part.bytes,
            cached_bytes: part.cached_bytes,
            kind: if part.is_buffer {
                self.kind.other()
            } else {
                self.kind
            },
            at_once: self.at_once || part.is_buffer,
            rest: &[],
            ..self
        });
        std::iter::once(Access { rest: &[], ..self }).chain(rest)
    }

    /// The part of the access that the memory serves for a thread of this node.
    pub(super) fn of_memory(self, home: usize) -> costs::Access {
        costs::Access {
            kind: self.kind,
            home,
            place: self.place,
            bytes: self.bytes.saturating_sub(self.cached_bytes),
            pattern: self.pattern,
            at_once: self.at_once,
        }
    }

    /// Whether the memory is not used at all.
    pub(super) fn is_cached(self) -> bool {
        self.cached_bytes > 0 && self.cached_bytes >= self.bytes
    }
}
