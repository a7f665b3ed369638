//! What is remembered while the limit rests: when to look again, and what looking has shown.

use super::search::Direction;

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
    interval: u32,
    until_probe: u32,
    hold: u32,
    hold_left: u32,
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
        let interval = FIRST_PROBE.min(probe_windows.max(1));
        Rest {
            max_interval: probe_windows.max(1),
            interval,
            until_probe: interval,
            hold: FIRST_HOLD,
            hold_left: 0,
            odd_windows: 0,
            next: Direction::Up,
            won: None,
            evidence: [Evidence::default(); 2],
        }
    }

    /// A search is over; `found_same` when it ended where it had begun.
    pub(super) fn hold(&mut self, found_same: bool) {
        self.hold = if found_same {
            (self.hold * 2).min(MAX_HOLD)
        } else {
            FIRST_HOLD
        };
        self.hold_left = self.hold;
    }

    /// The limit is a new one: what was known of its neighbours is not about it.
    pub(super) fn moved(&mut self) {
        self.interval = FIRST_PROBE.min(self.max_interval);
        self.until_probe = self.interval;
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
        self.until_probe = NEXT_PROBE.min(self.max_interval);
        again
    }

    /// The neighbour was not better.
    pub(super) fn stayed(&mut self, direction: Direction, evidence: Evidence) {
        self.interval = self.interval.saturating_mul(2).min(self.max_interval);
        self.until_probe = self.interval;
        self.evidence[direction as usize] = evidence;
        self.odd_windows = 0;
        self.won = None;
    }

    pub(super) fn evidence(&self, direction: Direction) -> Evidence {
        self.evidence[direction as usize]
    }

    /// One window of rest is over.
    pub(super) fn tick(&mut self) {
        self.until_probe = self.until_probe.saturating_sub(1);
        self.hold_left = self.hold_left.saturating_sub(1);
    }

    /// Whether a search may begin.
    pub(super) fn may_search(&self) -> bool {
        self.hold_left == 0
    }

    /// Which neighbour to look at now, if any: one after the other.
    pub(super) fn probe(&mut self, can_up: bool, can_down: bool) -> Option<Direction> {
        if self.until_probe > 0 {
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
