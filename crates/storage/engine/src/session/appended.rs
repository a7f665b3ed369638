//! A list that grows while other threads read it. What is in it stays where it is.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A list with room for a fixed number of elements.
pub(crate) struct Appended<T> {
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Elements that are there: all places below have a value, which does not change.
    length: AtomicUsize,
    /// Elements that are there or about to be.
    taken: AtomicUsize,
}

// SAFETY: elements are handed over and shared as by a vector.
unsafe impl<T: Send> Send for Appended<T> {}
// SAFETY: readers get elements that do not change; a place is written once, by the thread that took it.
unsafe impl<T: Send + Sync> Sync for Appended<T> {}

impl<T> Appended<T> {
    /// These elements, and room for more, up to `capacity`.
    pub(crate) fn new(elements: Vec<T>, capacity: usize) -> Appended<T> {
        let length = elements.len();
        let elements = elements.into_iter().map(MaybeUninit::new);
        let room = (length..capacity).map(|_| MaybeUninit::uninit());
        Appended {
            places: elements.chain(room).map(UnsafeCell::new).collect(),
            length: AtomicUsize::new(length),
            taken: AtomicUsize::new(length),
        }
    }

    /// Append an element. Returns whether there was room. One thread appends at a time.
    pub(crate) fn push(&self, element: T) -> bool {
        let index = self.length.load(Ordering::Acquire);
        let took =
            self.taken
                .compare_exchange(index, index + 1, Ordering::AcqRel, Ordering::Relaxed);
        let Some(place) = self.places.get(index).filter(|_| took.is_ok()) else {
            return false;
        };
        // SAFETY: this thread has taken the place, and readers look at it when the length says so.
        unsafe { (*place.get()).write(element) };
        self.length.store(index + 1, Ordering::Release);
        true
    }

    /// Drop all elements.
    pub(crate) fn clear(&mut self) {
        let length = std::mem::replace(self.length.get_mut(), 0);
        *self.taken.get_mut() = 0;
        for place in &mut self.places[..length] {
            // SAFETY: below the length places have a value, and none is there any more.
            unsafe { place.get_mut().assume_init_drop() };
        }
    }
}

impl<T> Deref for Appended<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        let length = self.length.load(Ordering::Acquire);
        let first = self.places.as_ptr().cast::<T>();
        // SAFETY: cells and elements that may have no value are laid out as elements; all below the length have a value, which
        // does not change as long as the list is borrowed.
        unsafe { std::slice::from_raw_parts(first, length) }
    }
}

impl<T> Drop for Appended<T> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn elements_stay_where_they_are_until_all_are_dropped() {
        let counted = Arc::new(());
        let list = Appended::new(vec![(0, counted.clone())], 3);
        let first = &raw const list[0];
        assert!(list.push((1, counted.clone())) && list.push((2, counted.clone())));
        assert!(!list.push((3, counted.clone())), "no room");
        assert_eq!(first, &raw const list[0]);
        let numbers: Vec<i32> = list.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 1, 2]);
        drop(list);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn readers_see_whole_elements() {
        let list = Appended::new(Vec::new(), 1000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..1000 {
                    assert!(list.push(vec![number; 3]));
                }
            });
            while list.len() < 1000 {
                let all = list.iter().enumerate();
                assert!(all.into_iter().all(|(number, found)| *found == [number; 3]));
            }
        });
    }
}
