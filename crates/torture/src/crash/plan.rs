//! Which workloads there are, cut into units that workers take one by one.

use super::grammar;
use super::make::DAMAGES;
use super::operation::Operation;
use super::scene::Scene;
use super::workload::Ground;

/// Scenes that take long to set up.
const RARE: [Scene; 4] = [
    Scene::LongLog,
    Scene::LongDirectory,
    Scene::Full,
    Scene::Orphan,
];

/// Which operations sequences are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alphabet {
    /// Every class of arguments.
    All,
    /// One of each kind.
    Few,
}

impl Alphabet {
    pub(super) fn operations(self) -> Vec<Operation> {
        match self {
            Alphabet::All => grammar::all(),
            Alphabet::Few => grammar::few(),
        }
    }
}

/// A part of the plan that one worker does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
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
}

/// A unit, where it is done, and how many images are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Task {
    pub(super) ground: Ground,
    pub(super) unit: Unit,
    pub(super) images: usize,
}

/// How much there is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent {
    Quick,
    Full,
}

pub(super) fn tasks(extent: Extent, seed: u64) -> Vec<Task> {
    let mut plan = Plan::default();
    match extent {
        Extent::Quick => plan.quick(seed),
        Extent::Full => plan.full(seed),
    }
    plan.tasks
}

#[derive(Default)]
struct Plan {
    tasks: Vec<Task>,
}

impl Plan {
    fn add(&mut self, scene: Scene, pools: usize, images: usize, unit: Unit) {
        let ground = Ground { scene, pools };
        self.tasks.push(Task {
            ground,
            unit,
            images,
        });
    }

    /// All sequences of these lengths.
    fn sequences(
        &mut self,
        scene: Scene,
        pools: usize,
        images: usize,
        alphabet: Alphabet,
        lengths: (usize, usize),
    ) {
        for first in 0..alphabet.operations().len() {
            let loaded = false;
            let unit = Unit::Sequences {
                alphabet,
                first,
                lengths,
                loaded,
            };
            self.add(scene, pools, images, unit);
        }
    }

    fn making_and_repair(&mut self, images: usize) {
        for pools in [1, 2] {
            for scene in [Scene::Blank, Scene::Tree] {
                self.add(scene, pools, images, Unit::Making);
            }
            for damage in DAMAGES {
                self.add(Scene::Damaged(damage), pools, images, Unit::Repair);
            }
        }
    }

    fn pairs(&mut self, pools: usize, images: usize, every: usize) {
        for first in 0..grammar::few().len() {
            self.add(Scene::Tree, pools, images, Unit::Pairs { first, every });
        }
    }

    fn quick(&mut self, seed: u64) {
        use Alphabet::{All, Few};
        self.making_and_repair(8);
        self.sequences(Scene::Tree, 1, 12, All, (1, 1));
        self.sequences(Scene::Tree, 2, 6, All, (1, 1));
        for scene in [Scene::PageEnd(0), Scene::PageEnd(1), Scene::InodesFull] {
            self.sequences(scene, 1, 6, All, (1, 1));
        }
        for scene in RARE {
            self.sequences(scene, 1, 4, Few, (1, 1));
        }
        self.sequences(Scene::Tree, 1, 4, Few, (2, 2));
        self.pairs(1, 2, 16);
        for number in 0..4 {
            let unit = Unit::Random {
                seed: seed ^ number,
                length: 30,
            };
            self.add(Scene::Tree, 1 + number as usize % 2, 4, unit);
        }
    }

    fn full(&mut self, seed: u64) {
        use Alphabet::{All, Few};
        self.making_and_repair(64);
        for pools in [1, 2] {
            for first in 0..All.operations().len() {
                let lengths = (1, 1);
                let unit = Unit::Sequences {
                    alphabet: All,
                    first,
                    lengths,
                    loaded: true,
                };
                self.add(Scene::Tree, pools, 64, unit);
            }
            self.sequences(Scene::Tree, pools, 64, All, (1, 1));
            self.sequences(Scene::Tree, pools, 16, All, (2, 2));
            self.pairs(pools, 8, 1);
        }
        for scene in [
            Scene::PageEnd(0),
            Scene::PageEnd(1),
            Scene::PageEnd(2),
            Scene::InodesFull,
        ] {
            self.sequences(scene, 1, 12, All, (1, 2));
            self.sequences(scene, 2, 8, Few, (1, 2));
        }
        for scene in RARE {
            self.sequences(scene, 1, 12, All, (1, 1));
            self.sequences(scene, 1, 6, Few, (2, 2));
        }
        self.sequences(Scene::Tree, 1, 8, Few, (3, 3));
        self.sequences(Scene::Tree, 2, 5, Few, (3, 3));
        for number in 0..200 {
            let unit = Unit::Random {
                seed: seed ^ number,
                length: 60,
            };
            self.add(Scene::Tree, 1 + number as usize % 2, 8, unit);
        }
    }
}
