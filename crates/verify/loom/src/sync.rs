//! loom's atomics, with a memory of where they are used and a way to break one such place: an access there
//! is relaxed, or a store, an exchange or a fence is left out.

pub(crate) use crate::lock::Lock;
pub(crate) use crate::locked::Locked;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::OnceLock;
use std::time::Duration;

/// Names the places to break and how, in a process started for that; `|` between them.
pub(crate) const BROKEN: &str = "EGERIA_MODELS_BROKEN";
/// Before a place in [`BROKEN`]: leave it out.
pub(crate) const WITHOUT: &str = "without ";

/// Turns a waiter makes before it sleeps.
pub(crate) const SPINS: u32 = 1;

/// How often what changed while it was looked at is looked at again.
pub(crate) const TRIES: usize = 1;

thread_local! {
    /// Places seen, as `file:line:column`. A model's threads are stepped by one thread.
    static SEEN: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// All ways to break the places seen so far.
pub(crate) fn ways_seen() -> Vec<String> {
    SEEN.take().into_iter().collect()
}

fn broken() -> Option<&'static str> {
    static WAY: OnceLock<Option<String>> = OnceLock::new();
    WAY.get_or_init(|| std::env::var(BROKEN).ok()).as_deref()
}

/// Whether the caller's place is the broken one, in this way.
fn is_broken(way: &str, place: &Location) -> bool {
    let (file, line, column) = (place.file(), place.line(), place.column());
    let name = format!("{way}{file}:{line}:{column}");
    match broken() {
        Some(broken) => broken.split('|').any(|way| way == name),
        None => {
            SEEN.with_borrow_mut(|seen| seen.insert(name));
            false
        }
    }
}

pub(crate) mod atomic {
    use super::{WITHOUT, is_broken};
    use std::panic::Location;
    use std::sync::OnceLock;
    pub(crate) use std::sync::atomic::Ordering;

    #[track_caller]
    fn chosen(ordering: Ordering) -> Ordering {
        match ordering {
            Ordering::Relaxed => ordering,
            _ if is_broken("", Location::caller()) => Ordering::Relaxed,
            _ => ordering,
        }
    }

    #[track_caller]
    fn is_left_out() -> bool {
        is_broken(WITHOUT, Location::caller())
    }

    #[track_caller]
    pub(crate) fn fence(ordering: Ordering) {
        if !is_left_out() {
            loom::sync::atomic::fence(ordering);
        }
    }

    /// What is left of an exchange that stores nothing.
    fn as_load(ordering: Ordering) -> Ordering {
        match ordering {
            Ordering::Acquire | Ordering::AcqRel => Ordering::Acquire,
            _ => Ordering::Relaxed,
        }
    }

    macro_rules! accesses {
        ($value:ty) => {
            #[track_caller]
            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                self.word().load(chosen(ordering))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                let ordering = chosen(ordering);
                if !is_left_out() {
                    self.word().store(value, ordering);
                }
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, ordering: Ordering) -> $value {
                match (chosen(ordering), is_left_out()) {
                    (ordering, false) => self.word().swap(value, ordering),
                    (ordering, true) => self.word().load(as_load(ordering)),
                }
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                done: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                self.word().compare_exchange(old, new, chosen(done), failed)
            }
        };
    }

    macro_rules! atomic {
        ($name:ident $(<$of:ident>)?, $value:ty) => {
            pub(crate) struct $name $(<$of>)? (loom::sync::atomic::$name $(<$of>)?);

            impl $(<$of>)? $name $(<$of>)? {
                pub(crate) fn new(value: $value) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }

                fn word(&self) -> &loom::sync::atomic::$name $(<$of>)? {
                    &self.0
                }

                accesses!($value);
            }
        };
    }

    atomic!(AtomicU64, u64);
    atomic!(AtomicI32, i32);
    atomic!(AtomicBool, bool);
    atomic!(AtomicPtr<T>, *mut T);

    /// One that a constant can hold: loom's is made at the first use, which must come before it is shared.
    pub(crate) struct AtomicU32 {
        first: u32,
        word: OnceLock<loom::sync::atomic::AtomicU32>,
        pub(super) asleep: OnceLock<Asleep>,
    }

    /// The kernel's list of those who sleep on a word: it compares and puts to sleep in one step.
    pub(super) type Asleep = (loom::sync::Mutex<()>, loom::sync::Condvar);

    impl AtomicU32 {
        pub(crate) const fn new(first: u32) -> AtomicU32 {
            AtomicU32 {
                first,
                word: OnceLock::new(),
                asleep: OnceLock::new(),
            }
        }

        fn word(&self) -> &loom::sync::atomic::AtomicU32 {
            let word = || loom::sync::atomic::AtomicU32::new(self.first);
            self.word.get_or_init(word)
        }

        accesses!(u32);
    }

    macro_rules! arithmetic {
        ($name:ident, $value:ty: $($change:ident)*) => {
            impl $name {
                $(
                    #[track_caller]
                    pub(crate) fn $change(&self, value: $value, ordering: Ordering) -> $value {
                        match (chosen(ordering), is_left_out()) {
                            (ordering, false) => self.word().$change(value, ordering),
                            (ordering, true) => self.word().load(as_load(ordering)),
                        }
                    }
                )*
            }
        };
    }

    arithmetic!(AtomicU64, u64: fetch_add fetch_and);
    arithmetic!(AtomicU32, u32: fetch_add fetch_sub fetch_and fetch_or);

    /// Whether a call that wakes is to be left out.
    #[track_caller]
    pub(super) fn wakes_nobody() -> bool {
        is_left_out()
    }
}

use atomic::{AtomicU32, Ordering, fence};

fn asleep(word: &AtomicU32) -> &atomic::Asleep {
    word.asleep.get_or_init(Default::default)
}

/// As the kernel's futex.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    let (list, woken) = asleep(word);
    let list = list.lock().expect("the kernel");
    if word.load(Ordering::Relaxed) == value {
        drop(woken.wait(list).expect("the kernel"));
    }
}

/// As the kernel's futex.
pub(crate) fn wake_one(word: &AtomicU32) {
    let (list, woken) = asleep(word);
    let _list = list.lock().expect("the kernel");
    woken.notify_one();
}

/// As a futex that processes share. Nobody waits in vain here: a time limit that a model needs is a wake-up that was
/// lost.
pub(crate) fn sleep_until_changed(word: &AtomicU32, seen: u32, _limit: Duration) {
    wait(word, seen);
}

/// As the kernel's futex.
#[track_caller]
pub(crate) fn wake_all(word: &AtomicU32) {
    if !atomic::wakes_nobody() {
        let (list, woken) = asleep(word);
        let _list = list.lock().expect("the kernel");
        woken.notify_all();
    }
}

/// What makes `heavy_barrier` work for who only stops the compiler: as strong as the other, here.
pub(crate) fn light_barrier() {
    fence(Ordering::SeqCst);
}

/// As `membarrier`.
pub(crate) fn heavy_barrier() -> bool {
    fence(Ordering::SeqCst);
    true
}

/// Let others step.
pub(crate) fn pause(_round: &mut u32) {
    loom::thread::yield_now();
}
