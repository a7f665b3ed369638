//! A kernel that does what Linux does, and counts what it is asked.

use std::collections::BTreeSet;
use std::sync::Mutex;

use proptest::prelude::*;

use super::*;

const START: usize = 64 << 20;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Small,
    /// Of the huge page that begins here.
    Huge(usize),
    Shared,
    Pinned,
}

#[derive(Default)]
struct Fake {
    pages: Mutex<BTreeMap<usize, (NodeId, Kind)>>,
    /// Bytes that each node has left; nodes that are not here have enough.
    room: Mutex<BTreeMap<NodeId, usize>>,
    moves: Mutex<Vec<Vec<usize>>>,
    /// Pages whose node was asked for.
    asked: Mutex<usize>,
    is_gone: bool,
}

impl Fake {
    /// Adds `count` pages of a kind on a node, behind those that are there.
    fn with(self, count: usize, node: u16, kind: impl Fn(usize) -> Kind) -> Fake {
        let mut pages = self.pages.lock().unwrap();
        let start = START + pages.len() * SMALL_PAGE;
        for address in (start..).step_by(SMALL_PAGE).take(count) {
            pages.insert(address, (NodeId(node), kind(address)));
        }
        drop(pages);
        self
    }

    fn addresses(&self) -> Vec<usize> {
        self.pages.lock().unwrap().keys().copied().collect()
    }

    fn run(&self, target: Target, bytes: u64) -> io::Result<Outcome> {
        self.run_bound(target, bytes, None)
    }

    fn run_bound(
        &self,
        target: Target,
        bytes: u64,
        bound_to: Option<Vec<NodeId>>,
    ) -> io::Result<Outcome> {
        self.run_with(target, &Purse::of(bytes), bound_to)
    }

    fn run_with(
        &self,
        target: Target,
        purse: &Purse,
        bound_to: Option<Vec<NodeId>>,
    ) -> io::Result<Outcome> {
        self.run_from(&self.addresses(), None, target, purse, bound_to)
    }

    fn run_from(
        &self,
        pages: &[usize],
        from: Option<NodeId>,
        target: Target,
        purse: &Purse,
        bound_to: Option<Vec<NodeId>>,
    ) -> io::Result<Outcome> {
        let area = Area {
            range: pages[0]..pages[pages.len() - 1] + SMALL_PAGE,
            page_bytes: SMALL_PAGE,
            bound_to,
            is_interleaved: false,
            bytes: Vec::new(),
            file: None,
            mappers: 1,
        };
        let piece = Piece {
            kernel: self,
            area: &area,
            pages,
            target: &target,
            from,
            also_shared: false,
            purse,
        };
        piece.bring()
    }

    fn on(&self, node: u16) -> usize {
        let pages = self.pages.lock().unwrap();
        pages.values().filter(|(on, _)| *on == NodeId(node)).count()
    }

    fn calls(&self) -> usize {
        self.moves.lock().unwrap().len()
    }
}

impl Kernel for Fake {
    fn nodes(&self, addresses: &[usize]) -> io::Result<Vec<i32>> {
        if self.is_gone {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        *self.asked.lock().unwrap() += addresses.len();
        let pages = self.pages.lock().unwrap();
        let node = |address| pages.get(address).map(|(node, _)| i32::from(node.0));
        let status = addresses
            .iter()
            .map(|address| node(address).unwrap_or(-libc::ENOENT));
        Ok(status.collect())
    }

    /// As `do_pages_move` in mm/migrate.c: a page that does not move ends the call.
    fn move_to(&self, node: NodeId, addresses: &[usize], _: bool) -> io::Result<Vec<i32>> {
        self.moves.lock().unwrap().push(addresses.to_vec());
        let mut pages = self.pages.lock().unwrap();
        let mut status = vec![-libc::ENOENT; addresses.len()];
        for (address, status) in addresses.iter().zip(&mut status) {
            let Some((on, kind)) = pages.get(address).copied() else {
                continue;
            };
            let moving: BTreeSet<usize> = match kind {
                Kind::Shared => {
                    *status = -libc::EACCES;
                    continue;
                }
                Kind::Pinned => break,
                _ if on == node => BTreeSet::new(),
                Kind::Small => [*address].into(),
                Kind::Huge(first) => (first..first + HUGE_BYTES).step_by(SMALL_PAGE).collect(),
            };
            let mut room = self.room.lock().unwrap();
            if let Some(left) = room.get_mut(&node) {
                if *left < moving.len() * SMALL_PAGE {
                    return Err(io::Error::from_raw_os_error(libc::ENOMEM));
                }
                *left -= moving.len() * SMALL_PAGE;
            }
            for address in moving {
                pages.insert(address, (node, kind));
            }
            *status = i32::from(node.0);
        }
        Ok(status)
    }
}

fn to(node: u16) -> Target {
    Target::Nodes(vec![NodeId(node)])
}

fn bytes(pages: usize) -> u64 {
    (pages * SMALL_PAGE) as u64
}

fn huge(address: usize) -> Kind {
    Kind::Huge(address / HUGE_BYTES * HUGE_BYTES)
}

#[test]
fn small_pages_are_moved_and_verified() {
    let fake = Fake::default()
        .with(700, 0, |_| Kind::Small)
        .with(5, 1, |_| Kind::Small);
    let outcome = fake.run(to(1), u64::MAX).unwrap();
    assert_eq!((outcome.moved, outcome.right), (bytes(700), bytes(705)));
    assert_eq!(outcome.by_node.of(NodeId(1)), bytes(705));
    assert_eq!((outcome.huge, fake.on(1)), (0, 705));
}

#[test]
fn huge_pages_are_asked_for_once() {
    let fake = Fake::default()
        .with(2048, 0, huge)
        .with(100, 0, |_| Kind::Small);
    let outcome = fake.run(to(1), u64::MAX).unwrap();
    assert_eq!((outcome.moved, outcome.huge), (bytes(2148), bytes(2048)));
    let asked: usize = fake.moves.lock().unwrap().iter().map(Vec::len).sum();
    assert_eq!(
        asked,
        4 + 100,
        "a page of each huge one, and the small ones"
    );
}

#[test]
fn pages_behind_one_that_is_pinned_are_moved() {
    let pinned = |address: usize| match address / SMALL_PAGE % 400 {
        7 => Kind::Pinned,
        _ => Kind::Small,
    };
    let fake = Fake::default().with(4000, 0, pinned);
    let outcome = fake.run(to(1), u64::MAX).unwrap();
    assert_eq!((outcome.pinned, outcome.moved), (bytes(10), bytes(3990)));
    assert_eq!(fake.on(0), 10);
}

#[test]
fn very_many_pinned_pages_cost_few_calls() {
    let fake = Fake::default().with(8192, 0, |_| Kind::Pinned);
    let outcome = fake.run(to(1), u64::MAX).unwrap();
    assert_eq!((outcome.pinned, outcome.moved), (bytes(8192), 0));
    let calls = fake.calls();
    assert!(calls <= 2 + 8192 / GROUP_PAGES + MAX_SINGLE, "{calls}");
}

#[test]
fn shared_pages_are_left_and_counted() {
    let shared = |address: usize| match address / SMALL_PAGE % 2 {
        0 => Kind::Shared,
        _ => Kind::Small,
    };
    let fake = Fake::default().with(1024, 0, shared);
    let outcome = fake.run(to(1), u64::MAX).unwrap();
    assert_eq!((outcome.shared, outcome.moved), (bytes(512), bytes(512)));
    assert_eq!(outcome.by_node.total(), bytes(1024));
}

#[test]
fn no_more_is_moved_than_the_budget() {
    let fake = Fake::default().with(1000, 0, |_| Kind::Small);
    let outcome = fake.run(to(1), bytes(30) + 17).unwrap();
    assert_eq!(
        (outcome.moved, outcome.over_budget),
        (bytes(30), bytes(970))
    );
    assert_eq!((fake.on(1), outcome.unfinished()), (30, bytes(970)));
}

#[test]
fn what_does_not_move_is_not_charged() {
    let shared = |address: usize| match address / SMALL_PAGE % 2 {
        0 => Kind::Shared,
        _ => Kind::Small,
    };
    let fake = Fake::default().with(100, 0, shared);
    let purse = Purse::of(bytes(100));
    let outcome = fake.run_with(to(1), &purse, None).unwrap();
    assert_eq!((outcome.moved, outcome.shared), (bytes(50), bytes(50)));
    assert_eq!(purse.take(1000, SMALL_PAGE), 50);
}

#[test]
fn a_full_node_leaves_the_rest() {
    let fake = Fake::default().with(1000, 0, |_| Kind::Small);
    fake.room.lock().unwrap().insert(NodeId(1), 40 * SMALL_PAGE);
    let outcome = fake.run(to(1), u64::MAX).unwrap();
    assert_eq!((outcome.moved, outcome.no_room), (bytes(40), bytes(960)));
}

#[test]
fn what_is_bound_elsewhere_stays() {
    let fake = Fake::default().with(100, 0, |_| Kind::Small);
    let bound = Some(vec![NodeId(0), NodeId(2)]);
    let outcome = fake.run_bound(to(1), u64::MAX, bound.clone()).unwrap();
    assert_eq!(
        (outcome.bound, outcome.moved, fake.on(0)),
        (bytes(100), 0, 100)
    );
    let outcome = fake.run_bound(to(2), u64::MAX, bound).unwrap();
    assert_eq!((outcome.moved, fake.on(2)), (bytes(100), 100));
}

#[test]
fn spread_pages_lie_in_turn_by_two_mebibytes() {
    let fake = Fake::default().with(4 * 512, 0, |_| Kind::Small);
    let outcome = fake
        .run(Target::Nodes(vec![NodeId(0), NodeId(1)]), u64::MAX)
        .unwrap();
    assert_eq!((fake.on(0), fake.on(1)), (1024, 1024));
    assert_eq!((outcome.right, outcome.moved), (bytes(2048), bytes(1024)));
}

#[test]
fn exchanged_pages_go_once_each() {
    let fake = Fake::default()
        .with(512, 0, |_| Kind::Small)
        .with(100, 1, |_| Kind::Small);
    let pairs = vec![(NodeId(0), NodeId(1)), (NodeId(1), NodeId(0))];
    let outcome = fake.run(Target::Follow(pairs), u64::MAX).unwrap();
    assert_eq!((fake.on(0), fake.on(1)), (100, 512));
    assert_eq!(outcome.moved, bytes(612));
}

#[test]
fn single_pages_go_where_each_should() {
    let fake = Fake::default().with(10, 0, |_| Kind::Small);
    let pages = [(START, NodeId(1)), (START + SMALL_PAGE, NodeId(2))];
    let outcome = fake.run(Target::Pages(pages.into()), u64::MAX).unwrap();
    assert_eq!((fake.on(0), fake.on(1), fake.on(2)), (8, 1, 1));
    assert_eq!(outcome.moved, bytes(2));
}

#[test]
fn a_process_that_is_gone_is_an_error() {
    let fake = Fake::default().with(1, 0, |_| Kind::Small);
    let gone = Fake {
        is_gone: true,
        ..fake
    };
    let error = gone.run(to(1), u64::MAX).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
}

#[test]
fn pages_that_moved_are_not_asked_about_again() {
    let small = Fake::default().with(5000, 0, |_| Kind::Small);
    small.run(to(1), u64::MAX).unwrap();
    let blocks = 5000 / 512;
    assert!(*small.asked.lock().unwrap() <= 5000 + 2 * blocks);
    let known = Fake::default().with(500, 0, |_| Kind::Small);
    let (pages, purse) = (known.addresses(), Purse::of(u64::MAX));
    let outcome = known.run_from(&pages, Some(NodeId(0)), to(1), &purse, None);
    assert_eq!(outcome.unwrap().moved, bytes(500));
    assert_eq!(*known.asked.lock().unwrap(), 0);
}

proptest! {
    #[test]
    fn what_is_known_before_makes_no_difference(
        parts in prop::collection::vec((0_u8..5, 1_usize..1500), 1..6),
        room in prop::option::of(0_usize..3000),
        budget in prop::option::of(0_usize..3000),
    ) {
        let made = || {
            let mut fake = Fake::default();
            for (kind, count) in &parts {
                fake = match kind {
                    0 => fake.with(*count, 0, |_| Kind::Small),
                    1 => fake.with(*count, 0, |_| Kind::Shared),
                    2 => fake.with(count % 9, 0, |_| Kind::Pinned),
                    // From the next huge page on, as the kernel makes them.
                    3 => {
                        let there = fake.addresses().len() % 512;
                        fake.with((512 - there) % 512, 0, |_| Kind::Small)
                            .with(count / 512 * 512, 0, huge)
                    }
                    _ => fake.with(*count, 0, |address| match address / SMALL_PAGE % 7 {
                        0 => Kind::Pinned,
                        1 => Kind::Shared,
                        _ => Kind::Small,
                    }),
                };
            }
            if let Some(pages) = room {
                fake.room.lock().unwrap().insert(NodeId(1), pages * SMALL_PAGE);
            }
            fake
        };
        let run = |from: Option<NodeId>| {
            let fake = made();
            let mut pages = fake.addresses();
            // A page that has vanished since it was seen.
            pages.push(pages.last().copied().unwrap_or(START) + 9 * HUGE_BYTES);
            let purse = Purse::of(budget.map_or(u64::MAX, bytes));
            let outcome = fake.run_from(&pages, from, to(1), &purse, None).unwrap();
            (outcome, fake.on(1), purse.take(usize::MAX, SMALL_PAGE))
        };
        let (asked, known) = (run(None), run(Some(NodeId(0))));
        prop_assert_eq!(&asked.0.moved, &known.0.moved);
        prop_assert_eq!(asked.0.moved, bytes(asked.1));
        prop_assert_eq!(asked.0.by_node, known.0.by_node);
        prop_assert_eq!(asked.1, known.1);
    }
}
