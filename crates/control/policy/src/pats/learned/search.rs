//! Which limit to try next: the best one lies between two that are worse.

use super::samples::Rates;

/// What is known of a limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Estimate {
    pub limit: u32,
    pub rates: Rates,
    /// From how many windows.
    pub windows: u32,
}

/// Which way to go as long as it gets better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Up,
    Down,
}

/// The best limit known, and the nearest on both sides that were worse.
///
/// With throughput that rises to a peak and falls behind it, and a loss that grows with the
/// limit, what is best lies between those two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    pub best: Estimate,
    /// 0: none.
    below: u32,
    /// `u32::MAX`: none.
    above: u32,
    first: Option<u32>,
    going: Option<Direction>,
    stride: u32,
}

impl Search {
    /// Everything is open: beginning at limit 1, `first` is tried first, then its multiples.
    pub(super) fn wide(best: Estimate, first: u32) -> Search {
        Search {
            best,
            below: 0,
            above: u32::MAX,
            first: Some(first.max(2)),
            going: None,
            stride: 1,
        }
    }

    /// Only the next limit is tried; when that is better, those beyond with growing strides.
    pub(super) fn narrow(best: Estimate, direction: Direction) -> Search {
        let (below, above) = match direction {
            Direction::Up => (best.limit - 1, u32::MAX),
            Direction::Down => (0, best.limit + 1),
        };
        Search {
            best,
            below,
            above,
            first: None,
            going: Some(direction),
            stride: 1,
        }
    }

    /// Everything above is open.
    pub(super) fn upwards(best: Estimate, stride: u32) -> Search {
        Search {
            stride,
            ..Search::narrow(best, Direction::Up)
        }
    }

    /// What to try next, from 1 to `most`; `None` when the best is found.
    pub(super) fn next_trial(&self, most: u32) -> Option<u32> {
        let (best, most) = (self.best.limit, most.max(1));
        let top = self.above.min(most.saturating_add(1));
        let inside =
            |limit: u32| (self.below < limit && limit < top && limit != best).then_some(limit);
        let first = self.first.and_then(|first| inside(first.clamp(1, most)));
        let beyond = match self.going {
            Some(Direction::Up) => inside(best.saturating_add(self.stride).min(most)),
            Some(Direction::Down) => inside(best.saturating_sub(self.stride).max(1)),
            None => None,
        };
        first.or(beyond).or_else(|| self.halve(top))
    }

    /// The middle of the wider side.
    fn halve(&self, top: u32) -> Option<u32> {
        let best = self.best.limit;
        let (up, down) = (top.saturating_sub(best), best - self.below);
        match up.max(down) {
            0 | 1 => None,
            _ if up >= down => Some(best + up / 2),
            _ => Some(best - down / 2),
        }
    }

    /// What was tried is better.
    pub(super) fn won(&mut self, tried: Estimate) {
        if tried.limit > self.best.limit {
            self.below = self.best.limit;
        } else {
            self.above = self.best.limit;
        }
        self.best = tried;
        self.stride = self.stride.saturating_mul(2);
        if self.first.take().is_some() {
            self.going = Some(Direction::Up);
            self.stride = tried.limit;
        }
    }

    /// What was tried is worse.
    pub(super) fn lost(&mut self, limit: u32) {
        if limit > self.best.limit {
            self.above = limit;
        } else {
            self.below = limit;
        }
        self.first = None;
        self.going = None;
    }
}
