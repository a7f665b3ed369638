//! All state of PATS for one thread, in one word.
//!
//! The paper has a Req-Info and a Running-Lock per thread and counts serving threads separately (§IV). A thread that
//! dies between two of these updates leaves them inconsistent; if it dies while it is counted, it is counted forever.
//! Here the state is one word, so every step is one atomic exchange. The number of admitted threads is computed from
//! the words.
//!
//! ```text
//!   bits 0..3    phase
//!   bit  3       1: the request writes
//!   bits 4..36   length of the request, bytes, at most 4 GiB - 1
//!   bits 36..64  number: goes up with every request and every new owner
//! ```
//!
//! ```text
//!                        ┌──────────── end, withdraw ────────────┐
//!                        ▼                                       │
//!   Free ── claim ──▶ Idle ── publish ──▶ Waiting ── release ──▶ Released ── begin ──▶ Serving
//!    ▲                   │ small                                 └──── lend ────┬────────┘
//!    │                   └── publish ──▶ Passing ── end ──▶ Idle ◀── end ── Overdue
//!    └── retire, from every phase
//! ```

use egeria_machine::AccessKind;

use crate::request::Request;

const PHASE_MASK: u64 = 0b111;
const WRITE_BIT: u64 = 1 << 3;
const LENGTH_SHIFT: u32 = 4;
const MAX_LENGTH: u64 = u32::MAX as u64;
const NUMBER_SHIFT: u32 = 36;
const NUMBER_MASK: u64 = (1 << 28) - 1;

/// Where a thread is in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Phase {
    /// The slot has no owner.
    Free = 0,
    /// Its thread asks for nothing.
    Idle = 1,
    /// Its running lock is closed: it waits to be released.
    Waiting = 2,
    /// Released and counted: its place is reserved until it begins.
    Released = 3,
    /// It accesses persistent memory, and is counted.
    Serving = 4,
    /// It accesses persistent memory with a request too small to wait; not counted.
    Passing = 5,
    /// It was admitted, and took so long that its place was lent to others; not counted.
    Overdue = 6,
}

/// The word of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(pub u64);

impl Slot {
    /// An invalid word counts as free: a claim makes it valid.
    pub(crate) fn phase(self) -> Phase {
        match self.0 & PHASE_MASK {
            1 => Phase::Idle,
            2 => Phase::Waiting,
            3 => Phase::Released,
            4 => Phase::Serving,
            5 => Phase::Passing,
            6 => Phase::Overdue,
            _ => Phase::Free,
        }
    }

    /// Whether the thread holds one of the `T_S` places.
    pub(crate) fn is_admitted(self) -> bool {
        matches!(self.phase(), Phase::Released | Phase::Serving)
    }

    /// What it asks for, if anything.
    pub(crate) fn request(self) -> Option<Request> {
        if matches!(self.phase(), Phase::Free | Phase::Idle) {
            return None;
        }
        let writes = self.0 & WRITE_BIT != 0;
        Some(Request {
            kind: if writes {
                AccessKind::Write
            } else {
                AccessKind::Read
            },
            bytes: self.0 >> LENGTH_SHIFT & MAX_LENGTH,
        })
    }

    /// Distinguishes this request of this owner from all others of the slot.
    pub(crate) fn number(self) -> u64 {
        self.0 >> NUMBER_SHIFT
    }

    /// This request, in another phase.
    pub(crate) fn in_phase(self, phase: Phase) -> Slot {
        Slot(self.0 & !PHASE_MASK | phase as u64)
    }

    /// No request, the next number.
    pub(crate) fn cleared(self, phase: Phase) -> Slot {
        let number = (self.number() + 1) & NUMBER_MASK;
        Slot(number << NUMBER_SHIFT | phase as u64)
    }

    /// This request, in a phase; the number stays, because [`Slot::cleared`] has increased it already.
    pub(crate) fn asking(self, request: Request, phase: Phase) -> Slot {
        let writes = match request.kind {
            AccessKind::Read => 0,
            AccessKind::Write => WRITE_BIT,
        };
        let length = request.bytes.min(MAX_LENGTH) << LENGTH_SHIFT;
        Slot(self.number() << NUMBER_SHIFT | length | writes | phase as u64)
    }
}
