//! Memory of a process on its way to the nodes that access it: an order that takes as many windows as its budget needs.
//!
//! First go regions that threads of the target alone access, then the most used ones, then the rest by address. Each
//! page is looked at once: what cannot move is counted and not tried in every window. What came back twice after it was
//! moved is left alone, because the kernel or another program wants it there.

mod choice;
mod live;
mod memory;
mod progress;
mod route;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use egeria_facts::ProcessKey;
use egeria_machine::NodeId;
use egeria_pages::accesses::{REGION_BYTES, Region};
use egeria_pages::areas::Area;
use egeria_pages::migrate::{Migration, Order, Target};

use choice::{Choice, Pages, Placed, block};
pub(crate) use live::{Live, Sleepers};
use memory::Memory;
pub(crate) use memory::Pair;
pub use progress::{GatherProgress, Stuck};
use route::{Route, Stretch};

/// Fewest pages that a worker takes at once: 2 MiB.
pub(crate) const PIECE_PAGES: usize = 512;
/// Most of them: each call of the kernel makes all CPUs hand in their lists of pages first, so calls should be large.
const MAX_PIECE_PAGES: usize = 8 * PIECE_PAGES;
/// Of what is looked at together, what a worker takes at once: small enough to keep the time allowed.
const PIECES: usize = 8;
/// Pages looked at together.
const BATCH_PAGES: usize = PIECES * MAX_PIECE_PAGES;
/// The same where what a page takes is not known.
const FIRST_PAGES: usize = 1024;
/// Longest that a window looks for pages and finds none: a mapping of terabytes may have few of them.
const MAX_SEARCH: Duration = Duration::from_millis(50);
/// After this number of windows, memory for which a node had no room is tried again.
const REST_WINDOWS: u32 = 10;

/// Pages of a mapping that go.
struct Moves {
    area: Area,
    /// Each with its new node.
    pages: Pages,
    /// All pages where these were found, each with its node then.
    seen: Rc<[(usize, NodeId)]>,
}

/// An order, and how far it is.
#[derive(Debug)]
pub(crate) struct Gathering {
    process: ProcessKey,
    /// What is yet to go, bytes.
    left: BTreeMap<Pair, u64>,
    /// Where pages are found; `None` before the first window, and when all were looked at.
    route: Option<Route>,
    placed: Placed,
    stuck: Stuck,
    /// Pairs whose target had no room, in this pass.
    full: Vec<Pair>,
    state: State,
    moved_bytes: u64,
    spent: Duration,
    /// What it took to read the mappings, which may be hundreds of thousands.
    looked: Duration,
    /// What was spent on other moves of the process, ns.
    pub(crate) others_ns: u64,
    /// Running time of which the budget may be spent in advance, ns.
    pub(crate) advance_ns: u64,
    /// Whether the least used goes first, as to a slower node.
    pub(crate) coldest_first: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Going,
    /// A node had no room; windows until the next attempt.
    Resting(u32),
    /// All that could go is there.
    Over,
}

/// What a window may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allowance {
    /// CPU time, of the process's budget.
    pub(crate) budget: Duration,
    /// Time, so that the next window is not late.
    pub(crate) time: Duration,
}

impl Allowance {
    fn after(&self, worked: Duration, passed: Duration) -> Duration {
        let budget = self.budget.saturating_sub(worked);
        budget.min(self.time.saturating_sub(passed))
    }
}

/// How a window of an order ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The time was over, or nothing is to be done.
    Paused,
    /// The process ended.
    Ended,
}

impl Gathering {
    pub(crate) fn new(process: ProcessKey, copies: &[(NodeId, NodeId, u64)]) -> Gathering {
        Gathering {
            process,
            left: totals(copies),
            route: None,
            placed: Placed::default(),
            stuck: Stuck::default(),
            full: Vec::new(),
            state: State::Going,
            moved_bytes: 0,
            spent: Duration::ZERO,
            looked: Duration::ZERO,
            others_ns: 0,
            advance_ns: 0,
            coldest_first: false,
        }
    }

    /// Takes a new order. If it is between the same nodes, it goes on where the old one was.
    pub(crate) fn replace(&mut self, copies: &[(NodeId, NodeId, u64)]) {
        let left = totals(copies);
        if left.keys().eq(self.left.keys()) {
            // What was tried is not tried again at once.
            if self.state == State::Over {
                self.state = State::Resting(REST_WINDOWS);
            }
            self.left = left;
        } else {
            *self = Gathering {
                moved_bytes: self.moved_bytes,
                ..Gathering::new(self.process, copies)
            };
        }
    }

    /// A window's share: as much as goes in the time allowed. `regions` are what is known of its use.
    pub(crate) fn step(
        &mut self,
        memory: &dyn Memory,
        regions: &[Region],
        allowed: Allowance,
    ) -> io::Result<Step> {
        match self.state {
            State::Over => return Ok(Step::Paused),
            State::Resting(0) => self.begin_pass(),
            State::Resting(windows) => {
                self.state = State::Resting(windows - 1);
                return Ok(Step::Paused);
            }
            State::Going => {}
        }
        let mut route = match self.route.take() {
            Some(route) => route,
            None => {
                self.begin_pass();
                let pairs: Vec<Pair> = self.left.keys().copied().collect();
                let begin = Instant::now();
                let route = Route::new(memory.areas()?, regions, &pairs, self.coldest_first);
                let looked = begin.elapsed();
                self.looked += looked;
                // The budget pays for it, and the next window goes on.
                if allowed.after(looked, looked).is_zero() {
                    self.route = Some(route);
                    return Ok(Step::Paused);
                }
                route
            }
        };
        let done = self.go(memory, &mut route, allowed);
        self.route = Some(route);
        done
    }

    fn begin_pass(&mut self) {
        (self.state, self.route) = (State::Going, None);
        (self.stuck, self.full) = (Stuck::default(), Vec::new());
    }

    fn go(
        &mut self,
        memory: &dyn Memory,
        route: &mut Route,
        allowed: Allowance,
    ) -> io::Result<Step> {
        let (begin, before) = (Instant::now(), self.spent);
        let mut found = begin;
        while self.left_bytes() > 0 {
            let batch = self.batch_pages(allowed.after(self.spent - before, begin.elapsed()));
            let (parts, place) = route.next(batch);
            if parts.is_empty() {
                self.end_pass();
                return Ok(Step::Paused);
            }
            let mut stuck = self.stuck;
            for (pair, moves) in self.choose(memory, route, parts, &mut stuck)? {
                let max_time = allowed.after(self.spent - before, begin.elapsed());
                if max_time.is_zero() {
                    return Ok(Step::Paused);
                }
                let piece_pages = (batch / PIECES).clamp(PIECE_PAGES, MAX_PIECE_PAGES);
                let done = self.migrate(memory, pair, moves, (max_time, piece_pages))?;
                found = Instant::now();
                // What of this batch has gone is found there in the next window.
                if done.is_ended || done.is_cut {
                    return Ok(if done.is_ended {
                        Step::Ended
                    } else {
                        Step::Paused
                    });
                }
            }
            self.stuck.bound_bytes = stuck.bound_bytes;
            self.stuck.returned_bytes = stuck.returned_bytes;
            route.advance(place);
            if found.elapsed() >= MAX_SEARCH {
                return Ok(Step::Paused);
            }
        }
        self.state = State::Over;
        Ok(Step::Paused)
    }

    /// What of these parts goes, by pair.
    fn choose(
        &mut self,
        memory: &dyn Memory,
        route: &Route,
        parts: Vec<Stretch>,
        stuck: &mut Stuck,
    ) -> io::Result<BTreeMap<Pair, Vec<Moves>>> {
        let mut left = self.left.clone();
        let mut chosen: BTreeMap<Pair, Vec<Moves>> = BTreeMap::new();
        for (area, range) in parts {
            let seen: Rc<[_]> = memory.pages(range, area.page_bytes)?.into();
            let choice = Choice {
                area: &area,
                route,
                full: &self.full,
            };
            for (pair, pages) in choice.of(&seen, &mut left, &mut self.placed, stuck) {
                let moves = Moves {
                    area: Area::clone(&area),
                    pages,
                    seen: Rc::clone(&seen),
                };
                chosen.entry(pair).or_default().push(moves);
            }
        }
        Ok(chosen)
    }

    fn migrate(
        &mut self,
        memory: &dyn Memory,
        pair: Pair,
        moves: Vec<Moves>,
        (max_time, piece_pages): (Duration, usize),
    ) -> io::Result<Migration> {
        let (mut areas, mut pages) = (Vec::<Area>::new(), Pages::new());
        let mut bytes = 0_u64;
        for each in &moves {
            bytes += each.pages.len() as u64 * each.area.page_bytes as u64;
            pages.extend(&each.pages);
            // Two parts of a mapping may go together.
            if areas
                .last()
                .is_none_or(|last| last.range != each.area.range)
            {
                areas.push(each.area.clone());
            }
        }
        areas.sort_by_key(|area| area.range.start);
        areas.dedup_by(|one, other| one.range == other.range);
        let order = Order {
            from: Some(pair.0),
            max_time,
            piece_pages,
            ..Order::of(
                self.process.process_id,
                self.process.start_ticks,
                Target::Pages(pages),
            )
        };
        let done = memory.migrate(&areas, &order)?;
        let outcome = &done.outcome;
        self.spent += done.worked;
        self.moved_bytes = self.moved_bytes.saturating_add(outcome.moved);
        if let Some(left) = self.left.get_mut(&pair) {
            *left = left.saturating_sub(outcome.moved);
        }
        // Of what is cut, the rest is looked at again.
        if !done.is_cut {
            self.stuck.shared_bytes += outcome.shared;
            self.stuck.pinned_bytes += outcome.pinned;
            self.stuck.no_room_bytes += outcome.no_room;
        }
        if outcome.no_room > 0 {
            self.full.push(pair);
        }
        for each in moves.iter().filter(|_| !done.is_ended) {
            let now = if outcome.moved == bytes {
                each.when_moved()
            } else {
                memory.pages(each.whole_blocks(), each.area.page_bytes)?
            };
            self.placed.note(&each.area, pair, &now);
        }
        Ok(done)
    }

    /// All pages were looked at.
    fn end_pass(&mut self) {
        self.state = if self.full.is_empty() {
            State::Over
        } else {
            State::Resting(REST_WINDOWS)
        };
        for (pair, left) in &mut self.left {
            // More than there was is not waited for.
            if !self.full.contains(pair) {
                *left = 0;
            }
        }
    }

    /// Whether all that can go has gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.state == State::Over
    }

    /// Whether more will go, without a rest.
    pub(crate) fn is_going(&self) -> bool {
        self.state == State::Going
    }

    pub(crate) fn left_bytes(&self) -> u64 {
        let left = self.left.values();
        left.fold(0, |sum, left| sum.saturating_add(*left))
    }

    /// Bytes moved so far, and the time that it took with the search for them.
    pub(crate) fn moved(&self) -> (u64, Duration) {
        (self.moved_bytes, self.spent + self.looked)
    }

    /// What a byte took so far, ns; `None` as long as that says little.
    pub(crate) fn ns_per_byte(&self) -> Option<f64> {
        let is_enough = self.moved_bytes >= 1 << 20;
        is_enough.then(|| self.spent.as_nanos() as f64 / self.moved_bytes as f64)
    }

    /// The nodes that it is between.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = Pair> + '_ {
        self.left.keys().copied()
    }

    /// How many pages to look at together: no more than go in the time left, so that most are looked at once.
    fn batch_pages(&self, allowed: Duration) -> usize {
        let ns_per_page = self.ns_per_byte().map(|ns| ns * 4096.0);
        let pages = ns_per_page.map_or(FIRST_PAGES as f64, |ns| allowed.as_nanos() as f64 / ns);
        (pages as usize).clamp(PIECE_PAGES, BATCH_PAGES)
    }

    pub(crate) fn progress(&self, wait_ns: u64) -> GatherProgress {
        GatherProgress {
            process: self.process,
            moved_bytes: self.moved_bytes,
            left_bytes: self.left_bytes(),
            wait_ns: if self.state == State::Going {
                wait_ns
            } else {
                0
            },
            stuck: self.stuck,
        }
    }
}

fn totals(copies: &[(NodeId, NodeId, u64)]) -> BTreeMap<Pair, u64> {
    let mut left = BTreeMap::new();
    for (from, to, bytes) in copies.iter().filter(|(from, to, _)| from != to) {
        let sum: &mut u64 = left.entry((*from, *to)).or_default();
        *sum = sum.saturating_add(*bytes);
    }
    left
}

impl Moves {
    /// The pages that move together, and their neighbours up to whole blocks of 2 MiB.
    fn whole_blocks(&self) -> Range<usize> {
        let Moves { area, pages, .. } = self;
        let first = pages.keys().next().copied().unwrap_or(area.range.start);
        let last = pages.keys().next_back().copied().unwrap_or(first);
        let end = block(area, last).saturating_add(REGION_BYTES) / REGION_BYTES * REGION_BYTES;
        block(area, first)..end.max(last + area.page_bytes).min(area.range.end)
    }

    /// Where the pages of these blocks are, if all that should go have gone.
    fn when_moved(&self) -> Vec<(usize, NodeId)> {
        let blocks = self.whole_blocks();
        let seen = self.seen.iter().filter(|(page, _)| blocks.contains(page));
        let now =
            |(page, was): &(usize, NodeId)| (*page, self.pages.get(page).copied().unwrap_or(*was));
        seen.map(now).collect()
    }
}

/// Orders in force, by process.
pub(crate) type Gatherings = HashMap<ProcessKey, Gathering>;

#[cfg(test)]
mod tests;
