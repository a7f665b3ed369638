//! What the Selector must never do, whatever threads and releasers do and wherever they die.

use std::cell::Cell;
use std::collections::BTreeMap;

use egeria_admission::{
    Admission, Bypass, Phase, PlainWords, Request, Selector, ThreadId, Words, words_for,
};
use egeria_machine::AccessKind;
use proptest::prelude::*;

const THREADS: u32 = 6;

#[derive(Clone, Copy, Debug)]
enum Op {
    Claim,
    Publish(u32, u64),
    Begin(u32),
    End(u32),
    Withdraw(u32),
    /// The thread ended or died, and this was noticed.
    Retire(u32),
    Lend(u32),
    Limit(u32),
    Release,
    /// A releaser dies after this many of its stores.
    ReleaseAndDie(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let id = || 0..THREADS;
    let bytes = prop_oneof![0..256_u64, 256..100_000_u64];
    prop_oneof![
        2 => Just(Op::Claim),
        6 => (id(), bytes).prop_map(|(id, bytes)| Op::Publish(id, bytes)),
        5 => id().prop_map(Op::Begin),
        5 => id().prop_map(Op::End),
        1 => id().prop_map(Op::Withdraw),
        1 => id().prop_map(Op::Retire),
        1 => id().prop_map(Op::Lend),
        1 => (0..5_u32).prop_map(Op::Limit),
        5 => Just(Op::Release),
        2 => (0..3_u32).prop_map(Op::ReleaseAndDie),
    ]
}

/// The words as seen by a process that dies after this many stores: later stores do not happen.
struct Mortal<'a> {
    words: &'a PlainWords,
    left: Cell<u32>,
}

impl Mortal<'_> {
    fn lives(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }
}

impl Words for Mortal<'_> {
    fn count(&self) -> usize {
        self.words.count()
    }

    fn load(&self, at: usize) -> u64 {
        self.words.load(at)
    }

    fn store(&self, at: usize, value: u64) {
        if self.lives() {
            self.words.store(at, value);
        }
    }

    fn replace(&self, at: usize, old: u64, new: u64) -> bool {
        !self.lives() || self.words.replace(at, old, new)
    }
}

/// A Selector, and the expected state.
struct World {
    words: PlainWords,
    /// Phases of the threads at the last check.
    seen: Vec<Phase>,
    /// For each waiter: the threads released since it published, and how often.
    passed_by: BTreeMap<u32, BTreeMap<(u32, u32), u32>>,
    /// How many owners each id had.
    owners: [u32; THREADS as usize],
}

impl World {
    fn new() -> World {
        World {
            words: PlainWords::new(words_for(THREADS)),
            seen: vec![Phase::Free; THREADS as usize],
            passed_by: BTreeMap::new(),
            owners: [0; THREADS as usize],
        }
    }

    fn selector(&self) -> Selector<&PlainWords> {
        Selector::new(&self.words, Bypass::default())
    }

    fn phases(&self) -> Vec<Phase> {
        let selector = self.selector();
        (0..THREADS)
            .map(|id| selector.phase(ThreadId(id)))
            .collect()
    }

    fn act(&mut self, op: Op) -> Result<(), TestCaseError> {
        let admitted = self.selector().admitted();
        self.step(op)?;
        self.follow()?;
        let (selector, now) = (self.selector(), self.phases());
        let counted = |phase: &&Phase| matches!(phase, Phase::Released | Phase::Serving);
        let places = now.iter().filter(counted).count() as u32;
        prop_assert_eq!(selector.admitted(), places);
        prop_assert!(
            places <= admitted.max(selector.limit()),
            "beyond the limit by {:?}",
            op
        );
        Ok(())
    }

    fn step(&mut self, op: Op) -> Result<(), TestCaseError> {
        let selector = Selector::new(&self.words, Bypass::default());
        match op {
            Op::Claim => {
                if let Ok(thread) = selector.claim() {
                    self.owners[thread.0 as usize] += 1;
                }
            }
            Op::Publish(id, bytes) => {
                let thread = ThreadId(id);
                let admission = selector.publish(thread, request(bytes));
                let is_small = bytes < 256;
                match admission {
                    Ok(Admission::Pass) => prop_assert!(is_small && selector.may_begin(thread)),
                    Ok(Admission::Wait) => prop_assert!(!is_small && !selector.may_begin(thread)),
                    Ok(Admission::Admitted) => prop_assert!(false, "without a release"),
                    Err(_) => {}
                }
            }
            Op::Begin(id) => _ = selector.begin(ThreadId(id)),
            Op::End(id) => _ = selector.end(ThreadId(id)),
            Op::Withdraw(id) => _ = selector.withdraw(ThreadId(id)),
            Op::Retire(id) => _ = selector.retire(ThreadId(id)),
            Op::Lend(id) => _ = selector.lend(ThreadId(id)),
            Op::Limit(limit) => selector.set_limit(limit),
            Op::Release => self.release_all()?,
            Op::ReleaseAndDie(left) => {
                let left = Cell::new(left);
                let words = Mortal {
                    words: &self.words,
                    left,
                };
                let _ = Selector::new(words, Bypass::default()).release();
            }
        }
        Ok(())
    }

    fn release_all(&mut self) -> Result<(), TestCaseError> {
        loop {
            if self.selector().release().is_none() {
                break;
            }
            self.follow()?;
        }
        let selector = self.selector();
        let is_full = selector.admitted() >= selector.limit();
        prop_assert!(
            is_full || selector.waiting() == 0,
            "a place is free and somebody waits"
        );
        Ok(())
    }

    /// Records the waiters and the threads released since the last call.
    fn follow(&mut self) -> Result<(), TestCaseError> {
        let now = self.phases();
        let before = std::mem::replace(&mut self.seen, now.clone());
        for id in 0..THREADS {
            let (was, is) = (before[id as usize], now[id as usize]);
            if is != Phase::Waiting {
                self.passed_by.remove(&id);
            }
            if was == Phase::Waiting && is == Phase::Released {
                self.pass(id)?;
            }
            if is == Phase::Waiting && was != Phase::Waiting {
                self.passed_by.insert(id, BTreeMap::new());
            }
        }
        Ok(())
    }

    /// A thread was released: it passes every thread that still waits.
    fn pass(&mut self, id: u32) -> Result<(), TestCaseError> {
        let thread = (id, self.owners[id as usize]);
        for (waiter, passed) in &mut self.passed_by {
            let times = passed.entry(thread).or_default();
            *times += 1;
            prop_assert!(*times < 2, "{} was passed twice by {}", waiter, id);
            let all: u32 = passed.values().sum();
            prop_assert!(all < THREADS, "{} waits for more than one round", waiter);
        }
        Ok(())
    }

    /// Ends everything in progress, by the protocol or by death.
    fn finish(&mut self, dies: &[bool]) -> Result<(), TestCaseError> {
        for id in 0..THREADS {
            if dies[id as usize] {
                self.act(Op::Retire(id))?;
            }
        }
        for _ in 0..=THREADS {
            self.act(Op::Release)?;
            for id in 0..THREADS {
                self.act(Op::Begin(id))?;
                self.act(Op::End(id))?;
            }
        }
        Ok(())
    }
}

fn request(bytes: u64) -> Request {
    let kind = AccessKind::Write;
    Request { kind, bytes }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn limit_and_fairness_hold_whatever_happens(ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::new();
        for op in ops {
            world.act(op)?;
        }
    }

    #[test]
    fn no_place_is_lost_whoever_dies(
        ops in prop::collection::vec(op(), 1..80),
        dies in prop::collection::vec(any::<bool>(), THREADS as usize),
        limit in 1..=THREADS,
    ) {
        let mut world = World::new();
        for op in ops {
            world.act(op)?;
        }
        world.finish(&dies)?;
        prop_assert_eq!((world.selector().admitted(), world.selector().waiting()), (0, 0));
        // All threads ask again: exactly as many as the limit says are admitted.
        for _ in 0..THREADS {
            world.act(Op::Claim)?;
        }
        for id in 0..THREADS {
            world.act(Op::Publish(id, 4096))?;
        }
        world.act(Op::Limit(limit))?;
        world.act(Op::Release)?;
        prop_assert_eq!(world.selector().admitted(), limit);
    }

    #[test]
    fn nobody_starves_while_others_ask_again_at_once(
        limit in 1..THREADS,
        ends in prop::collection::vec(0..THREADS, 60),
    ) {
        let mut world = World::new();
        world.act(Op::Limit(limit))?;
        for _ in 0..THREADS {
            world.act(Op::Claim)?;
        }
        let mut served = [0_u32; THREADS as usize];
        let mut accesses = 0;
        for id in ends {
            // All ask; the thread with this id ends its access if it is being served.
            for id in 0..THREADS {
                world.act(Op::Publish(id, 4096))?;
            }
            world.act(Op::Release)?;
            world.act(Op::Begin(id))?;
            if world.selector().phase(ThreadId(id)) == Phase::Serving {
                world.act(Op::End(id))?;
                served[id as usize] += 1;
                accesses += 1;
            }
        }
        for (id, &count) in served.iter().enumerate() {
            // `limit` of the threads may be admitted and never get an `End` from the test.
            let is_in = world.selector().phase(ThreadId(id as u32)) == Phase::Released;
            prop_assert!(count > 0 || is_in || accesses < THREADS, "{} of {:?}", id, served);
        }
    }

    #[test]
    fn order_of_asking_between_two_releases_does_not_matter(
        before in prop::collection::vec(op(), 0..40),
        order in Just((0..THREADS).collect::<Vec<_>>()).prop_shuffle(),
        limit in 1..=THREADS,
    ) {
        let run = |order: &[u32]| -> Result<Vec<u32>, TestCaseError> {
            let mut world = World::new();
            for &op in &before {
                world.act(op)?;
            }
            world.act(Op::Limit(limit))?;
            for &id in order {
                world.act(Op::Publish(id, 4096))?;
            }
            let selector = world.selector();
            Ok(std::iter::from_fn(|| selector.release()).map(|thread| thread.0).collect())
        };
        let sorted: Vec<u32> = (0..THREADS).collect();
        prop_assert_eq!(run(&order)?, run(&sorted)?);
    }
}

#[test]
fn a_releaser_that_dies_costs_nobody_his_turn() {
    for stores in 0..3 {
        let words = PlainWords::new(words_for(3));
        let all = Selector::new(&words, Bypass::default());
        let round = |id| {
            let thread = ThreadId(id);
            all.begin(thread)
                .and_then(|()| all.end(thread))
                .expect("released");
            all.publish(thread, request(4096)).expect("idle again")
        };
        for id in 0..3 {
            all.claim().expect("one for each");
            assert_eq!(
                all.publish(ThreadId(id), request(4096)),
                Ok(Admission::Wait)
            );
        }
        assert_eq!(all.release(), Some(ThreadId(0)));
        assert_eq!(round(0), Admission::Wait);
        // It is the turn of thread 1, and its releaser dies.
        let left = Cell::new(stores);
        let dying = Selector::new(
            Mortal {
                words: &words,
                left,
            },
            Bypass::default(),
        );
        let _ = dying.release();
        let is_done = all.phase(ThreadId(1)) == Phase::Released;
        assert_eq!(is_done, stores == 2, "the second store releases");
        if !is_done {
            assert_eq!(all.release(), Some(ThreadId(1)), "after {stores} stores");
        }
        assert_eq!(round(1), Admission::Wait);
        assert_eq!(all.release(), Some(ThreadId(2)), "and none has it twice");
    }
}
