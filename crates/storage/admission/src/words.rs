//! Where the Selector keeps its state.

use std::cell::Cell;

/// Words of 64 bits, zero at first, that the Selector works on.
///
/// The Selector reads and changes one word at a time and expects concurrent changes by others. Over sequentially
/// consistent atomics in shared memory it governs all processes that share them; over [`PlainWords`] it governs a
/// model.
pub trait Words {
    /// How many there are.
    fn count(&self) -> usize;

    fn load(&self, at: usize) -> u64;

    fn store(&self, at: usize, value: u64);

    /// Writes one if it still is `old`; returns whether it was.
    fn replace(&self, at: usize, old: u64, new: u64) -> bool;
}

impl<W: Words + ?Sized> Words for &W {
    fn count(&self) -> usize {
        (**self).count()
    }

    fn load(&self, at: usize) -> u64 {
        (**self).load(at)
    }

    fn store(&self, at: usize, value: u64) {
        (**self).store(at, value);
    }

    fn replace(&self, at: usize, old: u64, new: u64) -> bool {
        (**self).replace(at, old, new)
    }
}

/// Words of one thread's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlainWords(Vec<Cell<u64>>);

impl PlainWords {
    /// `count` words, all zero.
    pub fn new(count: usize) -> PlainWords {
        PlainWords(vec![Cell::new(0); count])
    }
}

impl Words for PlainWords {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.0[at].get()
    }

    fn store(&self, at: usize, value: u64) {
        self.0[at].set(value);
    }

    fn replace(&self, at: usize, old: u64, new: u64) -> bool {
        let is_old = self.load(at) == old;
        if is_old {
            self.store(at, new);
        }
        is_old
    }
}
