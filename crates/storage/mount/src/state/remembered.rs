//! Facts about callers that a serving thread remembers for a while.

use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Callers that are remembered; others replace them.
const CALLERS: usize = 64;

#[derive(Clone, Copy)]
struct Fact<T> {
    thread_id: u32,
    at: Instant,
    value: T,
}

/// One fact per caller, for the thread that has this.
pub(crate) struct Remembered<T> {
    valid: Duration,
    facts: RefCell<[Option<Fact<T>>; CALLERS]>,
}

impl<T: Copy> Remembered<T> {
    /// `valid`: how long a fact is used.
    pub(crate) const fn new(valid: Duration) -> Self {
        Remembered {
            valid,
            facts: RefCell::new([const { None }; CALLERS]),
        }
    }

    /// The fact about a thread; if none is remembered, from `look`. What that does not find is not remembered.
    pub(crate) fn of(&self, thread_id: u32, look: impl FnOnce() -> Option<T>) -> Option<T> {
        let position = thread_id as usize % CALLERS;
        let at = Instant::now();
        let known = self.facts.borrow()[position].filter(|fact| {
            fact.thread_id == thread_id && at.saturating_duration_since(fact.at) < self.valid
        });
        if let Some(fact) = known {
            return Some(fact.value);
        }
        let value = look()?;
        self.facts.borrow_mut()[position] = Some(Fact {
            thread_id,
            at,
            value,
        });
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_used_for_their_thread_and_time() {
        let remembered = Remembered::new(Duration::from_secs(3600));
        assert_eq!(remembered.of(7, || None::<u32>), None);
        assert_eq!(remembered.of(7, || Some(1)), Some(1));
        assert_eq!(remembered.of(7, || Some(2)), Some(1));
        let other = 7 + CALLERS as u32;
        assert_eq!(remembered.of(other, || Some(3)), Some(3));
        assert_eq!(remembered.of(7, || Some(4)), Some(4));
        let expired = Remembered::new(Duration::ZERO);
        assert_eq!(expired.of(7, || Some(1)), Some(1));
        assert_eq!(expired.of(7, || Some(2)), Some(2));
    }
}
