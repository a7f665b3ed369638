//! What is remembered while the limit rests: when to look again, and what looking has shown.

use super::search::Direction;
use crate::rest::Rest as Pause;

/// The first look at a neighbour comes after this number of windows of rest, later ones ever more rarely.
const FIRST_PROBE: u32 = 16;
/// The next look comes after this number if one was better.
const NEXT_PROBE: u32 = 8;
/// No search begins sooner than this after another, and later when searches keep finding the same.
const FIRST_HOLD: u32 = 8;
const MAX_HOLD: u32 = 256;
/// What neighbours showed is forgotten by halves after this number of windows.
const MAX_EVIDENCE: u32 = 90;

/// When to look again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    max_interval: u32,
    /// No neighbour is looked at.
    probe: Pause,
    /// No search begins.
    hold: Pause,
    /// Windows in a row that were unlike what is known.
    pub odd_windows: u32,
    next: Direction,
    /// The last probe was better, this way.
    won: Option<Direction>,
    evidence: [Evidence; 2],
}

/// What a neighbour gained over all the times it was tried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    pub windows: u32,
    pub probes: u32,
    gain_sum: f64,
}

impl Evidence {
    pub(super) fn with(self, gain: f64, windows: u32) -> Evidence {
        let old = if self.windows >= MAX_EVIDENCE { 2 } else { 1 };
        Evidence {
            windows: self.windows / old + windows,
            probes: self.probes / old + 1,
            gain_sum: self.gain_sum / f64::from(old) + gain * f64::from(windows),
        }
    }

    /// The mean gain, a share.
    pub(super) fn gain(&self) -> f64 {
        self.gain_sum / f64::from(self.windows.max(1))
    }
}

impl Rest {
    pub(super) fn new(probe_windows: u32) -> Rest {
        let mut rest = Rest {
            max_interval: probe_windows.max(1),
            probe: Pause::default(),
            hold: Pause::default(),
            odd_windows: 0,
            next: Direction::Up,
            won: None,
            evidence: [Evidence::default(); 2],
        };
        rest.moved();
        rest
    }

    /// A search is over; `found_same` when it ended where it had begun.
    pub(super) fn hold(&mut self, found_same: bool) {
        if !found_same {
            self.hold = Pause::default();
        }
        self.hold.begin(FIRST_HOLD, MAX_HOLD);
    }

    /// The limit is a new one: what was known of its neighbours is not about it.
    pub(super) fn moved(&mut self) {
        self.probe = Pause::default();
        self.probe.begin(FIRST_PROBE, self.max_interval);
        self.evidence = [Evidence::default(); 2];
        self.odd_windows = 0;
        self.won = None;
    }

    /// The neighbour was better, and the limit moved there. Says whether that is the second time
    /// running, this way: then it is no accident, and worth a search.
    pub(super) fn stepped(&mut self, direction: Direction) -> bool {
        let again = self.won == Some(direction);
        self.moved();
        self.won = Some(direction);
        self.next = direction;
        self.probe.only(NEXT_PROBE.min(self.max_interval));
        again
    }

    /// The neighbour was not better.
    pub(super) fn stayed(&mut self, direction: Direction, evidence: Evidence) {
        self.probe.begin(FIRST_PROBE, self.max_interval);
        self.evidence[direction as usize] = evidence;
        self.odd_windows = 0;
        self.won = None;
    }

    pub(super) fn evidence(&self, direction: Direction) -> Evidence {
        self.evidence[direction as usize]
    }

    /// One window of rest is over.
    pub(super) fn tick(&mut self) {
        self.probe.pass();
        self.hold.pass();
    }

    /// Whether a search may begin.
    pub(super) fn may_search(&self) -> bool {
        self.hold.is_over()
    }

    /// Which neighbour to look at now, if any: one after the other.
    pub(super) fn probe(&mut self, can_up: bool, can_down: bool) -> Option<Direction> {
        if !self.probe.is_over() {
            return None;
        }
        let wanted = self.next;
        let direction = match (wanted, can_up, can_down) {
            (Direction::Up, true, _) | (Direction::Down, true, false) => Direction::Up,
            (Direction::Down, _, true) | (Direction::Up, false, true) => Direction::Down,
            _ => return None,
        };
        self.next = match direction {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        };
        Some(direction)
    }
}
