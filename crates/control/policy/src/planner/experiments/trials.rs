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
use super::progress::{Progress, speed};
use super::regime::{MIN_GAIN, Regime, Verdict};

/// What trials may lose at first, in windows.
const FIRST_CREDIT_WINDOWS: f64 = 2.0;
/// A setting that gained in this many regimes is likely to gain in another.
const MIN_REGIMES: usize = 2;
/// Regimes that are remembered.
const MAX_REGIMES: usize = 16;
/// How long to wait for threads and files that go on moving, in windows.
const MAX_UNREST_WINDOWS: u32 = 8;

/// What is found out about limits and delegation.
#[derive(Clone, Debug)]
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
    /// What trials may lose now, in windows.
    credit: Credit,
    /// The part of a window that each setting lost in trials, compared with the fastest. Recent trials count most.
    losses: Vec<(Arm, f64)>,
    /// Windows since something other than limits and delegation changed.
    quiet_windows: u32,
    unrest_windows: u32,
    /// Windows in which something else changed.
    changes: u64,
    windows: u64,
}

impl Default for Trials {
    fn default() -> Trials {
        Trials {
            regimes: Vec::new(),
            acting: Arm::NEITHER,
            settled: Arm::NEITHER,
            trying: false,
            untried: Progress::new(),
            broken_off: None,
            credit: Credit::new(FIRST_CREDIT_WINDOWS),
            losses: Vec::new(),
            quiet_windows: 0,
            unrest_windows: 0,
            changes: 0,
            windows: 0,
        }
    }
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
    pub(super) fn look(&mut self, progress: &Progress, settings: &Feedback) {
        self.windows += 1;
        self.credit.earn();
        let (windows, acting, changes) = (self.windows, self.acting, self.changes);
        let regimes = self.regimes.iter().enumerate();
        let like = regimes.filter(|(_, each)| each.is_like(progress, acting, changes));
        // The regime of the last window is assumed to continue, if it fits.
        let known = like.max_by_key(|(_, each)| each.seen).map(|each| each.0);
        let index = known.unwrap_or_else(|| self.add(progress.clone()));
        let regime = &mut self.regimes[index];
        let is_whole = known.is_some() && regime.is_known(acting, changes);
        regime.last.retain(|(arm, _, _)| *arm != acting);
        regime.last.push((acting, changes, progress.clone()));
        // A window may contain two regimes, unless one like it was seen.
        let is_same = is_whole || (known.is_some() && regime.seen + 1 >= windows);
        regime.seen = windows;
        let was_trying = self.trying;
        self.trying &= is_same;
        match was_trying {
            // The work of threads is new: let them move first.
            true if !is_same => self.break_off(progress),
            true => {}
            false => self.look_beside(progress),
        }
        if !is_same || self.quiet_windows == 0 {
            return;
        }
        let regime = &mut self.regimes[index];
        regime.doubt(acting, progress, changes);
        if regime.changes != changes {
            (regime.changes, regime.measured) = (changes, Vec::new());
        }
        let lost = regime.lost(progress);
        regime.measure(acting, progress, settings.trial_windows);
        if self.trying {
            self.credit.lose(lost);
            self.remember_loss(acting, lost);
        }
    }

    fn remember_loss(&mut self, arm: Arm, lost: f64) {
        match self.losses.iter_mut().find(|(other, _)| *other == arm) {
            Some((_, before)) => *before = (*before + lost) / 2.0,
            None => self.losses.push((arm, lost)),
        }
    }

    /// Work changed during a trial. Threads may be slower because of that, or because of the setting. The loss is
    /// taken against the window before, until a window after the trial is known.
    fn break_off(&mut self, progress: &Progress) {
        let lost = (1.0 - speed(progress, &self.untried)).max(0.0);
        self.credit.lose(lost);
        self.broken_off = Some(BrokenOff {
            arm: self.acting,
            got: progress.clone(),
            lost,
        });
    }

    /// Takes a window in which nothing was tried. The loss of an interrupted trial is taken against the slower of the
    /// two windows around it.
    fn look_beside(&mut self, progress: &Progress) {
        if let Some(BrokenOff { arm, got, lost }) = self.broken_off.take() {
            let least = lost.min((1.0 - speed(&got, progress)).max(0.0));
            self.credit.lose(least - lost);
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
        self.regimes.push(Regime {
            deeds,
            seen: self.windows,
            last: Vec::new(),
            measured: Vec::new(),
            changes: self.changes,
            verdict: None,
        });
        self.regimes.len() - 1
    }

    /// The setting from now on, given what the stages want and whether anything else changes now.
    pub(super) fn choose(&mut self, wanted: Arm, is_quiet: bool, settings: &Feedback) -> Arm {
        let acts = self.next(wanted, is_quiet, settings);
        if !self.trying {
            self.settled = acts;
        }
        acts
    }

    fn next(&mut self, wanted: Arm, is_quiet: bool, settings: &Feedback) -> Arm {
        self.quiet_windows = if is_quiet { self.quiet_windows + 1 } else { 0 };
        self.changes += u64::from(!is_quiet);
        let windows = self.windows;
        let (likely, hopeless) = self.record();
        let Some(regime) = (self.regimes.iter_mut()).find(|regime| regime.seen == windows) else {
            return self.acting;
        };
        let verdict = regime.verdict.as_ref();
        let verdict =
            verdict.filter(|verdict| windows < verdict.until && wanted.is_within(verdict.wanted));
        if let Some(verdict) = verdict {
            (self.trying, self.unrest_windows) = (false, 0);
            self.acting = verdict.kept;
            return self.acting;
        }
        let so_far = match regime.got(Arm::NEITHER) {
            None => likely,
            Some(_) => regime.fastest(),
        };
        if wanted == Arm::NEITHER {
            // Under the present setting they may no longer be wanted, and be wanted again without it.
            (self.trying, self.acting) = (false, so_far);
            return so_far;
        }
        self.unrest_windows += 1;
        let waits = !self.trying && !is_quiet && self.unrest_windows < MAX_UNREST_WINDOWS;
        let wanted = regime.wanted(wanted);
        let arms = regime.next_arms(so_far, wanted, settings.trial_windows);
        let loss = |arm: Arm| {
            let known = self.losses.iter().find(|(other, _)| *other == arm);
            known.map_or(0.0, |(_, loss)| *loss)
        };
        let is_paid = |arm: &&Arm| {
            let is_measured = regime.measured.iter().any(|each| each.0 == **arm);
            let may_gain = is_measured || !hopeless.contains(*arm);
            **arm == so_far || (may_gain && self.credit.covers(loss(**arm)))
        };
        let next = arms.iter().find(is_paid).copied();
        if !arms.is_empty() && (waits || next.is_none()) {
            (self.trying, self.acting) = (false, so_far);
            return so_far;
        }
        self.trying = next.is_some();
        self.settled = so_far;
        self.acting = next.unwrap_or_else(|| {
            let kept = regime.fastest();
            regime.verdict = Some(Verdict {
                kept,
                got: regime.got(kept).unwrap_or_default(),
                speeds: regime.speeds(),
                wanted,
                until: windows + u64::from(settings.retry_windows),
                changes: self.changes,
            });
            regime.measured.clear();
            kept
        });
        self.acting
    }

    /// How a regime without measurements begins. Returns the setting that gained most in other regimes, if it gained
    /// in several and lost in none; else neither. Also returns the settings that are not tried: those that gained in
    /// none of several.
    fn record(&self) -> (Arm, Vec<Arm>) {
        let mut known: Vec<(Arm, Vec<f64>)> = Vec::new();
        for (arm, speed) in self.regimes.iter().flat_map(Regime::known_speeds) {
            match known.iter_mut().find(|(other, _)| *other == arm) {
                Some((_, speeds)) => speeds.push(speed),
                None => known.push((arm, vec![speed])),
            }
        }
        known.retain(|(arm, speeds)| *arm != Arm::NEITHER && speeds.len() >= MIN_REGIMES);
        let gains = |speeds: &[f64]| {
            let gains = speeds.iter().filter(|speed| **speed > 1.0 + MIN_GAIN);
            gains.count()
        };
        let is_likely = |speeds: &[f64]| {
            let never_loses = speeds.iter().all(|speed| *speed > 1.0 - MIN_GAIN);
            gains(speeds) >= MIN_REGIMES && never_loses
        };
        let mean = |speeds: &[f64]| {
            let sum: f64 = speeds.iter().map(|speed| speed.ln()).sum();
            sum / speeds.len() as f64
        };
        let able = known.iter().filter(|(_, speeds)| is_likely(speeds));
        let best = able.max_by(|one, other| mean(&one.1).total_cmp(&mean(&other.1)));
        let hopeless = known.iter().filter(|(_, speeds)| gains(speeds) == 0);
        (
            best.map_or(Arm::NEITHER, |(arm, _)| *arm),
            hopeless.map(|(arm, _)| *arm).collect(),
        )
    }

    /// Stops trying for now. Returns the setting in force then.
    pub(super) fn pause(&mut self) -> Arm {
        (self.trying, self.acting) = (false, self.settled);
        self.acting
    }

    /// Whether settings are being tried, so that nothing else should change.
    pub(super) fn is_trying(&self) -> bool {
        self.trying
    }
}
