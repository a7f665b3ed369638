//! What the learner knows.

use super::super::settings::Settings;
use super::rest::Rest;
use super::samples::{Noise, Rates, Samples};
use super::search::{Direction, Estimate, Search};

/// How many windows what is known of the limit at rest is worth.
pub(super) const REST_WINDOWS: u32 = 31;

/// What it does now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Mode {
    Start,
    Reference { first: u32 },
    Trial { probe: Option<Direction> },
    Rest,
}

/// Learns the limit from windows.
#[derive(Clone, Debug)]
pub(in crate::pats) struct Learner {
    pub(super) settings: Settings,
    pub(super) limit: u32,
    pub(super) mode: Mode,
    pub(super) samples: Samples,
    pub(super) noise: Noise,
    pub(super) search: Search,
    /// The best of DRAM since the last reference, bytes/s.
    pub(super) best_dram: f64,
    /// DRAM when the limit began to rest, bytes/s.
    pub(super) anchor_dram: Option<f64>,
    pub(super) rest: Rest,
    /// A search from the reference on is under way, and the limit before it, if there was one.
    pub(super) wide: Option<Option<u32>>,
    /// Too few threads asked to find out whether a higher limit is better.
    pub(super) unfilled: bool,
    pub(super) demand: u32,
}

impl Learner {
    pub(in crate::pats) fn new(settings: &Settings, limit: u32) -> Learner {
        let nothing = Estimate {
            limit: 1,
            rates: Rates::default(),
            windows: 0,
        };
        Learner {
            settings: settings.clone(),
            limit,
            mode: Mode::Start,
            samples: Samples::default(),
            noise: Noise::default(),
            search: Search::wide(nothing, limit),
            best_dram: 0.0,
            anchor_dram: None,
            rest: Rest::new(settings.probe_windows),
            wide: None,
            unfilled: false,
            demand: 0,
        }
    }
}

/// From one to the other, a share of the first; from nothing to something is all of it.
pub(super) fn change(from: f64, to: f64) -> f64 {
    if from > 0.0 {
        to / from - 1.0
    } else if to > 0.0 {
        1.0
    } else {
        0.0
    }
}
