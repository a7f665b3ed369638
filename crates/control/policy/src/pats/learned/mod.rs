//! The knee, learned: how many threads persistent memory bears, from what was measured (ours).
//!
//! The objective: the most throughput of persistent memory at which DRAM loses at most `T_mc` of
//! the best that was seen of it since the work changed last.
//!
//! ```text
//!            first window                      all neighbours worse
//!   start ───────────────▶ reference ─────────▶ search ────────────▶ rest ◀──┐
//!                          limit 1: DRAM        Eq. 1's limit first,  │ │    │ not better,
//!                          undisturbed          doubled while it      │ └─▶ probe
//!                              ▲                gains, then halving   │   ± 1 │ better: search
//!                              └──────────────────────────────────────┘      on from there
//!                                 throughput changed, or DRAM lost too much
//! ```
//!
//! 1. **Reference.** DRAM cannot be compared with itself undisturbed, so limit 1 is measured
//!    first: 5 windows, 9 where they differ.
//! 2. **Search** ([`search`]). A limit is tried for 3 to 9 windows, until the medians differ by
//!    more than their noise explains; two windows of too much loss end it. It is better when it
//!    gains `min_gain` and DRAM bears it. What is best lies between two limits that are worse,
//!    and that gap is halved until it is closed.
//! 3. **Rest.** Only now and then, ever more rarely, one neighbour is tried for a moment
//!    ([`rest`]). It must gain `min_gain` and three times the noise, if need be over several
//!    such moments, so noise alone does not move the limit.
//! 4. **Change.** The reference is measured again after three windows in a row far from what is known, a loss of DRAM
//!    that lasts, or DRAM that drifted by 5 % more than noise. This happens at the earliest 8 windows after the last
//!    search, and up to 256 when searches keep ending at the same limit.
//!
//! Windows in which fewer threads asked than the limit admits say nothing about the limit and
//! are not counted, but for DRAM that lost too much; a search that lacked threads goes on when
//! they come. Everything follows from the windows given: there is no chance in it.
//!
//! Known gaps: a change in the middle of a search is seen only when it is over. Loss of DRAM
//! that limit 1 causes already is not seen. Throughput with several peaks may end at a lower one.

mod learner;
mod rest;
mod samples;
mod search;
mod verdict;

use egeria_facts::Measured;

use super::decision::{Because, Decision, Tried};
pub(super) use learner::Learner;
use learner::{Mode, REST_WINDOWS, change};
use samples::{MAX_WINDOWS, Rates, Samples};
use search::{Direction, Estimate, Search};
use verdict::Verdict;

/// Windows that the reference takes at least.
const REFERENCE_WINDOWS: u32 = 5;
/// Noise above which it takes [`MAX_WINDOWS`], a share.
const REFERENCE_NOISE: f64 = 0.01;
/// What counts as a change of the work: this share, or this number of standard deviations.
const CHANGE: f64 = 0.15;
const CHANGE_DEVIATIONS: f64 = 4.0;
const CHANGE_WINDOWS: u32 = 3;
/// The demand for DRAM may change by this share, besides noise, before its best counts as unknown; and the number of
/// windows of rest after which it is known.
const DRIFT: f64 = 0.05;
const ANCHOR_WINDOWS: u32 = 20;
/// How much one more window counts in what is known of the limit at rest.
const REST_GAIN: f64 = 1.0 / 16.0;

impl Learner {
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// The limit for the next window; `formula` is where a first search begins.
    pub(super) fn next(&mut self, measured: &Measured, formula: u32) -> Decision {
        let Some(rates) = usable(measured) else {
            self.noise.cut();
            return self.decision(Because::Idle, None);
        };
        self.demand = measured.demand.max(1);
        match self.mode {
            Mode::Start => self.refer(formula, Because::Reference),
            Mode::Reference { first } => self.on_reference(rates, first),
            Mode::Trial { probe } => self.on_trial(rates, probe),
            Mode::Rest => self.on_rest(rates),
        }
    }

    fn decision(&self, because: Because, tried: Option<Tried>) -> Decision {
        Decision {
            limit: self.limit,
            because,
            tried,
        }
    }

    /// Measures under another limit from now on.
    fn measure(&mut self, limit: u32, mode: Mode) {
        if limit != self.limit {
            self.noise.cut();
        }
        self.limit = limit;
        self.mode = mode;
        self.samples = Samples::default();
    }

    fn refer(&mut self, first: u32, because: Because) -> Decision {
        self.wide = Some((self.mode == Mode::Rest).then_some(self.search.best.limit));
        self.measure(1, Mode::Reference { first });
        self.decision(because, None)
    }

    fn on_reference(&mut self, rates: Rates, first: u32) -> Decision {
        self.samples.push(rates);
        self.noise.observe(rates);
        let noisy = self.noise.pm.max(self.noise.dram) > REFERENCE_NOISE;
        let wanted = if noisy {
            MAX_WINDOWS
        } else {
            REFERENCE_WINDOWS
        };
        if self.samples.count() < wanted {
            return self.decision(Because::Reference, None);
        }
        let estimate = self.estimate();
        self.best_dram = estimate.rates.dram;
        self.search = Search::wide(estimate, first);
        self.unfilled = false;
        let decision = self.go_on(None, None);
        if self.mode == Mode::Rest {
            self.rest_anew();
        }
        decision
    }

    /// Tries the next limit, or rests.
    fn go_on(&mut self, probe: Option<Direction>, tried: Option<Tried>) -> Decision {
        let (best, most) = (self.search.best.limit, self.most());
        match self.search.next_trial(most) {
            Some(limit) => {
                self.measure(limit, Mode::Trial { probe });
                self.decision(Because::Trying { best }, tried)
            }
            None => {
                self.unfilled |= best == most && most < self.settings.max_threads;
                self.measure(best, Mode::Rest);
                self.decision(Because::Settled, tried)
            }
        }
    }

    fn on_trial(&mut self, rates: Rates, probe: Option<Direction>) -> Decision {
        let wanted = self.limit.max(self.search.best.limit);
        if self.demand < wanted {
            // It cannot be filled now.
            self.unfilled |= self.limit == wanted;
            return self.finish_trial(probe, false);
        }
        self.samples.push(rates);
        self.noise.observe(rates);
        match self.verdict(probe) {
            Verdict::Open => self.decision(Because::Measuring, None),
            Verdict::Better => self.finish_trial(probe, true),
            Verdict::Worse => self.finish_trial(probe, false),
        }
    }

    fn finish_trial(&mut self, probe: Option<Direction>, taken: bool) -> Decision {
        let estimate = self.estimate();
        let tried = (estimate.windows > 0).then(|| Tried {
            limit: self.limit,
            gain: self.gain(estimate.rates.pm),
            loss: self.loss(estimate.rates.dram),
            taken,
        });
        self.see_dram(estimate.rates.dram);
        let shown = probe.map(|direction| (direction, self.evidence(direction)));
        if taken {
            self.search.won(estimate);
        } else {
            self.search.lost(self.limit);
        }
        let best = self.search.best.limit;
        match shown {
            Some((direction, _)) if taken && !self.rest.stepped(direction) => {
                self.anchor_dram = None;
                self.measure(best, Mode::Rest);
                return self.decision(Because::Settled, tried);
            }
            Some((direction, evidence)) if !taken => self.rest.stayed(direction, evidence),
            _ => {}
        }
        // Only the first step is a probe; those behind it search on.
        let decision = self.go_on(None, tried);
        if self.mode == Mode::Rest && (taken || probe.is_none()) {
            self.rest_anew();
        }
        decision
    }

    /// The limit rests where it was not before.
    fn rest_anew(&mut self) {
        self.rest.moved();
        self.anchor_dram = None;
        if let Some(before) = self.wide.take() {
            let best = self.search.best.limit;
            let is_same = before.is_some_and(|before| before.abs_diff(best) <= 1);
            self.rest.hold(is_same);
        }
    }

    fn on_rest(&mut self, rates: Rates) -> Decision {
        self.rest.tick();
        let best = self.search.best;
        let is_full = self.demand >= best.limit;
        let is_odd = if is_full {
            self.noise.observe(rates);
            self.is_change(rates)
        } else {
            self.noise.cut();
            self.loses_too_much(rates.dram)
        };
        self.rest.odd_windows = if is_odd { self.rest.odd_windows + 1 } else { 0 };
        if is_full && !is_odd {
            self.follow(rates);
        }
        let lasting = is_full
            && !is_odd
            && (self.has_drifted() || self.loses_too_much(self.search.best.rates.dram));
        if (self.rest.odd_windows >= CHANGE_WINDOWS || lasting) && self.rest.may_search() {
            let (pm, dram) = (
                change(best.rates.pm, rates.pm),
                change(best.rates.dram, rates.dram),
            );
            return self.refer(best.limit, Because::Changed { pm, dram });
        }
        if is_full && !is_odd {
            self.look()
        } else {
            self.decision(Because::Settled, None)
        }
    }

    /// Goes on with a search that had too few threads, or tries a neighbour, if it is time.
    fn look(&mut self) -> Decision {
        let (best, most) = (self.search.best, self.most());
        if self.unfilled && best.limit < most && self.rest.may_search() {
            self.unfilled = false;
            self.wide = Some(Some(best.limit));
            self.search = Search::upwards(best, best.limit);
            return self.go_on(None, None);
        }
        match self.rest.probe(best.limit < most, best.limit > 1) {
            None => self.decision(Because::Settled, None),
            Some(direction) => {
                self.search = Search::narrow(best, direction);
                self.go_on(Some(direction), None)
            }
        }
    }

    /// No limit above this can be tried now.
    fn most(&self) -> u32 {
        self.settings.max_threads.min(self.demand)
    }

    /// Whether DRAM is another than when the limit began to rest: what it could do undisturbed
    /// must be seen again, for the loss is a share of that.
    fn has_drifted(&mut self) -> bool {
        let best = self.search.best;
        if best.windows < ANCHOR_WINDOWS {
            return false;
        }
        let anchor = *self.anchor_dram.get_or_insert(best.rates.dram);
        change(anchor, best.rates.dram).abs() > DRIFT + self.noise.dram
    }

    /// What is known of the limit at rest follows what is measured.
    fn follow(&mut self, rates: Rates) {
        let best = &mut self.search.best;
        best.rates.pm += REST_GAIN * (rates.pm - best.rates.pm);
        best.rates.dram += REST_GAIN * (rates.dram - best.rates.dram);
        best.windows = (best.windows + 1).min(REST_WINDOWS);
    }

    /// The best of DRAM, but for noise.
    fn see_dram(&mut self, dram: f64) {
        if dram > self.best_dram * (1.0 + verdict::SEARCH_ERRORS * self.noise.dram) {
            self.best_dram = dram;
        }
    }

    fn estimate(&self) -> Estimate {
        Estimate {
            limit: self.limit,
            rates: self.samples.median(),
            windows: self.samples.count(),
        }
    }

    fn is_change(&self, rates: Rates) -> bool {
        let known = self.search.best.rates;
        let beyond = |known: f64, now: f64, noise: f64| {
            change(known, now).abs() > CHANGE.max(CHANGE_DEVIATIONS * noise)
        };
        beyond(known.pm, rates.pm, self.noise.pm) || beyond(known.dram, rates.dram, self.noise.dram)
    }
}

/// What a window measured, if it can be learned from.
fn usable(measured: &Measured) -> Option<Rates> {
    let rates = Rates {
        pm: measured.pm_bytes_s,
        dram: measured.dram_bytes_s?,
    };
    let good =
        rates.pm.is_finite() && rates.pm > 0.0 && rates.dram.is_finite() && rates.dram >= 0.0;
    (good && measured.mix.requests > 0).then_some(rates)
}
