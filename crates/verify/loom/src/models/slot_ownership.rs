//! `engine::session::slot_ownership`.

use crate::cell::Watched;
use crate::check::check;
use crate::session::slot_ownership::SlotOwnership;
use crate::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

/// A thread slot, and the pids of two process slots.
struct Slot {
    owner: AtomicU64,
    thread_id: AtomicU64,
    incarnation: AtomicU64,
    pids: [AtomicU64; 2],
}

impl Slot {
    fn new() -> Slot {
        let word = || AtomicU64::new(0);
        Slot {
            owner: word(),
            thread_id: word(),
            incarnation: word(),
            pids: [word(), word()],
        }
    }

    fn ownership(&self) -> SlotOwnership<'_> {
        SlotOwnership {
            owner: &self.owner,
            thread_id: &self.thread_id,
            incarnation: &self.incarnation,
        }
    }
}

#[test]
fn slot_has_one_owner_who_sees_its_last_use() {
    let name = "models::slot_ownership::slot_has_one_owner_who_sees_its_last_use";
    check(name, TAKING, || {
        let slot = Arc::new((Slot::new(), Watched::new(0)));
        let use_it = |(slot, inside): &(Slot, Watched<u64>), process: usize| {
            if slot.ownership().take(process, 11) {
                // The owner's alone.
                inside.add(1);
                slot.ownership().give_back();
            }
        };
        let other = slot.clone();
        let thread = thread::spawn(move || use_it(&other, 1));
        use_it(&slot, 2);
        thread.join().expect("a thread");
        assert_eq!(slot.0.ownership().while_held(|owner| owner.process), None);
        assert!(slot.0.ownership().take(3, 33), "given back");
        let found = slot
            .0
            .ownership()
            .while_held(|owner| (owner.process, owner.thread_id));
        assert_eq!(found, Some((3, 33)));
    });
}

const TAKING: &[&str] = &[
    ".compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed)",
    "self.owner.store(0, Ordering::Release);",
    "without self.owner.store(0, Ordering::Release);",
    "without self.thread_id.store(thread_id, Ordering::Release);",
];

/// The owner of a slot ends with his process, while somebody looks; the next one's process has `process`.
fn succeed(process: usize) {
    let slot = Arc::new(Slot::new());
    slot.pids[0].store(100, Ordering::Relaxed);
    assert!(slot.ownership().take(0, 11));
    let others = slot.clone();
    let reaper = thread::spawn(move || {
        others.ownership().give_back();
        // Another process has the process slot at once, and in one case this thread slot too.
        others.pids[0].store(300, Ordering::Release);
        others.pids[process].store(200, Ordering::Release);
        assert!(others.ownership().take(process, 22));
    });
    let seen = slot.ownership().while_held(|owner| {
        let pid = slot.pids[owner.process].load(Ordering::Acquire);
        (owner.incarnation, pid, owner.thread_id)
    });
    let one = [None, Some((0, 100, 11)), Some((1, 200, 22))];
    assert!(one.contains(&seen), "{seen:?}");
    reaper.join().expect("the reaper");
}

#[test]
fn nobody_is_taken_for_his_successor() {
    let name = "models::slot_ownership::nobody_is_taken_for_his_successor";
    check(name, SUCCESSION, || succeed(1));
}

#[test]
fn nobody_is_taken_for_a_successor_in_the_same_process_slot() {
    let name = "models::slot_ownership::nobody_is_taken_for_a_successor_in_the_same_process_slot";
    check(name, SUCCESSION_IN_PLACE, || succeed(0));
}

const SUCCESSION: &[&str] = &[
    "let incarnation = self.incarnation.load(Ordering::Acquire);",
    "self.incarnation.fetch_add(1, Ordering::Release);",
    "self.thread_id.store(thread_id, Ordering::Release);",
    "without self.incarnation.fetch_add(1, Ordering::Release);",
    "without self.owner.store(0, Ordering::Release);",
    "without self.thread_id.store(0, Ordering::Relaxed);",
];

const SUCCESSION_IN_PLACE: &[&str] = &[
    "let incarnation = self.incarnation.load(Ordering::Acquire);",
    "let thread_id = self.thread_id.load(Ordering::Acquire);",
    "self.incarnation.fetch_add(1, Ordering::Release);",
    "self.thread_id.store(thread_id, Ordering::Release);",
    "without self.incarnation.fetch_add(1, Ordering::Release);",
    "without self.owner.store(0, Ordering::Release);",
    "without self.thread_id.store(0, Ordering::Relaxed);",
];
