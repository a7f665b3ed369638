//! Limits and delegation: each is tried, measured, and kept only where it pays (ours).
//!
//! ```text
//!   what they could be set to      no limits, those wanted, those of Eq. 1; each with and without delegation
//!   progress                       bytes/s of each thread that uses files; accesses/s of each process' memory
//!   speed of a setting             progress compared with neither of the two, geometric mean over threads
//!   tried                          for `trial_windows`, or one if it is much slower; both together if neither alone is
//!   may lose                       a part of the time that passes
//!   kept                           the fastest; neither, if that brings less than a hundredth
//! ```
//!
//! Threads and files stay where they are while settings are tried. If they move all the same, the setting is measured
//! again. If the work changes during a trial, the loss is taken against the slower neighbouring window. A result holds
//! for one *regime*: the threads that are active, and how much each of them writes. It holds for `retry_windows`; if
//! threads or data have moved since, only as long as the threads get the same rates. Limits and delegation change how
//! fast threads are, but not which regime it is, so regimes can be told apart under all settings. So can the length of
//! requests, under one setting. The setting of a window in which nothing else changes is measured, in a trial or not.
//! A new regime begins with the setting that was kept last.

use super::super::settings::Feedback;
use super::arm::Arm;
use super::credit::Credit;
use std::collections::BTreeMap;

use super::progress::{Progress, speed};
use super::regime::{MIN_GAIN, Regime, Verdict};

/// A setting that gained in this many regimes is likely to gain in another.
const MIN_REGIMES: usize = 2;
/// Regimes that are remembered.
const MAX_REGIMES: usize = 16;
/// How long to wait for threads and files that go on moving, in windows.
const MAX_UNREST_WINDOWS: u32 = 8;

/// What is found out about limits and delegation.
#[derive(Clone, Debug, Default)]
pub(super) struct Trials {
    regimes: Vec<Regime>,
    /// The setting of the window whose facts come next.
    acting: Arm,
    /// The setting when nothing is tried.
    settled: Arm,
    /// What is being tried.
    trying: bool,
    /// Progress in the last window in which nothing was tried.
    untried: Progress,
    /// A trial that was interrupted by a change of work.
    broken_off: Option<BrokenOff>,
    /// The part of a window that each setting lost in trials, compared with the fastest. Recent trials count most.
    losses: BTreeMap<Arm, f64>,
    /// Windows since something other than limits and delegation changed.
    quiet_windows: u32,
    unrest_windows: u32,
    /// Windows in which something else changed.
    changes: u64,
    windows: u64,
}

/// A trial that was interrupted by a change of work.
#[derive(Clone, Debug)]
struct BrokenOff {
    arm: Arm,
    got: Progress,
    /// The part of a window that it lost, compared with the window before.
    lost: f64,
}

impl Trials {
    /// Takes what threads got in a window.
    pub(super) fn look(&mut self, progress: &Progress, settings: &Feedback, credit: &mut Credit) {
        self.windows += 1;
        let (windows, acting, changes) = (self.windows, self.acting, self.changes);
        let regimes = self.regimes.iter().enumerate();
        let like = regimes.filter(|(_, each)| each.is_like(progress, acting, changes));
        // The regime of the last window is assumed to continue, if it fits.
        let known = like.max_by_key(|(_, each)| each.seen).map(|each| each.0);
        let index = known.unwrap_or_else(|| self.add(progress.clone()));
        let regime = &mut self.regimes[index];
        let is_whole = regime.see(acting, progress, changes);
        // A window may contain two regimes, unless one like it was seen.
        let is_same = is_whole || (known.is_some() && regime.seen + 1 >= windows);
        regime.seen = windows;
        let was_trying = self.trying;
        self.trying &= is_same;
        match was_trying {
            // The work of threads is new: let them move first.
            true if !is_same => self.break_off(progress, credit),
            true => {}
            false => self.look_beside(progress, credit),
        }
        if !is_same || self.quiet_windows == 0 {
            return;
        }
        let regime = &mut self.regimes[index];
        regime.doubt(acting, progress, changes);
        if regime.changes != changes {
            (regime.changes, regime.measured) = (changes, BTreeMap::new());
        }
        let lost = regime.lost(progress);
        regime.measure(acting, progress, settings.trial_windows);
        if self.trying {
            credit.lose(lost);
            self.remember_loss(acting, lost);
        }
    }

    fn remember_loss(&mut self, arm: Arm, lost: f64) {
        let before = self.losses.get(&arm).copied().unwrap_or(lost);
        self.losses.insert(arm, (before + lost) / 2.0);
    }

    /// Work changed during a trial. Threads may be slower because of that, or because of the setting. The loss is
    /// taken against the window before, until a window after the trial is known.
    fn break_off(&mut self, progress: &Progress, credit: &mut Credit) {
        let lost = (1.0 - speed(progress, &self.untried)).max(0.0);
        credit.lose(lost);
        self.broken_off = Some(BrokenOff {
            arm: self.acting,
            got: progress.clone(),
            lost,
        });
    }

    /// Takes a window in which nothing was tried. The loss of an interrupted trial is taken against the slower of the
    /// two windows around it.
    fn look_beside(&mut self, progress: &Progress, credit: &mut Credit) {
        if let Some(BrokenOff { arm, got, lost }) = self.broken_off.take() {
            let least = lost.min((1.0 - speed(&got, progress)).max(0.0));
            credit.lose(least - lost);
            self.remember_loss(arm, least);
        }
        self.untried = progress.clone();
    }

    fn add(&mut self, deeds: Progress) -> usize {
        if self.regimes.len() == MAX_REGIMES {
            let regimes = self.regimes.iter().enumerate();
            let oldest = regimes.min_by_key(|(_, regime)| regime.seen);
            let oldest = oldest.map_or(0, |(index, _)| index);
            self.regimes.remove(oldest);
        }
        self.regimes.push(Regime::new(deeds, self.changes));
        self.regimes.len() - 1
    }

    /// The setting from now on, given what the stages want and whether anything else changes now.
    pub(super) fn choose(
        &mut self,
        wanted: Arm,
        is_quiet: bool,
        settings: &Feedback,
        credit: &Credit,
    ) -> Arm {
        let acts = self.next(wanted, is_quiet, settings, credit);
        if !self.trying {
            self.settled = acts;
        }
        acts
    }

    fn next(&mut self, wanted: Arm, is_quiet: bool, settings: &Feedback, credit: &Credit) -> Arm {
        self.quiet_windows = if is_quiet { self.quiet_windows + 1 } else { 0 };
        self.changes += u64::from(!is_quiet);
        let windows = self.windows;
        let (likely, hopeless) = self.record();
        let Some(regime) = (self.regimes.iter_mut()).find(|regime| regime.seen == windows) else {
            return self.acting;
        };
        let holds =
            |verdict: &&Verdict| windows < verdict.until && wanted.is_within(verdict.wanted);
        if let Some(kept) = regime
            .verdict
            .as_ref()
            .filter(holds)
            .map(|verdict| verdict.kept)
        {
            self.unrest_windows = 0;
            return self.stay(kept);
        }
        let is_measured = regime.measured.contains_key(&Arm::NEITHER);
        let so_far = if is_measured {
            regime.fastest()
        } else {
            likely
        };
        if wanted == Arm::NEITHER {
            // Under the present setting they may no longer be wanted, and be wanted again without it.
            return self.stay(so_far);
        }
        self.unrest_windows += 1;
        let waits = !self.trying && !is_quiet && self.unrest_windows < MAX_UNREST_WINDOWS;
        let wanted = regime.wanted(wanted);
        let arms = regime.next_arms(so_far, wanted, settings.trial_windows);
        let is_paid = |arm: &&Arm| {
            let may_gain = regime.measured.contains_key(*arm) || !hopeless.contains(*arm);
            let loss = self.losses.get(*arm).copied().unwrap_or_default();
            **arm == so_far || (may_gain && credit.covers(loss))
        };
        match arms.iter().find(is_paid).copied() {
            Some(next) if !waits => {
                (self.trying, self.settled, self.acting) = (true, so_far, next);
                next
            }
            None if arms.is_empty() => {
                let until = windows + u64::from(settings.retry_windows);
                let kept = regime.decide(wanted, until, self.changes);
                self.stay(kept)
            }
            _ => self.stay(so_far),
        }
    }

    /// Nothing is tried now.
    fn stay(&mut self, arm: Arm) -> Arm {
        (self.trying, self.acting) = (false, arm);
        arm
    }

    /// How a regime without measurements begins. Returns the setting that gained most in other regimes, if it gained
    /// in several and lost in none; else neither. Also returns the settings that are not tried: those that gained in
    /// none of several.
    fn record(&self) -> (Arm, Vec<Arm>) {
        let mut known: BTreeMap<Arm, Vec<f64>> = BTreeMap::new();
        for (arm, speed) in self.regimes.iter().flat_map(Regime::known_speeds) {
            known.entry(arm).or_default().push(speed);
        }
        known.retain(|arm, speeds| *arm != Arm::NEITHER && speeds.len() >= MIN_REGIMES);
        let gains = |speeds: &[f64]| {
            let gains = speeds.iter().filter(|speed| **speed > 1.0 + MIN_GAIN);
            gains.count()
        };
        let hopeless = known.iter().filter(|(_, speeds)| gains(speeds) == 0);
        let hopeless = hopeless.map(|(arm, _)| *arm).collect();
        known.retain(|_, speeds| {
            let never_loses = speeds.iter().all(|speed| *speed > 1.0 - MIN_GAIN);
            gains(speeds) >= MIN_REGIMES && never_loses
        });
        let mean = |speeds: &[f64]| {
            let sum: f64 = speeds.iter().map(|speed| speed.ln()).sum();
            sum / speeds.len() as f64
        };
        let best = (known.iter()).max_by(|one, other| mean(one.1).total_cmp(&mean(other.1)));
        (best.map_or(Arm::NEITHER, |(arm, _)| *arm), hopeless)
    }

    /// Stops trying for now. Returns the setting in force then.
    pub(super) fn pause(&mut self) -> Arm {
        self.stay(self.settled)
    }

    /// Whether settings are being tried, so that nothing else should change.
    pub(super) fn is_trying(&self) -> bool {
        self.trying
    }
}
