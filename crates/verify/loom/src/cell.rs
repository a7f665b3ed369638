//! What one thread at a time may touch, as loom watches it: it ends the model when two do.

use loom::cell::UnsafeCell;

/// A value that some rule keeps to one thread at a time; whether the rule does, loom finds out.
#[derive(Debug)]
pub struct Watched<T>(UnsafeCell<T>);

impl<T: Copy> Watched<T> {
    pub fn new(value: T) -> Watched<T> {
        Watched(UnsafeCell::new(value))
    }

    pub fn get(&self) -> T {
        // SAFETY: nobody changes it meanwhile, or loom has ended the model.
        self.0.with(|value| unsafe { *value })
    }

    pub fn set(&self, new: T) {
        // SAFETY: nobody else touches it meanwhile, or loom has ended the model.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

impl<T: Copy + std::ops::AddAssign> Watched<T> {
    /// Change it to something larger, in one access.
    pub fn add(&self, more: T) {
        // SAFETY: this thread alone reads and writes it meanwhile, or loom has ended the model.
        self.0.with_mut(|value| unsafe { *value += more });
    }
}
