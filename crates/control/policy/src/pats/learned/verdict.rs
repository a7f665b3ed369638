//! Whether the limit that is tried is better than the best so far.

use super::learner::{Learner, REST_WINDOWS, change};
use super::rest::Evidence;
use super::samples::MAX_WINDOWS;
use super::search::Direction;

/// Windows after which a trial can be decided for better, and after which for too much loss.
const MIN_WINDOWS: u32 = 3;
const LOSS_WINDOWS: u32 = 2;
/// Standard errors that count as a difference, in a search and at rest.
pub(super) const SEARCH_ERRORS: f64 = 2.0;
const PROBE_ERRORS: f64 = 3.0;
/// Loss of DRAM, besides noise, by which a limit already in use may exceed the tolerated loss, a share.
const SLACK: f64 = 0.02;
/// Sums of shares are not exact.
const ROUNDING: f64 = 1e-9;

/// What a trial shows so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Another window may tell.
    Open,
    /// It takes the place of the best.
    Better,
    Worse,
}

impl Learner {
    /// What the windows of the trial show, DRAM first.
    pub(super) fn verdict(&self, probe: Option<Direction>) -> Verdict {
        let windows = self.samples.count();
        let dram = self.samples.median().dram;
        if self.is_lost() {
            return Verdict::Worse;
        }
        if windows < MIN_WINDOWS {
            return Verdict::Open;
        }
        let (loss, last) = (self.loss(dram), windows >= MAX_WINDOWS);
        let error = SEARCH_ERRORS * self.noise.loss_error(windows);
        if self.is_beyond(loss, error) || (last && self.is_beyond(loss, 0.0)) {
            return Verdict::Worse;
        }
        // A limit that rests must be borne beyond doubt to be left for another.
        let in_doubt = self.is_beyond(loss, -error);
        match self.pm_verdict(probe, last) {
            Verdict::Better if in_doubt && !last => Verdict::Open,
            Verdict::Better if in_doubt && probe.is_some() => Verdict::Worse,
            verdict => verdict,
        }
    }

    /// The verdict on a limit by persistent memory alone.
    fn pm_verdict(&self, probe: Option<Direction>, last: bool) -> Verdict {
        let (windows, least) = (self.samples.count(), self.settings.min_gain);
        let gain = self.gain(self.samples.median().pm);
        let errors = if probe.is_some() {
            PROBE_ERRORS
        } else {
            SEARCH_ERRORS
        };
        let error = errors * self.noise.gain_error(windows, self.search.best.windows);
        let is_better = match probe {
            _ if gain > least + error => true,
            _ if gain < least - error => false,
            _ if !last => return Verdict::Open,
            Some(direction) => self.is_proven(self.evidence(direction)),
            None => gain > least,
        };
        if is_better {
            Verdict::Better
        } else {
            Verdict::Worse
        }
    }

    /// Whether all probes of a neighbour together say what one alone cannot.
    fn is_proven(&self, all: Evidence) -> bool {
        let base_windows = REST_WINDOWS.saturating_mul(all.probes);
        let error = self.noise.gain_error(all.windows, base_windows);
        all.gain() > self.settings.min_gain + PROBE_ERRORS * error
    }

    /// What all probes of a neighbour showed, with the one under way.
    pub(super) fn evidence(&self, direction: Direction) -> Evidence {
        let before = self.rest.evidence(direction);
        match self.samples.count() {
            0 => before,
            windows => before.with(self.gain(self.samples.median().pm), windows),
        }
    }

    /// Whether every window alone shows that DRAM loses too much: no need to go on.
    fn is_lost(&self) -> bool {
        let error = SEARCH_ERRORS * self.noise.dram;
        let mut losses = self.samples.all().iter().map(|each| self.loss(each.dram));
        self.samples.count() >= LOSS_WINDOWS && losses.all(|loss| self.is_beyond(loss, error))
    }

    fn is_beyond(&self, loss: f64, error: f64) -> bool {
        loss > self.settings.tolerated_loss + error + ROUNDING
    }

    /// What persistent memory gains over the best so far, a share.
    pub(super) fn gain(&self, pm: f64) -> f64 {
        change(self.search.best.rates.pm, pm)
    }

    /// What DRAM lost of its best, a share; nothing can be lost of nothing.
    pub(super) fn loss(&self, dram: f64) -> f64 {
        (-change(self.best_dram, dram)).max(0.0)
    }

    /// Of a limit that was taken: beyond what noise explains.
    pub(super) fn loses_too_much(&self, dram: f64) -> bool {
        self.loss(dram) > self.settings.tolerated_loss + SLACK + self.noise.dram
    }
}
