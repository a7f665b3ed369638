//! `engine::session::lease_words`: a mount whose kernel remembers an inode, and those who change it past that kernel. Nobody
//! wakes here because it is late, so whoever sleeps must be woken.

use crate::check::check;
use crate::session::lease_words::{
    ALL, ATTRIBUTES, OWNER, RecallProgress, Recalls, WITH_NAMES, end, grant, held,
};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::time::Duration;

const INODE: u64 = 9;
const NOTHING: u64 = 0;
/// Nobody comes so late here.
const LIMIT: Duration = Duration::MAX;

/// An inode of a session, and a kernel that has a mount of it.
struct Scene<const PLACES: usize> {
    lock: Mutex<()>,
    leases: AtomicU32,
    places: [AtomicU64; PLACES],
    bell: AtomicU32,
    ended: AtomicU32,
    /// What the inode is.
    value: AtomicU64,
    /// What the kernel believes that it is.
    remembered: AtomicU64,
    /// Changes that are over.
    changes: AtomicU32,
}

impl<const PLACES: usize> Scene<PLACES> {
    /// The kernel remembers the inode.
    fn new() -> Arc<Scene<PLACES>> {
        let word = |first| {
            let word = AtomicU32::new(first);
            // Made by its first use.
            word.load(Ordering::Relaxed);
            word
        };
        Arc::new(Scene {
            lock: Mutex::new(()),
            leases: word(ALL),
            places: std::array::from_fn(|_| AtomicU64::new(0)),
            bell: word(0),
            ended: word(0),
            value: AtomicU64::new(1),
            remembered: AtomicU64::new(1),
            changes: word(0),
        })
    }

    fn recalls(&self) -> Recalls<'_> {
        Recalls {
            places: &self.places,
            bell: &self.bell,
            ended: &self.ended,
        }
    }

    /// As `Volume::lease`, and the answer to the kernel.
    fn remember(&self) {
        let Ok(locked) = self.lock.try_lock() else {
            return;
        };
        grant(&self.leases, ALL);
        drop(locked);
        let value = self.value.load(Ordering::Relaxed);
        self.remembered.store(value, Ordering::Relaxed);
    }

    /// As `Volume::recall`.
    fn have_ended(&self, mask: u32) {
        loop {
            match self.recalls().wait(&self.leases, INODE, mask, LIMIT) {
                RecallProgress::Ended => return,
                RecallProgress::Woken => {}
                RecallProgress::NoRoom => thread::yield_now(),
            }
        }
    }

    /// As `Volume::lock_leased`, and a change.
    fn change(&self, mask: u32) {
        let locked = loop {
            let locked = self.lock.lock().expect("the inode");
            if held(&self.leases) & mask == 0 {
                break locked;
            }
            drop(locked);
            self.have_ended(mask);
        };
        let before = self.value.load(Ordering::Relaxed);
        self.value.store(before + 1, Ordering::Relaxed);
        // As whoever was told of the change, and asks the kernel.
        let remembered = self.remembered.load(Ordering::Relaxed);
        assert!([NOTHING, before + 1].contains(&remembered), "what was");
        drop(locked);
    }

    /// As `change`, and the mount need not serve it any more.
    fn change_and_tell(&self, mask: u32) {
        self.change(mask);
        self.changes.fetch_add(1, Ordering::Release);
        self.recalls().ring();
    }

    /// As a thread of the mount that ends leases, until so many changes were made; `after` each recall.
    fn serve(&self, changes: u32, mut after: impl FnMut()) {
        let recalls = self.recalls();
        let is_over = || self.changes.load(Ordering::Acquire) == changes;
        while !is_over() {
            if let Some(word) = recalls.next(LIMIT, is_over, || recalls.take()) {
                self.forget(word);
                after();
            }
        }
    }

    /// As a thread of the mount that ends one lease.
    fn serve_once(&self) {
        let recalls = self.recalls();
        let word = loop {
            if let Some(word) = recalls.next(LIMIT, || false, || recalls.take()) {
                break word;
            }
        };
        self.forget(word);
    }

    fn forget(&self, word: u64) {
        assert_eq!(word & !WITH_NAMES, INODE);
        self.remembered.store(NOTHING, Ordering::Relaxed);
        let bits = match word & WITH_NAMES {
            0 => ATTRIBUTES,
            _ => ALL,
        };
        end(&self.leases, bits);
        self.recalls().tell_ended();
    }
}

#[test]
fn nobody_changes_what_the_kernel_remembers() {
    check(
        "models::leases::nobody_changes_what_the_kernel_remembers",
        CHANGING,
        || {
            let scene = Scene::<1>::new();
            let other = scene.clone();
            let changer = thread::spawn(move || other.change_and_tell(ATTRIBUTES));
            // Somebody looks at the inode once more, between the end of the recall and the change or after it.
            let mut is_again = false;
            scene.serve(1, || {
                if !std::mem::replace(&mut is_again, true) {
                    scene.remember();
                }
            });
            changer.join().expect("who changes");
        },
    );
}

// The bell orders what is in a place, and `ended` the bits that were recalled, whatever their own exchanges order.
const CHANGING: &[&str] = &[
    "let rung = self.bell.load(Ordering::Acquire);",
    "let seen = self.ended.load(Ordering::Acquire);",
    "self.bell.fetch_add(1, Ordering::Release);",
    "self.ended.fetch_add(1, Ordering::Release);",
    "without _ => place.swap(0, Ordering::AcqRel),",
    "without leases.fetch_and(!bits, Ordering::Release);",
    "without leases.fetch_or(bits, Ordering::Relaxed);",
    "without self.bell.fetch_add(1, Ordering::Release);",
    "without self.ended.fetch_add(1, Ordering::Release);",
    "without wake_all(self.bell);",
    "without wake_all(self.ended);",
];

#[test]
fn what_the_kernel_forgot_by_itself_precedes_a_change() {
    check(
        "models::leases::what_the_kernel_forgot_by_itself_precedes_a_change",
        &[
            "leases.fetch_and(!bits, Ordering::Release);",
            "leases.load(Ordering::Acquire)",
        ],
        || {
            let scene = Scene::<1>::new();
            let other = scene.clone();
            let changer = thread::spawn(move || {
                let _locked = other.lock.lock().expect("the inode");
                if held(&other.leases) == 0 {
                    assert_eq!(other.remembered.load(Ordering::Relaxed), NOTHING);
                }
            });
            // As `Volume::end_lease`.
            scene.remembered.store(NOTHING, Ordering::Relaxed);
            end(&scene.leases, ALL);
            changer.join().expect("who changes");
        },
    );
}

#[test]
fn two_who_have_a_lease_ended_are_both_served() {
    check(
        "models::leases::two_who_have_a_lease_ended_are_both_served",
        TWO,
        || {
            let scene = Scene::<1>::new();
            let threads = [ATTRIBUTES, ATTRIBUTES].map(|mask| {
                let scene = scene.clone();
                thread::spawn(move || scene.have_ended(mask))
            });
            // One recall is for both, whoever asked for it.
            scene.serve_once();
            for thread in threads {
                thread.join().expect("who asked");
            }
        },
    );
}

const TWO: &[&str] = &[
    "let rung = self.bell.load(Ordering::Acquire);",
    "let seen = self.ended.load(Ordering::Acquire);",
    "self.bell.fetch_add(1, Ordering::Release);",
    "self.ended.fetch_add(1, Ordering::Release);",
    "without leases.fetch_and(!bits, Ordering::Release);",
    "without wake_all(self.bell);",
    "without wake_all(self.ended);",
];

#[test]
fn who_asks_for_less_and_who_asks_for_more_share_a_place() {
    check(
        "models::leases::who_asks_for_less_and_who_asks_for_more_share_a_place",
        &[
            "self.ended.fetch_add(1, Ordering::Release);",
            "without _ => place.swap(0, Ordering::AcqRel),",
            "without leases.fetch_and(!bits, Ordering::Release);",
            "without wake_all(self.bell);",
            "without wake_all(self.ended);",
        ],
        || {
            let scene = Scene::<1>::new();
            let other = scene.clone();
            let thread = thread::spawn(move || other.have_ended(OWNER));
            // Asked for by one who does not wait.
            scene.recalls().ask(INODE);
            while held(&scene.leases) & OWNER != 0 {
                scene.serve_once();
            }
            thread.join().expect("who asked");
        },
    );
}

#[test]
fn a_recall_is_taken_once() {
    check(
        "models::leases::a_recall_is_taken_once",
        &["without _ => place.swap(0, Ordering::AcqRel),"],
        || {
            let scene = Scene::<1>::new();
            assert!(scene.recalls().ask(INODE));
            let other = scene.clone();
            let second = thread::spawn(move || other.recalls().take().is_some());
            let is_first = scene.recalls().take().is_some();
            let is_second = second.join().expect("a thread of the mount");
            assert!(is_first != is_second, "lost, or twice");
        },
    );
}

#[test]
fn a_recall_of_one_who_died_before_he_rang_is_served() {
    check(
        "models::leases::a_recall_of_one_who_died_before_he_rang_is_served",
        &[
            "let rung = self.bell.load(Ordering::Acquire);",
            "self.bell.fetch_add(1, Ordering::Release);",
            "without wake_all(self.bell);",
        ],
        || {
            let scene = Scene::<1>::new();
            let dying = scene.clone();
            let dead = thread::spawn(move || dying.places[0].store(INODE, Ordering::Relaxed));
            let other = scene.clone();
            let thread = thread::spawn(move || other.have_ended(ATTRIBUTES));
            scene.serve_once();
            for thread in [dead, thread] {
                thread.join().expect("who asked");
            }
        },
    );
}

#[test]
fn who_waits_for_a_mount_that_died_goes_on() {
    check(
        "models::leases::who_waits_for_a_mount_that_died_goes_on",
        &[
            "let seen = self.ended.load(Ordering::Acquire);",
            "self.ended.fetch_add(1, Ordering::Release);",
            "without leases.fetch_and(!bits, Ordering::Release);",
            "without self.ended.fetch_add(1, Ordering::Release);",
            "without wake_all(self.ended);",
        ],
        || {
            let scene = Scene::<1>::new();
            let other = scene.clone();
            let thread = thread::spawn(move || other.have_ended(ATTRIBUTES));
            // As `Volume::end_leases_of`.
            end(&scene.leases, ALL);
            scene.recalls().drop_all();
            scene.recalls().tell_ended();
            thread.join().expect("who asked");
        },
    );
}
