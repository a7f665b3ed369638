//! Orders on made memory: where pages are in the end, in which order they went, and what is said of the rest.

use std::cell::{Cell, RefCell};

use egeria_pages::NodeBytes;
use egeria_pages::migrate::Outcome;

use super::*;

const PAGE: usize = 4096;
const BLOCK: usize = 2 << 20;
const BLOCK_PAGES: usize = BLOCK / PAGE;
const KEY: ProcessKey = ProcessKey {
    process_id: 1,
    start_ticks: 1,
};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Free,
    Pinned,
    Shared,
}

/// Pages by address. Each migration takes a millisecond for each page.
#[derive(Default)]
struct Made {
    areas: Vec<Area>,
    pages: RefCell<BTreeMap<usize, (NodeId, Kind)>>,
    /// Pages that each node has room for; others have enough.
    room: RefCell<BTreeMap<NodeId, usize>>,
    /// What was asked to move, in order.
    asked: RefCell<Vec<usize>>,
    /// How long it takes to find the pages of a range.
    finding: Duration,
    /// How often pages were looked for.
    looks: Cell<u32>,
    /// The process ends when pages are looked for so often.
    ends_after: Option<u32>,
}

impl Made {
    /// Adds a mapping of whole blocks with its pages on nodes, block by block.
    fn with(mut self, block: usize, on: &[u16], bound_to: Option<Vec<NodeId>>) -> Made {
        let range = block * BLOCK..(block + on.len()) * BLOCK;
        let mut bytes = NodeBytes::default();
        for (number, node) in on.iter().enumerate() {
            bytes.add(NodeId(*node), BLOCK as u64);
            let start = range.start + number * BLOCK;
            let pages = (start..start + BLOCK).step_by(PAGE);
            let page = |page| (page, (NodeId(*node), Kind::Free));
            self.pages.get_mut().extend(pages.map(page));
        }
        self.areas.push(Area {
            range,
            page_bytes: PAGE,
            bound_to,
            is_interleaved: false,
            bytes: bytes.iter().collect(),
            file: None,
            mappers: 1,
        });
        self
    }

    fn put(&self, block: usize, pages: usize, node: u16, kind: Kind) {
        let mut all = self.pages.borrow_mut();
        let of_block = all.range_mut(block * BLOCK..(block + 1) * BLOCK);
        for (_, page) in of_block.take(pages) {
            *page = (NodeId(node), kind);
        }
    }

    /// The node that has the whole block; 99 for several.
    fn node(&self, block: usize) -> u16 {
        let all = self.pages.borrow();
        let mut nodes = all
            .range(block * BLOCK..(block + 1) * BLOCK)
            .map(|(_, (node, _))| node.0);
        let first = nodes.next().unwrap();
        if nodes.all(|node| node == first) {
            first
        } else {
            99
        }
    }

    fn blocks(&self, blocks: Range<usize>) -> Vec<u16> {
        blocks.map(|block| self.node(block)).collect()
    }

    /// The blocks in which they were asked for.
    fn order(&self) -> Vec<usize> {
        let asked = self.asked.borrow();
        let mut blocks: Vec<usize> = asked.iter().map(|page| page / BLOCK).collect();
        blocks.dedup();
        blocks
    }
}

impl Memory for Made {
    fn areas(&self) -> io::Result<Vec<Area>> {
        Ok(self.areas.clone())
    }

    fn pages(&self, range: Range<usize>, _: usize) -> io::Result<Vec<(usize, NodeId)>> {
        self.looks.set(self.looks.get() + 1);
        std::thread::sleep(self.finding);
        if self
            .ends_after
            .is_some_and(|looks| self.looks.get() > looks)
        {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let pages = self.pages.borrow();
        let found = pages.range(range).map(|(page, (node, _))| (*page, *node));
        Ok(found.collect())
    }

    fn migrate(&self, _: &[Area], order: &Order) -> io::Result<Migration> {
        let Target::Pages(wanted) = &order.target else {
            panic!("{order:?}");
        };
        let (mut outcome, mut worked) = (Outcome::default(), Duration::ZERO);
        let mut is_cut = false;
        for (number, (page, to)) in wanted.iter().enumerate() {
            if number % order.piece_pages == 0 && worked >= order.max_time {
                is_cut = true;
                break;
            }
            worked += Duration::from_millis(1);
            self.asked.borrow_mut().push(*page);
            let mut room = self.room.borrow_mut();
            let room = room.get_mut(to);
            let mut pages = self.pages.borrow_mut();
            let (node, kind) = pages.get_mut(page).unwrap();
            match (kind, room) {
                (Kind::Pinned, _) => outcome.pinned += PAGE as u64,
                (Kind::Shared, _) => outcome.shared += PAGE as u64,
                (_, Some(0)) => outcome.no_room += PAGE as u64,
                (_, room) => {
                    *node = *to;
                    outcome.moved += PAGE as u64;
                    if let Some(room) = room {
                        *room -= 1;
                    }
                }
            }
        }
        Ok(Migration {
            outcome,
            workers: 1,
            took: worked,
            worked,
            is_ended: false,
            is_cut,
        })
    }
}

fn region(blocks: Range<usize>, density: u64, from: &[u16]) -> Region {
    let bytes = (blocks.len() * BLOCK) as u64;
    let mut resident = NodeBytes::default();
    resident.add(NodeId(0), bytes);
    Region {
        range: blocks.start * BLOCK..blocks.end * BLOCK,
        resident,
        accessed_bytes: bytes * density,
        from: from
            .iter()
            .map(|node| (NodeId(*node), bytes * density))
            .collect(),
        is_fixed: false,
    }
}

fn copies(pairs: &[(u16, u16, usize)]) -> Vec<(NodeId, NodeId, u64)> {
    let copies = pairs.iter();
    copies
        .map(|(from, to, blocks)| (NodeId(*from), NodeId(*to), (blocks * BLOCK) as u64))
        .collect()
}

/// Time for this number of blocks.
fn blocks(count: usize) -> Allowance {
    Allowance {
        budget: Duration::from_millis((count * BLOCK_PAGES) as u64),
        time: Duration::from_secs(3600),
    }
}

fn run(gathering: &mut Gathering, made: &Made, regions: &[Region], windows: usize, each: usize) {
    for _ in 0..windows {
        let step = gathering.step(made, regions, blocks(each)).unwrap();
        assert_eq!(step, Step::Paused);
    }
}

#[test]
fn all_that_is_ordered_goes_in_as_many_windows_as_it_takes() {
    let made = Made::default()
        .with(1, &[0; 10], None)
        .with(20, &[0, 1, 0], None);
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 12)]));
    for window in 1..=6 {
        assert!(!gathering.has_ended());
        run(&mut gathering, &made, &[], 1, 2);
        let left = 12 - 2 * window;
        assert_eq!(gathering.left_bytes(), (left * BLOCK) as u64);
    }
    assert!(gathering.has_ended());
    assert_eq!(
        (made.blocks(1..11), made.blocks(20..23)),
        (vec![1; 10], vec![1; 3])
    );
    assert_eq!(
        made.asked.borrow().len(),
        12 * BLOCK_PAGES,
        "each page once"
    );
    run(&mut gathering, &made, &[], 3, 9);
    assert_eq!(
        made.asked.borrow().len(),
        12 * BLOCK_PAGES,
        "and then no more"
    );
}

#[test]
fn no_more_goes_than_is_ordered() {
    let made = Made::default().with(1, &[0; 10], None);
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 3)]));
    run(&mut gathering, &made, &[], 4, 99);
    assert_eq!(made.blocks(1..11), [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn what_a_target_alone_uses_goes_first_then_the_hottest() {
    let made = Made::default().with(0, &[0; 8], None);
    let regions = [
        region(1..2, 9, &[0]),
        region(2..3, 2, &[1]),
        region(4..5, 7, &[0, 1]),
        region(5..6, 8, &[]),
        region(6..7, 3, &[1]),
    ];
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 8)]));
    run(&mut gathering, &made, &regions, 1, 99);
    let order = made.order();
    assert_eq!(
        order,
        [6, 2, 5, 4, 0, 3, 7, 1],
        "its own threads use block 1 where it is"
    );
}

#[test]
fn to_a_slower_node_the_least_used_goes_first() {
    let made = Made::default().with(0, &[0; 4], None);
    let regions = [
        region(0..1, 9, &[0]),
        region(1..2, 2, &[0]),
        region(3..4, 5, &[0]),
    ];
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 4)]));
    gathering.coldest_first = true;
    run(&mut gathering, &made, &regions, 1, 99);
    assert_eq!(made.order(), [2, 1, 3, 0], "no access to block 2 was seen");
}

#[test]
fn nodes_exchange_memory_and_none_of_it_goes_back() {
    let made = Made::default().with(0, &[0, 0, 1, 1, 0, 1], None);
    let regions = [
        region(0..2, 5, &[1]),
        region(2..4, 5, &[0]),
        region(4..5, 5, &[0]),
    ];
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 2), (1, 0, 3)]));
    run(&mut gathering, &made, &regions, 9, 1);
    assert_eq!(made.blocks(0..6), [1, 1, 0, 0, 0, 0]);
    assert_eq!(made.asked.borrow().len(), 5 * BLOCK_PAGES);
}

#[test]
fn exchanged_memory_that_is_looked_at_again_stays() {
    // A window has time for a part of what was looked at together.
    let made = Made::default().with(0, &[0, 0, 1, 1], None);
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 2), (1, 0, 2)]));
    run(&mut gathering, &made, &[], 9, 1);
    assert_eq!(made.blocks(0..4), [1, 1, 0, 0]);
    assert_eq!(made.asked.borrow().len(), 4 * BLOCK_PAGES);
}

#[test]
fn in_an_exchange_a_node_keeps_what_it_alone_uses() {
    let made = Made::default().with(0, &[0, 1, 1], None);
    let regions = [region(1..2, 5, &[1])];
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 1), (1, 0, 1)]));
    run(&mut gathering, &made, &regions, 3, 99);
    assert_eq!(made.blocks(0..3), [1, 1, 0]);
}

#[test]
fn memory_of_a_node_is_spread_as_ordered_and_to_its_accessors() {
    let made = Made::default().with(0, &[0; 6], None);
    let regions = [region(0..1, 5, &[2]), region(5..6, 5, &[1])];
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 2), (0, 2, 2)]));
    run(&mut gathering, &made, &regions, 1, 99);
    assert_eq!((made.node(0), made.node(5)), (2, 1));
    let on = |node| made.blocks(0..6).iter().filter(|on| **on == node).count();
    assert_eq!([on(0), on(1), on(2)], [2, 2, 2]);
}

#[test]
fn what_cannot_move_is_counted_and_tried_once() {
    let made =
        Made::default()
            .with(0, &[0; 3], None)
            .with(8, &[0], Some(vec![NodeId(0), NodeId(3)]));
    made.put(1, 3, 0, Kind::Pinned);
    made.put(2, 5, 0, Kind::Shared);
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 4)]));
    run(&mut gathering, &made, &[], 5, 99);
    assert_eq!(made.asked.borrow().len(), 3 * BLOCK_PAGES);
    assert!(gathering.has_ended() && gathering.left_bytes() == 0);
    let progress = gathering.progress(7);
    assert_eq!(
        (progress.stuck.pinned_bytes, progress.stuck.shared_bytes),
        (3 << 12, 5 << 12)
    );
    assert_eq!(progress.stuck.bound_bytes, BLOCK as u64);
    let said = progress.to_string();
    let wanted = "5.97 MiB of the memory of process 1 went; 20.0 KiB are shared with other processes; \
        12.0 KiB are pinned; 2.00 MiB are bound to other nodes by their owner";
    assert_eq!(said, wanted);
    // An order for the same again does not try it at once.
    gathering.replace(&copies(&[(0, 1, 4)]));
    run(&mut gathering, &made, &[], 3, 99);
    assert_eq!(made.asked.borrow().len(), 3 * BLOCK_PAGES);
}

#[test]
fn memory_that_its_owner_interleaves_stays() {
    let mut made = Made::default().with(0, &[0; 2], None).with(8, &[0], None);
    made.areas[0].bound_to = Some(vec![NodeId(0), NodeId(1)]);
    made.areas[0].is_interleaved = true;
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 3)]));
    run(&mut gathering, &made, &[], 3, 99);
    assert_eq!((made.blocks(0..2), made.node(8)), (vec![0; 2], 1));
    assert_eq!(gathering.stuck.bound_bytes, 2 * BLOCK as u64);
}

#[test]
fn a_full_node_is_tried_again_later() {
    let made = Made::default().with(0, &[0; 4], None);
    made.room.borrow_mut().insert(NodeId(1), 2 * BLOCK_PAGES);
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 4)]));
    run(&mut gathering, &made, &[], 5, 99);
    assert_eq!(gathering.left_bytes(), 2 * BLOCK as u64);
    assert_eq!(gathering.stuck.no_room_bytes, 2 * BLOCK as u64);
    made.room.borrow_mut().clear();
    run(&mut gathering, &made, &[], REST_WINDOWS as usize, 99);
    assert_eq!((gathering.left_bytes(), made.blocks(0..4)), (0, vec![1; 4]));
}

#[test]
fn what_came_back_twice_is_left_alone() {
    let made = Made::default().with(0, &[0, 0], None);
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 2)]));
    for round in 0..4 {
        run(&mut gathering, &made, &[], 2 * REST_WINDOWS as usize, 99);
        assert_eq!(made.node(0), u16::from(round < 2), "round {round}");
        // Another program moves it.
        made.put(0, BLOCK_PAGES, 0, Kind::Free);
        gathering.replace(&copies(&[(0, 1, 1)]));
    }
    assert_eq!(made.node(1), 1);
    run(&mut gathering, &made, &[], 2 * REST_WINDOWS as usize, 99);
    assert_eq!(gathering.progress(0).stuck.returned_bytes, BLOCK as u64);
}

#[test]
fn the_rest_and_when_it_will_be_done_are_said() {
    let made = Made::default().with(0, &[0; 4], None);
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 4)]));
    run(&mut gathering, &made, &[], 1, 1);
    let said = gathering.progress(29_100_000_000).to_string();
    let wanted = "2.00 MiB of the memory of process 1 went, 6.00 MiB are left: the budget allows them in 30 s";
    assert_eq!(said, wanted);
    assert_eq!(gathering.ns_per_byte(), Some(1e6 / 4096.0));
}

#[test]
fn a_mapping_of_terabytes_is_looked_through_in_many_windows() {
    let mut made = Made::default()
        .with(0, &[0], None)
        .with(2_000_000, &[0], None);
    // One mapping, with a page block at each end.
    let end = made.areas.pop().unwrap().range.end;
    made.areas[0].range.end = end;
    made.finding = MAX_SEARCH / 4;
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 2)]));
    for window in 1..=3 {
        run(&mut gathering, &made, &[], 1, 99);
        let most = window * 6 + 2;
        assert!(made.looks.get() <= most, "{} in {window}", made.looks.get());
        assert!(!gathering.has_ended());
    }
    assert_eq!((made.node(0), made.node(2_000_000)), (1, 0));
    let route = gathering.route.as_ref().unwrap();
    let (next, _) = route.next(BATCH_PAGES);
    assert!(next[0].1.start > 0, "it goes on where it was");
}

#[test]
fn a_slow_search_that_finds_pages_is_not_cut_short() {
    let mut made = Made::default().with(0, &[0; 40], None);
    made.finding = MAX_SEARCH / 2;
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 40)]));
    run(&mut gathering, &made, &[], 1, 99);
    assert_eq!((gathering.left_bytes(), made.node(39)), (0, 1));
}

#[test]
fn pages_that_went_are_looked_for_once() {
    let made = Made::default().with(0, &[0; 40], None);
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 40)]));
    run(&mut gathering, &made, &[], 1, 99);
    let batches = 1 + (40 * BLOCK_PAGES - FIRST_PAGES).div_ceil(BATCH_PAGES);
    assert_eq!(made.looks.get() as usize, batches);
}

#[test]
fn a_process_that_ends_in_the_middle_is_an_error_of_its_own() {
    let mut made = Made::default().with(0, &[0; 40], None);
    made.ends_after = Some(1);
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 40)]));
    let ended = gathering.step(&made, &[], blocks(99)).unwrap_err();
    assert_eq!(ended.raw_os_error(), Some(libc::ESRCH));
}

#[test]
fn many_small_mappings_go_together_and_none_counts_as_back() {
    let mut made = Made::default().with(0, &[0; 2], None);
    let whole = made.areas.remove(0);
    // A mapping for each page, as of a program with guard pages.
    made.areas = (whole.range.clone().step_by(PAGE))
        .map(|start| Area {
            range: start..start + PAGE,
            bytes: vec![(NodeId(0), PAGE as u64)],
            ..whole.clone()
        })
        .collect();
    let mut gathering = Gathering::new(KEY, &copies(&[(0, 1, 2)]));
    run(&mut gathering, &made, &[], 3, 1);
    assert_eq!((made.node(0), made.node(1)), (1, 1));
    assert_eq!(gathering.progress(0).stuck, Stuck::default());
    assert_eq!(made.asked.borrow().len(), 2 * BLOCK_PAGES);
}
