//! Which workloads there are, cut into units that workers take one by one.

use super::damage::DAMAGES;
use super::grammar;
use super::initial_state::InitialState;
use super::operation::Operation;
use super::pool_change::PoolChange;
use super::workload::Setup;

/// Scenes that take long to set up.
const RARE: [InitialState; 4] = [
    InitialState::LongLog,
    InitialState::LongDirectory,
    InitialState::Full,
    InitialState::Orphan,
];

/// Changes of pools, and the states they begin with.
pub(super) const POOL_CHANGES: [(InitialState, usize, PoolChange); 9] = [
    (InitialState::LastUnused, 2, PoolChange::Add),
    (InitialState::LastUnused, 3, PoolChange::Add),
    (InitialState::Tree, 2, PoolChange::Drain),
    (InitialState::Tree, 2, PoolChange::GiveUp),
    (InitialState::Tree, 2, PoolChange::Remove),
    (InitialState::Tree, 3, PoolChange::Remove),
    (InitialState::LongDirectory, 2, PoolChange::Remove),
    (InitialState::OfVersion(4), 1, PoolChange::Upgrade),
    (InitialState::OfVersion(5), 2, PoolChange::Upgrade),
];

/// Which operations sequences are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alphabet {
    /// Every class of arguments.
    All,
    /// One of each kind.
    Few,
    /// In directories with limits.
    Limits,
}

impl Alphabet {
    pub(super) fn operations(self) -> Vec<Operation> {
        match self {
            Alphabet::All => grammar::all(),
            Alphabet::Few => grammar::few(),
            Alphabet::Limits => grammar::limits(),
        }
    }
}

/// A part of the plan that one worker does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TaskKind {
    /// All sequences of so many operations that begin with this one, the shorter ones looked at first or not.
    Sequences {
        alphabet: Alphabet,
        first: usize,
        lengths: (usize, usize),
        loaded: bool,
    },
    /// A random sequence of so many operations.
    Random {
        seed: u64,
        length: usize,
    },
    /// All pairs that begin with this operation, switched everywhere.
    Pairs {
        first: usize,
        every: usize,
    },
    Making,
    Repair,
    PoolChange(PoolChange),
}

/// A kind, where it is done, and how many images are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Task {
    pub(super) setup: Setup,
    pub(super) kind: TaskKind,
    pub(super) images: usize,
}

/// A part of the plan that can be explored alone, from more states and with more images.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Directories with limits.
    Limits,
    /// Adding, draining and removing a pool; upgrades.
    Pools,
    /// Operations while a snapshot is under way.
    Snapshots,
}

/// How much there is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent<'a> {
    Quick,
    Full,
    Parts(&'a [Part]),
}

/// All there is to do; `delegated`, by delegates, where threads do not take turns and there is a pool more to delegate to.
pub(super) fn tasks(extent: Extent<'_>, seed: u64, delegated: bool) -> Vec<Task> {
    let mut plan = Plan::default();
    match extent {
        Extent::Quick => plan.quick(seed),
        Extent::Full => plan.full(seed),
        Extent::Parts(parts) => plan.parts(parts, seed),
    }
    if delegated {
        let by_delegates =
            |task: &Task| task.setup.pools > 1 && !matches!(task.kind, TaskKind::Pairs { .. });
        plan.tasks.retain(by_delegates);
        for task in &mut plan.tasks {
            task.setup.delegated = true;
        }
    }
    plan.tasks
}

#[derive(Default)]
struct Plan {
    tasks: Vec<Task>,
}

impl Plan {
    fn add(&mut self, initial_state: InitialState, pools: usize, images: usize, kind: TaskKind) {
        let setup = Setup::new(initial_state, pools);
        self.tasks.push(Task {
            setup,
            kind,
            images,
        });
    }

    /// All sequences of these lengths.
    fn sequences(
        &mut self,
        initial_state: InitialState,
        pools: usize,
        images: usize,
        alphabet: Alphabet,
        lengths: (usize, usize),
    ) {
        for first in 0..alphabet.operations().len() {
            let loaded = false;
            let kind = TaskKind::Sequences {
                alphabet,
                first,
                lengths,
                loaded,
            };
            self.add(initial_state, pools, images, kind);
        }
    }

    fn making_and_repair(&mut self, images: usize) {
        for pools in [1, 2] {
            for initial_state in [InitialState::Blank, InitialState::Tree] {
                self.add(initial_state, pools, images, TaskKind::Making);
            }
            for damage in DAMAGES {
                self.add(
                    InitialState::Damaged(damage),
                    pools,
                    images,
                    TaskKind::Repair,
                );
            }
        }
    }

    fn pool_changes(&mut self, images: usize) {
        for (initial_state, pools, change) in POOL_CHANGES {
            let kind = TaskKind::PoolChange(change);
            self.add(initial_state, pools, images, kind);
        }
    }

    fn all_pool_changes(&mut self) {
        let mut add = |initial_state, pools, change| {
            self.add(initial_state, pools, 512, TaskKind::PoolChange(change));
        };
        for pools in [2, 3] {
            add(InitialState::LastUnused, pools, PoolChange::Add);
            for state in [
                InitialState::Tree,
                InitialState::PageEnd(0),
                InitialState::PageEnd(1),
                InitialState::LongLog,
                InitialState::LongDirectory,
                InitialState::InodesFull,
                InitialState::Orphan,
            ] {
                add(state, pools, PoolChange::Drain);
                add(state, pools, PoolChange::GiveUp);
                add(state, pools, PoolChange::Remove);
            }
        }
        for (version, pools) in [(4, 1), (4, 2), (4, 3), (5, 1), (5, 2), (5, 3)] {
            add(InitialState::OfVersion(version), pools, PoolChange::Upgrade);
        }
    }

    fn parts(&mut self, parts: &[Part], seed: u64) {
        for part in parts {
            match part {
                Part::Limits => self.limits(),
                Part::Pools => self.all_pool_changes(),
                Part::Snapshots => self.snapshots(seed),
            }
        }
    }

    fn limits(&mut self) {
        use Alphabet::Limits;
        for pools in [1, 2] {
            self.sequences(InitialState::Limited, pools, 64, Limits, (1, 1));
            self.sequences(InitialState::Limited, pools, 16, Limits, (2, 2));
        }
        self.sequences(InitialState::Limited, 1, 8, Limits, (3, 3));
    }

    fn snapshots(&mut self, seed: u64) {
        use Alphabet::{All, Few};
        self.during_a_snapshot(|plan| {
            for pools in [1, 2] {
                plan.sequences(InitialState::Tree, pools, 64, All, (1, 1));
                plan.sequences(InitialState::Tree, pools, 8, All, (2, 2));
                plan.pairs(pools, 8, 1);
            }
            for state in [
                InitialState::PageEnd(0),
                InitialState::PageEnd(1),
                InitialState::InodesFull,
                InitialState::LongLog,
                InitialState::LongDirectory,
                InitialState::Full,
            ] {
                plan.sequences(state, 1, 12, Few, (1, 2));
            }
            plan.random_sequences(seed, 100, 60, 8);
        });
    }

    /// What `add` adds to the plan, with a snapshot under way.
    fn during_a_snapshot(&mut self, add: impl FnOnce(&mut Plan)) {
        let before = self.tasks.len();
        add(self);
        for task in &mut self.tasks[before..] {
            task.setup.snapshot = true;
        }
    }

    fn random_sequences(&mut self, seed: u64, count: u64, length: usize, images: usize) {
        for number in 0..count {
            let seed = seed ^ number;
            let kind = TaskKind::Random { seed, length };
            self.add(InitialState::Tree, 1 + number as usize % 2, images, kind);
        }
    }

    fn pairs(&mut self, pools: usize, images: usize, every: usize) {
        for first in 0..grammar::few().len() {
            self.add(
                InitialState::Tree,
                pools,
                images,
                TaskKind::Pairs { first, every },
            );
        }
    }

    fn quick(&mut self, seed: u64) {
        use Alphabet::{All, Few, Limits};
        self.making_and_repair(8);
        self.pool_changes(8);
        self.sequences(InitialState::Tree, 1, 12, All, (1, 1));
        self.sequences(InitialState::Tree, 2, 6, All, (1, 1));
        for initial_state in [
            InitialState::PageEnd(0),
            InitialState::PageEnd(1),
            InitialState::InodesFull,
        ] {
            self.sequences(initial_state, 1, 6, All, (1, 1));
        }
        for initial_state in RARE {
            self.sequences(initial_state, 1, 4, Few, (1, 1));
        }
        self.sequences(InitialState::Tree, 1, 4, Few, (2, 2));
        self.sequences(InitialState::Limited, 1, 4, Limits, (1, 1));
        self.pairs(1, 2, 16);
        self.random_sequences(seed, 4, 30, 4);
        self.during_a_snapshot(|plan| {
            plan.sequences(InitialState::Tree, 2, 4, All, (1, 1));
            plan.random_sequences(seed, 2, 30, 4);
        });
    }

    fn full(&mut self, seed: u64) {
        use Alphabet::{All, Few};
        self.making_and_repair(64);
        self.pool_changes(64);
        for pools in [1, 2] {
            for first in 0..All.operations().len() {
                let lengths = (1, 1);
                let kind = TaskKind::Sequences {
                    alphabet: All,
                    first,
                    lengths,
                    loaded: true,
                };
                self.add(InitialState::Tree, pools, 64, kind);
            }
            self.sequences(InitialState::Tree, pools, 64, All, (1, 1));
            self.sequences(InitialState::Tree, pools, 16, All, (2, 2));
            self.pairs(pools, 8, 1);
        }
        for initial_state in [
            InitialState::PageEnd(0),
            InitialState::PageEnd(1),
            InitialState::PageEnd(2),
            InitialState::InodesFull,
        ] {
            self.sequences(initial_state, 1, 12, All, (1, 2));
            self.sequences(initial_state, 2, 8, Few, (1, 2));
        }
        self.limits();
        self.snapshots(seed);
        for initial_state in RARE {
            self.sequences(initial_state, 1, 12, All, (1, 1));
            self.sequences(initial_state, 1, 6, Few, (2, 2));
        }
        self.sequences(InitialState::Tree, 1, 8, Few, (3, 3));
        self.sequences(InitialState::Tree, 2, 5, Few, (3, 3));
        self.random_sequences(seed, 200, 60, 8);
    }
}
