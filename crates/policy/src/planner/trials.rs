//! Stage 10, for what can be switched: limits and delegation are tried, measured, and kept only where they pay (ours).
//!
//! ```text
//!   what they could be set to      no limits, those wanted, those of Eq. 1; each with and without delegation
//!   progress                       bytes/s of each thread that uses files; accesses/s of each process' memory
//!   speed of a setting             progress beside that without both, in a geometric mean over threads
//!   kept                           the fastest; neither, if that brings less than a hundredth
//! ```
//!
//! Threads and files stay where they are while settings are tried; where they move all the same, the setting is measured
//! again. What was found holds for one *regime*, the threads that are active and how much each of them writes, and for
//! so long as `retry_windows` says. Limits and delegation change how fast threads are, not what they are, so regimes can be
//! told apart under all settings.

use super::progress::{Progress, add, are_alike, speed};
use super::settings::Feedback;

/// What brings less is not worth it.
const MIN_GAIN: f64 = 0.01;
/// Regimes that are remembered.
const MAX_REGIMES: usize = 16;
/// Threads and files that go on moving are waited for so long, in windows.
const MAX_UNREST_WINDOWS: u32 = 8;
/// Which of the two stages act.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Arm {
    pub(super) limits: Level,
    pub(super) delegation: bool,
}

/// Which limits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Level {
    /// None.
    #[default]
    Off,
    /// As the stage wants them.
    Wanted,
    /// Those of Eq. 1 where the stage wants higher ones.
    Formula,
}

impl Arm {
    const ALL: [Arm; 6] = [
        Arm::of(Level::Off, false),
        Arm::of(Level::Wanted, false),
        Arm::of(Level::Formula, false),
        Arm::of(Level::Off, true),
        Arm::of(Level::Wanted, true),
        Arm::of(Level::Formula, true),
    ];

    const fn of(limits: Level, delegation: bool) -> Arm {
        Arm { limits, delegation }
    }

    /// Whether it does nothing that `wanted` does not.
    fn is_within(self, wanted: Arm) -> bool {
        self.limits <= wanted.limits && (wanted.delegation || !self.delegation)
    }

    fn both(self, other: Arm) -> Arm {
        let delegation = self.delegation || other.delegation;
        Arm::of(self.limits.max(other.limits), delegation)
    }
}

/// What is found out about limits and delegation.
#[derive(Clone, Debug, Default)]
pub(super) struct Trials {
    regimes: Vec<Regime>,
    /// What acts in the window whose facts come next.
    acting: Arm,
    /// What is being tried.
    trying: bool,
    /// Windows since something else than the two changed.
    quiet_windows: u32,
    unrest_windows: u32,
    windows: u64,
}

#[derive(Clone, Debug)]
struct Regime {
    deeds: Progress,
    seen: u64,
    /// Each setting measured, with how many windows of it and the sum of their rates.
    measured: Vec<(Arm, u32, Progress)>,
    verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug)]
struct Verdict {
    kept: Arm,
    /// What was tried.
    wanted: Arm,
    until: u64,
}

impl Trials {
    /// Takes what threads got in a window.
    pub(super) fn look(&mut self, progress: &Progress, settings: &Feedback) {
        self.windows += 1;
        let known = (self.regimes.iter()).position(|each| are_alike(&each.deeds, progress));
        let index = known.unwrap_or_else(|| self.add(progress.clone()));
        let (windows, acting) = (self.windows, self.acting);
        let is_measured = self.trying && self.quiet_windows > 0;
        let regime = &mut self.regimes[index];
        let is_same = known.is_some() && regime.seen + 1 >= windows;
        regime.seen = windows;
        if is_measured && is_same {
            regime.measure(acting, progress, settings.trial_windows);
        }
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
            measured: Vec::new(),
            verdict: None,
        });
        self.regimes.len() - 1
    }

    /// What may act from now on, given what the stages want and whether anything else changes now.
    pub(super) fn choose(&mut self, wanted: Arm, is_quiet: bool, settings: &Feedback) -> Arm {
        self.quiet_windows = if is_quiet { self.quiet_windows + 1 } else { 0 };
        let windows = self.windows;
        let last = self.acting;
        let Some(regime) = (self.regimes.iter_mut()).find(|regime| regime.seen == windows) else {
            return last;
        };
        let verdict = (regime.verdict)
            .filter(|verdict| windows < verdict.until && wanted.is_within(verdict.wanted));
        if let Some(verdict) = verdict {
            (self.trying, self.unrest_windows) = (false, 0);
            self.acting = verdict.kept;
            return self.acting;
        }
        if wanted == Arm::default() {
            // Under what acts now they may no longer be wanted, and be again without it.
            self.trying = false;
            return last;
        }
        self.unrest_windows += 1;
        if !self.trying && !is_quiet && self.unrest_windows < MAX_UNREST_WINDOWS {
            return last;
        }
        if !self.trying {
            regime.measured.clear();
        }
        self.trying = true;
        let wanted = regime.wanted(wanted);
        let next = regime.next_arm(wanted, settings.trial_windows);
        self.acting = next.unwrap_or_else(|| {
            let kept = regime.fastest();
            regime.verdict = Some(Verdict {
                kept,
                wanted,
                until: windows + u64::from(settings.retry_windows),
            });
            regime.measured.clear();
            kept
        });
        self.trying = next.is_some();
        self.acting
    }

    /// Whether settings are being tried, so that nothing else should change.
    pub(super) fn is_trying(&self) -> bool {
        self.trying
    }
}

impl Regime {
    fn measure(&mut self, arm: Arm, progress: &Progress, trial_windows: u32) {
        let known = self.measured.iter().position(|each| each.0 == arm);
        let index = known.unwrap_or_else(|| {
            self.measured.push((arm, 0, Progress::new()));
            self.measured.len() - 1
        });
        let (_, windows, sum) = &mut self.measured[index];
        if *windows >= trial_windows {
            return;
        }
        *windows += 1;
        add(sum, progress);
    }

    /// What is tried: what is wanted now, and what is tried already.
    fn wanted(&self, wanted: Arm) -> Arm {
        let tried = self.measured.iter().map(|each| each.0);
        tried.fold(wanted, Arm::both)
    }

    /// The next setting that was not measured for long enough.
    fn next_arm(&self, wanted: Arm, trial_windows: u32) -> Option<Arm> {
        let is_done = |arm: &Arm| {
            let mut measured = self.measured.iter();
            measured.any(|(other, windows, _)| other == arm && *windows >= trial_windows)
        };
        let mut arms = Arm::ALL.into_iter().filter(|arm| arm.is_within(wanted));
        arms.find(|arm| !is_done(arm))
    }

    fn fastest(&self) -> Arm {
        let neither = Arm::default();
        let Some((_, _, without)) = self.measured.iter().find(|each| each.0 == neither) else {
            return neither;
        };
        let mut best = (neither, 1.0 + MIN_GAIN);
        for (arm, _, progress) in &self.measured {
            let speed = speed(progress, without);
            if speed > best.1 {
                best = (*arm, speed);
            }
        }
        best.0
    }
}
