//! Bounds in a directory that behaves like resctrl, next to others that use it, and killed at any call.

mod fake;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use egeria_facts::{Facts, ProcessKey, ThreadKey, Window};
use egeria_machine::resctrl::{BandwidthAllocation as Allocation, BandwidthDomain, BandwidthUnit};
use egeria_machine::{Machine, NodeId};
use egeria_pages::accesses::damon::Sysfs;
use egeria_policy::control::Actuator;
use egeria_policy::mba::{BoundBecause, MbaPlan, Share, UnboundBecause};
use egeria_policy::{Action, ActionOutcome};
use egeria_proc::Membership;
use proptest::prelude::*;

use super::BandwidthAllocation;
use crate::journal::Journal;
use fake::{Fake, Killed, MOST, Place, Thread};

const OURS: &str = "egeria-processes";
const OTHERS: [&str; 2] = ["database", "egeria-volume"];
const MONITORS: [&str; 2] = ["first", "second"];

struct Anyone;

impl Membership for Anyone {
    fn holds(&self, _: ThreadKey) -> bool {
        true
    }
}

/// Three processes of two threads: 100 and 101, 200 and 201, 300 and 301.
struct Machinery {
    folder: tempfile::TempDir,
    fake: Fake,
    actuator: Option<BandwidthAllocation>,
    /// Where each thread would be without us.
    home: BTreeMap<u32, Place>,
    /// The values that another gave our group, if it did.
    taken: Option<String>,
    /// Threads that may have been on their way to their monitoring groups when a steward was killed, and these.
    half_way: BTreeMap<u32, Place>,
}

impl Machinery {
    fn new() -> Machinery {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let fake = Fake::new(folder.path(), 4);
        let mut state = fake.state();
        for group in OTHERS {
            state.make(group).unwrap();
            state.set(group, "MB:0=70;1=30").unwrap();
        }
        state.monitors.extend(MONITORS.map(str::to_owned));
        let mut home = BTreeMap::new();
        for process in [100, 200, 300] {
            for id in [process, process + 1] {
                let place = Place::default();
                let thread = Thread { process, place };
                home.insert(id, thread.place.clone());
                state.threads.insert(id, thread);
            }
        }
        state.show();
        drop(state);
        let mut all = Machinery {
            folder,
            fake,
            actuator: None,
            home,
            taken: None,
            half_way: BTreeMap::new(),
        };
        all.start();
        all
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    /// A new steward; it undoes what one before it left.
    fn start(&mut self) {
        let (path, log) = (self.journal(), self.folder.path().join("log"));
        let begun = Instant::now();
        let journal = loop {
            match Journal::open_on((&self.fake, &no_observers()), &path, &log) {
                Ok((journal, _)) => break journal,
                // A program that another test starts has the journal's lock until it runs.
                Err(error) if begun.elapsed() > Duration::from_secs(60) => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let domain = |cache| BandwidthDomain {
            cache,
            nodes: vec![NodeId(cache as u16)],
        };
        let allocation = Allocation {
            unit: BandwidthUnit::Percent,
            min: 10,
            step: 10,
            groups: 4,
            is_linear: true,
            is_per_thread: true,
            domains: vec![domain(0), domain(1)],
        };
        let kernel = Box::new(self.fake.clone());
        self.actuator = Some(BandwidthAllocation::on(
            kernel,
            allocation,
            "processes",
            Arc::new(Anyone),
            journal,
        ));
    }

    /// The steward is gone; only its journal is left.
    fn kill(&mut self) {
        let monitored = self.home.iter().filter(|(_, home)| home.1.is_some());
        let monitored = monitored.map(|(id, home)| (*id, home.clone()));
        self.half_way.extend(monitored);
        if let Some(actuator) = &mut self.actuator {
            actuator.group = None;
        }
        self.actuator = None;
    }

    fn apply(&mut self, plan: MbaPlan) -> ActionOutcome {
        let facts = Facts::of(Window::empty(
            &Machine::profile("xeon-2s-dram").unwrap(),
            0,
            0,
            1,
        ));
        let actuator = self.actuator.as_mut().unwrap();
        actuator.apply(&Action::SetMba { plan }, &facts)
    }

    fn bound(&mut self, processes: &[u32], share: f64) -> ActionOutcome {
        self.apply(on(processes, share))
    }

    fn place(&self, thread: u32) -> Place {
        self.fake.state().threads[&thread].place.clone()
    }

    /// Every thread and group is as if there had been no steward.
    fn check(&self) {
        let state = self.fake.state();
        for (id, thread) in &state.threads {
            // If others sent a thread to the default group that was half-way back, it goes on all the same.
            if self.half_way.get(id) != Some(&thread.place) {
                assert_eq!(thread.place, self.home[id], "thread {id}");
            }
        }
        assert_eq!(state.schemata(OURS), self.taken.as_deref());
        for group in OTHERS {
            assert_eq!(
                state.schemata(group),
                Some(MOST.replace("0=100;1=100", "0=70;1=30").as_str())
            );
        }
        let default = MOST.replace("L3:0=7ff", "L3:0=0ff");
        assert_eq!(state.schemata(""), Some(default.as_str()));
    }
}

fn on(processes: &[u32], share: f64) -> MbaPlan {
    let key = |process: &u32| ProcessKey {
        process_id: *process,
        start_ticks: 0,
    };
    MbaPlan::On {
        processes: processes.iter().map(key).collect(),
        shares: vec![Share {
            node: NodeId(0),
            share,
            bytes_s: 1e9,
        }],
        because: BoundBecause {
            node: NodeId(0),
            threads: 16.0,
            bears: 8,
            traffic_bytes_s: 1e9,
            expected_bytes_s: 2e9,
        },
    }
}

fn off() -> MbaPlan {
    MbaPlan::Off {
        because: UnboundBecause::Quiet,
    }
}

fn reason(outcome: ActionOutcome) -> String {
    match outcome {
        ActionOutcome::Refused { reason } | ActionOutcome::GoesOn { reason } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn threads_of_a_plan_get_its_share_and_go_back() {
    let mut all = Machinery::new();
    all.fake
        .state()
        .move_to(101, (String::new(), Some("first".to_owned())))
        .unwrap();
    all.home
        .insert(101, (String::new(), Some("first".to_owned())));
    assert_eq!(all.bound(&[100, 200], 0.41), ActionOutcome::Done);
    let ours = (OURS.to_owned(), None);
    assert!([100, 101, 200, 201].iter().all(|id| all.place(*id) == ours));
    assert_eq!(all.place(300), Place::default());
    // The caches of the default group, and more than the share rather than less.
    let schemata = all.fake.state().schemata(OURS).unwrap().to_owned();
    assert_eq!(schemata, "    L3:0=0ff;1=7ff\n    MB:0=50;1=100\n");
    assert_eq!(all.bound(&[200, 300], 0.2), ActionOutcome::Done);
    assert_eq!(all.place(101), all.home[&101]);
    assert_eq!((all.place(200), all.place(301)), (ours.clone(), ours));
    assert_eq!(all.apply(off()), ActionOutcome::Done);
    all.check();
}

#[test]
fn threads_in_the_groups_of_others_are_left_with_a_reason() {
    let mut all = Machinery::new();
    for id in [100, 101, 200] {
        let place = ("database".to_owned(), None);
        all.fake.state().move_to(id, place.clone()).unwrap();
        all.home.insert(id, place);
    }
    let why = reason(all.bound(&[100], 0.5));
    assert_eq!(
        why,
        "2 threads stay in the group database, where another put them"
    );
    all.check();
    let why = reason(all.bound(&[100, 200], 0.5));
    assert_eq!(why, "3 threads stay in the group database");
    assert_eq!(all.place(201).0, OURS);
    all.actuator = None;
    all.check();
}

#[test]
fn a_group_of_the_same_name_is_not_taken() {
    let mut all = Machinery::new();
    all.fake.state().make(OURS).unwrap();
    all.taken = Some(MOST.to_owned());
    let why = reason(all.bound(&[100], 0.5));
    assert!(
        why.contains("rmdir /sys/fs/resctrl/egeria-processes"),
        "{why}"
    );
    all.actuator = None;
    all.start();
    all.check();
}

/// A kernel without DAMON.
fn no_observers() -> Sysfs {
    Sysfs::below(Path::new("/nonexistent"))
}

#[test]
fn a_machine_that_cannot_bound_says_why_and_what_to_do() {
    let all = Machinery::new();
    let (journal, _) = Journal::open_on(
        (&all.fake, &no_observers()),
        &all.folder.path().join("other"),
        all.folder.path(),
    )
    .unwrap();
    let root = tempfile::tempdir_in("/dev/shm").unwrap();
    let machine = Machine::profile("xeon-2s-dram").unwrap();
    let why = || {
        let members = Arc::new(Anyone);
        let begun =
            BandwidthAllocation::begin(root.path(), &machine, "x", members, journal.clone());
        begun.err().unwrap()
    };
    assert!(why().starts_with("the kernel has no resctrl"), "{}", why());
    std::fs::create_dir_all(root.path().join("sys/fs/resctrl")).unwrap();
    let remedy = "resctrl is not mounted; mount -t resctrl resctrl /sys/fs/resctrl";
    assert_eq!(why(), remedy);
}

#[test]
fn without_a_group_left_or_a_smaller_share_nothing_happens() {
    let mut all = Machinery::new();
    let why = reason(all.bound(&[100], 0.97));
    assert_eq!(why, "no share is smaller than what the default group has");
    all.fake.state().make("third").unwrap();
    let why = reason(all.bound(&[100], 0.5));
    assert!(why.contains("all 4 groups of the CPU are in use"), "{why}");
    let why = reason(all.bound(&[], 0.5));
    assert!(why.contains("in use"), "{why}");
    all.check();
    all.fake.state().remove("third").unwrap();
    assert_eq!(
        reason(all.bound(&[999], 0.5)),
        "all their threads have ended"
    );
    all.check();
}

/// What others and programs do.
#[derive(Clone, Debug)]
enum Event {
    Bound(Vec<u32>, f64),
    Free,
    /// Another moves a process: to the default group or one of its own.
    Move(usize, usize),
    /// Another monitors a process in the default group.
    Monitor(usize, usize),
    RemoveMonitor(usize),
    /// A thread starts another thread, or another process.
    Start(usize, bool),
    End(usize),
    RemoveOurs,
    ChangeOurs,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let processes = prop::sample::subsequence(vec![100u32, 200, 300], 1..=3);
    let event = prop_oneof![
        4 => (processes, 0.05f64..0.9).prop_map(|(processes, share)| Event::Bound(processes, share)),
        1 => Just(Event::Free),
        2 => (0usize..20, 0usize..3).prop_map(|(thread, group)| Event::Move(thread, group)),
        2 => (0usize..20, 0usize..2).prop_map(|(thread, monitor)| Event::Monitor(thread, monitor)),
        1 => (0usize..2).prop_map(Event::RemoveMonitor),
        2 => (0usize..20, any::<bool>()).prop_map(|(thread, forks)| Event::Start(thread, forks)),
        1 => (0usize..20).prop_map(Event::End),
        1 => Just(Event::RemoveOurs),
        1 => Just(Event::ChangeOurs),
    ];
    prop::collection::vec(event, 1..16)
}

impl Machinery {
    fn nth(&self, index: usize) -> Option<u32> {
        let state = self.fake.state();
        let count = state.threads.len().max(1);
        state.threads.keys().nth(index % count).copied()
    }

    /// What happens without the steward.
    fn happens(&mut self, event: &Event) {
        let thread = match event {
            Event::Move(index, _)
            | Event::Monitor(index, _)
            | Event::Start(index, _)
            | Event::End(index) => self.nth(*index),
            _ => None,
        };
        let mut state = self.fake.state();
        match event {
            Event::Move(_, group) => {
                let Some(thread) = thread else { return };
                let group = ["", OTHERS[0], OTHERS[1]][*group];
                let place = (group.to_owned(), None);
                let own = state.threads_like(thread);
                // After a kill, a thread that was half-way back is where another would send it: not to be told apart.
                let is_monitored = own.iter().any(|id| self.home[id].1.is_some());
                if self.actuator.is_none() && group.is_empty() && is_monitored {
                    return;
                }
                for id in own {
                    state.move_to(id, place.clone()).unwrap();
                    self.home.insert(id, place.clone());
                }
            }
            Event::Monitor(_, monitor) => {
                let Some(thread) = thread else { return };
                let own = state.threads_like(thread);
                let place: Place = (String::new(), Some(MONITORS[*monitor].to_owned()));
                if own.iter().all(|id| state.threads[id].place.0.is_empty())
                    && state.monitors.contains(MONITORS[*monitor])
                {
                    for id in own {
                        state.move_to(id, place.clone()).unwrap();
                        self.home.insert(id, place.clone());
                    }
                }
            }
            Event::RemoveMonitor(monitor) => {
                let monitor = MONITORS[*monitor];
                state.monitors.remove(monitor);
                let places = state.threads.values_mut().map(|thread| &mut thread.place);
                for place in places.chain(self.home.values_mut()) {
                    place.1.take_if(|name| name == monitor);
                }
                state.show();
            }
            Event::Start(_, forks) => {
                let Some(thread) = thread else { return };
                let mut new = state.threads[&thread].clone();
                let id = state.next_id();
                if *forks {
                    state.parents.insert(id, new.process);
                    new.process = id;
                }
                state.threads.insert(id, new);
                let parent = state.threads[&thread].place.clone();
                let is_inside = parent.0 == OURS;
                let home = if is_inside {
                    self.home[&thread].clone()
                } else {
                    parent
                };
                self.home.insert(id, home);
                state.show();
            }
            Event::End(_) => {
                let Some(thread) = thread else { return };
                state.threads.remove(&thread);
                state.show();
            }
            Event::RemoveOurs => {
                // Also threads that were half-way back when the steward was killed.
                let inside = state.threads.iter().filter(|(id, thread)| {
                    let is_on_way =
                        thread.place == Place::default() && self.home[id] != thread.place;
                    thread.place.0 == OURS || is_on_way
                });
                let inside: Vec<u32> = inside.map(|(id, _)| *id).collect();
                self.home
                    .extend(inside.into_iter().map(|id| (id, Place::default())));
                let _ = state.remove(OURS);
                self.taken = None;
            }
            Event::ChangeOurs => {
                if state.set(OURS, "MB:0=11;1=11").is_ok() {
                    self.taken = state.schemata(OURS).map(str::to_owned);
                }
            }
            Event::Bound(..) | Event::Free => {}
        }
    }
}

/// Does something that may be killed. Returns whether it was.
fn killed<T>(does: impl FnOnce() -> T) -> bool {
    match catch_unwind(AssertUnwindSafe(does)) {
        Ok(_) => false,
        Err(payload) if payload.is::<Killed>() => true,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

#[test]
fn a_kill_at_any_call_leaves_nothing() {
    for is_done in [false, true] {
        for call in 0.. {
            let mut all = Machinery::new();
            let place = (String::new(), Some("first".to_owned()));
            for id in [100, 101] {
                all.fake.state().move_to(id, place.clone()).unwrap();
                all.home.insert(id, place.clone());
            }
            all.fake.state().killed = Some((call, is_done));
            let is_killed = killed(|| {
                all.bound(&[100, 200], 0.5);
                all.bound(&[200, 300], 0.2);
                all.apply(off());
            });
            all.fake.state().killed = None;
            all.kill();
            all.start();
            all.check();
            if !is_killed {
                assert!(call > 15, "{call} calls");
                break;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    /// Whatever others do, and whenever the steward and the one after it are killed: at the end everything of ours is
    /// gone, and what others did is as they left it.
    #[test]
    fn nothing_is_left_whatever_others_do_and_when_it_is_killed(
        events in events(),
        later in events(),
        kill in prop::option::of((0u32..24, any::<bool>())),
        again in prop::option::of((0u32..8, any::<bool>())),
    ) {
        let mut all = Machinery::new();
        all.fake.state().killed = kill;
        let mut is_killed = false;
        for event in &events {
            let plan = match event {
                Event::Bound(processes, share) => on(processes, *share),
                Event::Free => off(),
                other => {
                    all.happens(other);
                    continue;
                }
            };
            if killed(|| all.apply(plan)) {
                is_killed = true;
                break;
            }
        }
        if is_killed || again.is_some() {
            all.kill();
            // Others and programs go on; those that come later find what is left.
            for event in later.iter().filter(|event| !matches!(event, Event::Bound(..) | Event::Free)) {
                all.happens(event);
            }
            all.fake.state().killed = again;
            if !killed(|| all.start()) {
                all.fake.state().killed = None;
            }
            all.kill();
            all.start();
        }
        all.fake.state().killed = None;
        all.actuator = None;
        all.check();
    }
}
