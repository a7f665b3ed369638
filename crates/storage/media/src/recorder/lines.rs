//! Which stores to which cache lines are not yet durable.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::event::Event;
use crate::address::{CACHE_LINE_BYTES, PoolIndex, PoolOffset};

/// Bytes of an atomic store.
const WORD_BYTES: u64 = 8;

/// A cache line: its pool and its number within it.
pub(super) type LineKey = (PoolIndex, u64);

/// The part of one store that lies in one line.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// Index of the store among the events.
    pub(super) event: usize,
    /// Where the part begins in the pool.
    pub(super) at: PoolOffset,
    /// Where the part begins in the store's bytes.
    pub(super) from: usize,
    /// Length of the part, at most a line.
    pub(super) bytes: usize,
}

impl Piece {
    /// Aligned words that the part touches: the number of places at which it can be cut.
    pub(super) fn steps(&self) -> u32 {
        let last = (self.at.0 + self.bytes as u64 - 1) / WORD_BYTES;
        (last - self.at.0 / WORD_BYTES + 1) as u32
    }

    /// The part up to its first `steps` words.
    pub(super) fn cut(&self, steps: u32) -> Piece {
        let end = (self.at.0 / WORD_BYTES + u64::from(steps)) * WORD_BYTES;
        Piece {
            bytes: self.bytes.min(end.saturating_sub(self.at.0) as usize),
            ..*self
        }
    }

    /// Changes the line it lies in.
    pub(super) fn apply(&self, line: &mut [u8; CACHE_LINE_BYTES as usize], events: &[Event]) {
        let from = (self.at.0 % CACHE_LINE_BYTES) as usize;
        line[from..from + self.bytes].copy_from_slice(self.data(events));
    }

    /// The stored bytes.
    fn data<'a>(&self, events: &'a [Event]) -> &'a [u8] {
        match &events[self.event] {
            Event::Store { bytes, .. } => &bytes[self.from..self.from + self.bytes],
            _ => &[],
        }
    }
}

/// All lines with stores that are not durable.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) pending: BTreeMap<LineKey, VecDeque<Piece>>,
    /// Per thread: lines it flushed since its last fence, each with the flush's event.
    flushed: HashMap<u32, Vec<(LineKey, usize)>>,
}

impl Lines {
    /// Processes one event; `persist` gets each piece that became durable, in order.
    pub(super) fn step(
        &mut self,
        index: usize,
        event: &Event,
        persist: impl FnMut(&LineKey, &Piece),
    ) {
        match event {
            Event::Store {
                pool, at, bytes, ..
            } => self.store(index, *pool, *at, bytes.len()),
            Event::Flush {
                thread,
                pool,
                at,
                bytes,
                ..
            } => {
                let lines = at.0 / CACHE_LINE_BYTES..=(at.0 + bytes.max(&1) - 1) / CACHE_LINE_BYTES;
                let keys = lines
                    .map(|line| (*pool, line))
                    .filter(|key| self.pending.contains_key(key));
                self.flushed
                    .entry(*thread)
                    .or_default()
                    .extend(keys.map(|key| (key, index)));
            }
            Event::Fence { thread, .. } => self.fence(*thread, persist),
            Event::Mark(_) => {}
        }
    }

    fn store(&mut self, event: usize, pool: PoolIndex, at: PoolOffset, bytes: usize) {
        let mut from = 0;
        while from < bytes {
            let at = at + from as u64;
            let room = (CACHE_LINE_BYTES - at.0 % CACHE_LINE_BYTES) as usize;
            let piece = Piece {
                event,
                at,
                from,
                bytes: room.min(bytes - from),
            };
            self.pending
                .entry((pool, at.0 / CACHE_LINE_BYTES))
                .or_default()
                .push_back(piece);
            from += piece.bytes;
        }
    }

    fn fence(&mut self, thread: u32, mut persist: impl FnMut(&LineKey, &Piece)) {
        for (key, flush) in self.flushed.remove(&thread).unwrap_or_default() {
            let Some(pieces) = self.pending.get_mut(&key) else {
                continue;
            };
            while let Some(piece) = pieces.front().copied().filter(|piece| piece.event < flush) {
                persist(&key, &piece);
                pieces.pop_front();
            }
            if pieces.is_empty() {
                self.pending.remove(&key);
            }
        }
    }
}
