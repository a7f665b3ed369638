//! The Selector, step by step, with deaths in every state.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

use egeria_admission::{
    Admission, Bypass, Phase, PlainWords, Request, Selector, StepError, ThreadId, Words, words_for,
};
use egeria_machine::AccessKind;

const LARGE: Request = Request {
    kind: AccessKind::Write,
    bytes: 4096,
};
const SMALL: Request = Request {
    kind: AccessKind::Read,
    bytes: 64,
};

fn selector(threads: u32, limit: u32) -> Selector<PlainWords> {
    let selector = Selector::new(PlainWords::new(words_for(threads)), Bypass::default());
    selector.set_limit(limit);
    for id in 0..threads {
        assert_eq!(selector.claim(), Ok(ThreadId(id)));
    }
    selector
}

fn wait(selector: &Selector<impl Words>, id: u32) {
    assert_eq!(selector.publish(ThreadId(id), LARGE), Ok(Admission::Wait));
}

fn released(selector: &Selector<impl Words>) -> Vec<u32> {
    std::iter::from_fn(|| selector.release())
        .map(|thread| thread.0)
        .collect()
}

#[test]
fn a_request_goes_through_the_protocol_of_the_paper() {
    let selector = selector(2, 1);
    let thread = ThreadId(0);
    wait(&selector, 0);
    assert!(!selector.may_begin(thread), "its running lock is shut");
    assert_eq!(selector.requests().collect::<Vec<_>>(), [LARGE]);
    assert_eq!((selector.admitted(), selector.waiting()), (0, 1));
    assert_eq!(released(&selector), [0]);
    assert!(selector.may_begin(thread));
    assert_eq!(
        selector.admitted(),
        1,
        "its place is kept from the release on"
    );
    assert_eq!(selector.begin(thread), Ok(()));
    assert_eq!(selector.end(thread), Ok(true), "a place became free");
    assert_eq!(selector.requests().count(), 0, "and the request is cleared");
    assert_eq!(selector.admitted(), 0);
}

#[test]
fn no_more_than_the_limit_are_released_before_anybody_begins() {
    // The test `T_S >= T` of Algorithm 1, with a count that is raised at begin, would release all eight threads.
    let selector = selector(8, 3);
    (0..8).for_each(|id| wait(&selector, id));
    assert_eq!(released(&selector), [0, 1, 2]);
    assert_eq!(released(&selector), []);
}

#[test]
fn release_goes_round() {
    let selector = selector(4, 1);
    let mut order = Vec::new();
    (0..4).for_each(|id| wait(&selector, id));
    for _ in 0..10 {
        let [id] = released(&selector)[..] else {
            panic!("one place, one release");
        };
        order.push(id);
        selector.begin(ThreadId(id)).expect("released");
        selector.end(ThreadId(id)).expect("began");
        wait(&selector, id);
    }
    assert_eq!(order, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
}

#[test]
fn small_requests_neither_wait_nor_count() {
    let selector = selector(3, 1);
    wait(&selector, 0);
    assert_eq!(released(&selector), [0]);
    for id in [1, 2] {
        let thread = ThreadId(id);
        assert_eq!(selector.publish(thread, SMALL), Ok(Admission::Pass));
        assert!(selector.may_begin(thread));
    }
    assert_eq!(selector.admitted(), 1);
    assert_eq!(selector.requests().count(), 3, "the Collector sees them");
    assert_eq!(selector.end(ThreadId(1)), Ok(false));
}

#[test]
fn a_limit_that_falls_lets_those_admitted_finish() {
    let selector = selector(6, 4);
    (0..6).for_each(|id| wait(&selector, id));
    assert_eq!(released(&selector), [0, 1, 2, 3]);
    selector.set_limit(0);
    assert_eq!(selector.limit(), 1, "never below 1");
    for id in 0..3 {
        selector.begin(ThreadId(id)).expect("still released");
        selector.end(ThreadId(id)).expect("began");
        assert_eq!(released(&selector), [], "{} are left", selector.admitted());
    }
    selector.begin(ThreadId(3)).expect("released");
    selector.end(ThreadId(3)).expect("began");
    assert_eq!(released(&selector), [4]);
    selector.set_limit(2);
    assert_eq!(
        released(&selector),
        [5],
        "a limit that rises takes effect at once"
    );
}

/// Brings thread 0 of a new selector with limit 1 into a phase; thread 1 waits.
fn with_thread_in(phase: Phase) -> Selector<PlainWords> {
    let selector = selector(2, 1);
    let thread = ThreadId(0);
    if phase == Phase::Passing {
        let _ = selector.publish(thread, SMALL).expect("idle");
    } else if phase != Phase::Idle {
        wait(&selector, 0);
    }
    if matches!(phase, Phase::Released | Phase::Serving | Phase::Overdue) {
        assert_eq!(released(&selector), [0]);
    }
    if phase == Phase::Serving {
        selector.begin(thread).expect("released");
    }
    if phase == Phase::Overdue {
        assert_eq!(selector.lend(thread), Ok(true));
    }
    wait(&selector, 1);
    assert_eq!(selector.phase(thread), phase);
    selector
}

const OWNED: [Phase; 6] = [
    Phase::Idle,
    Phase::Waiting,
    Phase::Released,
    Phase::Serving,
    Phase::Passing,
    Phase::Overdue,
];

#[test]
fn a_thread_that_dies_in_any_state_gives_its_place_back() {
    for phase in OWNED {
        let selector = with_thread_in(phase);
        let had_place = matches!(phase, Phase::Released | Phase::Serving);
        assert_eq!(selector.retire(ThreadId(0)), Ok(had_place), "{phase:?}");
        assert_eq!(released(&selector), [1], "{phase:?}");
        assert_eq!(selector.requests().count(), 1, "its request is cleared");
        assert_eq!(selector.claim(), Ok(ThreadId(0)), "its id is recycled");
        assert_eq!(selector.phase(ThreadId(0)), Phase::Idle);
    }
}

#[test]
fn steps_out_of_turn_are_errors_and_change_nothing() {
    type Step = fn(&Selector<PlainWords>, ThreadId) -> Result<(), StepError>;
    let steps: [(Step, &[Phase]); 4] = [
        (|all, id| all.publish(id, LARGE).map(|_| ()), &[Phase::Idle]),
        (|all, id| all.begin(id), &[Phase::Released, Phase::Overdue]),
        (
            |all, id| all.end(id).map(|_| ()),
            &[Phase::Serving, Phase::Passing, Phase::Overdue],
        ),
        (
            |all, id| all.withdraw(id).map(|_| ()),
            &[Phase::Waiting, Phase::Released],
        ),
    ];
    for phase in OWNED {
        for (step, allowed) in steps {
            let selector = with_thread_in(phase);
            let outcome = step(&selector, ThreadId(0));
            assert_eq!(outcome.is_ok(), allowed.contains(&phase), "{phase:?}");
            if let Err(error) = outcome {
                let line = error.to_string();
                assert!(line.contains("thread 0 is") && line.contains(';'), "{line}");
                assert_eq!(selector.phase(ThreadId(0)), phase);
            }
        }
    }
}

#[test]
fn ids_end_where_the_array_ends() {
    let selector = selector(2, 1);
    assert_eq!(selector.claim(), Err(StepError::Full { length: 2 }));
    let stray = ThreadId(2);
    let error = selector.publish(stray, LARGE).expect_err("no such id");
    assert_eq!(error, StepError::NoSuchThread { id: 2, length: 2 });
    assert!(selector.lend(stray).is_err() && selector.retire(stray).is_err());
    assert_eq!(selector.phase(stray), Phase::Free);
    selector.retire(ThreadId(0)).expect("owned");
    assert!(selector.retire(ThreadId(0)).is_err(), "only once");
}

#[test]
fn a_place_held_for_too_long_is_lent() {
    let selector = with_thread_in(Phase::Serving);
    assert_eq!(released(&selector), []);
    assert_eq!(selector.lend(ThreadId(0)), Ok(true));
    assert_eq!(
        selector.lend(ThreadId(0)),
        Ok(false),
        "it has none any more"
    );
    assert_eq!(released(&selector), [1]);
    assert_eq!(
        selector.end(ThreadId(0)),
        Ok(false),
        "the place went before"
    );
    assert_eq!(selector.admitted(), 1);
}

#[test]
fn who_was_released_and_slept_begins_without_a_place() {
    let selector = with_thread_in(Phase::Released);
    assert_eq!(selector.lend(ThreadId(0)), Ok(true));
    assert_eq!(released(&selector), [1]);
    assert_eq!(selector.begin(ThreadId(0)), Ok(()));
    assert_eq!(selector.admitted(), 1);
    assert_eq!(selector.end(ThreadId(0)), Ok(false));
}

#[test]
fn huge_requests_are_seen_as_huge() {
    let selector = selector(1, 1);
    let huge = Request {
        kind: AccessKind::Read,
        bytes: u64::MAX - 4095,
    };
    assert_eq!(selector.publish(ThreadId(0), huge), Ok(Admission::Wait));
    let seen = selector.requests().next().expect("published");
    assert_eq!((seen.kind, seen.bytes), (AccessKind::Read, u32::MAX.into()));
}

#[test]
fn words_that_cannot_be_do_no_harm() {
    let words = PlainWords::new(words_for(3));
    for at in 0..words.count() {
        words.store(at, u64::MAX);
    }
    let selector = Selector::new(words, Bypass::default());
    assert_eq!((selector.admitted(), selector.waiting()), (0, 0));
    assert_eq!(selector.limit(), u32::MAX);
    assert_eq!(selector.release(), None);
    assert_eq!(selector.claim(), Ok(ThreadId(0)));
    wait(&selector, 0);
    assert_eq!(released(&selector), [0]);
    let none = Selector::new(PlainWords::new(1), Bypass::default());
    assert_eq!(none.claim(), Err(StepError::Full { length: 0 }));
}

/// Memory that all threads share.
struct Shared(Vec<AtomicU64>);

impl Words for Shared {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.0[at].load(SeqCst)
    }

    fn store(&self, at: usize, value: u64) {
        self.0[at].store(value, SeqCst);
    }

    fn replace(&self, at: usize, old: u64, new: u64) -> bool {
        self.0[at]
            .compare_exchange(old, new, SeqCst, SeqCst)
            .is_ok()
    }
}

/// State that the test's threads share: the words, the lock for releasing, and the true counts.
struct Governor {
    words: Shared,
    releasing: Mutex<()>,
    serving: AtomicU32,
    most: AtomicU32,
    done: AtomicU32,
}

impl Governor {
    fn selector(&self) -> Selector<&Shared> {
        Selector::new(&self.words, Bypass::default())
    }

    fn release(&self) {
        let _one_at_a_time = self.releasing.lock().expect("nobody panics");
        while self.selector().release().is_some() {}
    }

    /// Publishes, waits, accesses, ends; or stops forever at the step that `dies` names.
    fn access(&self, thread: ThreadId, dies: Option<Phase>) {
        let selector = self.selector();
        let _ = selector.publish(thread, LARGE).expect("idle");
        if dies == Some(Phase::Waiting) {
            return;
        }
        self.release();
        while !selector.may_begin(thread) {
            std::thread::yield_now();
        }
        if dies == Some(Phase::Released) {
            return;
        }
        selector.begin(thread).expect("released");
        let serving = self.serving.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(serving, SeqCst);
        std::thread::yield_now();
        self.serving.fetch_sub(1, SeqCst);
        if dies == Some(Phase::Serving) {
            return;
        }
        selector.end(thread).expect("began");
        self.done.fetch_add(1, SeqCst);
        self.release();
    }
}

#[test]
fn the_same_code_governs_threads_over_atomics() {
    const THREADS: u32 = 6;
    const ROUNDS: u32 = 300;
    const DEATHS: [Phase; 3] = [Phase::Waiting, Phase::Released, Phase::Serving];
    let governor = Governor {
        words: Shared((0..words_for(THREADS)).map(|_| AtomicU64::new(0)).collect()),
        releasing: Mutex::new(()),
        serving: AtomicU32::new(0),
        most: AtomicU32::new(0),
        done: AtomicU32::new(0),
    };
    governor.selector().set_limit(2);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..THREADS {
            let (governor, failed) = (&governor, &failed);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let thread = governor.selector().claim().expect("one for each");
                    let death = DEATHS.get((round + worker) as usize % 7).copied();
                    governor.access(thread, death);
                    // The thread that finds another one dead retires it and releases waiters.
                    governor.selector().retire(thread).expect("owned");
                    governor.release();
                }
                failed.fetch_or(governor.most.load(SeqCst) > 2, SeqCst);
            });
        }
    });
    assert!(
        !failed.load(SeqCst),
        "{} at once",
        governor.most.load(SeqCst)
    );
    assert!(governor.done.load(SeqCst) > ROUNDS);
    let selector = governor.selector();
    assert_eq!((selector.admitted(), selector.waiting()), (0, 0));
}
