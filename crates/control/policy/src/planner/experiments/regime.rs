//! One kind of work, and what is known of each setting under it.

use std::collections::BTreeMap;

use super::arm::Arm;
use super::progress::{Mean, Progress, are_alike, are_as_fast, are_as_long, speed};

/// A smaller gain than this is not worth it.
pub(super) const MIN_GAIN: f64 = 0.01;
/// A setting that gets less than this part of the fastest in one window is not measured in another.
const MUCH_SLOWER: f64 = 0.9;
/// If a kept setting gets less than this part of what it got before, it is no longer known to be the fastest.
const HOLDS: f64 = 0.97;

/// A kind of work: which threads are active, and how much each of them writes.
#[derive(Clone, Debug)]
pub(super) struct Regime {
    pub(super) deeds: Progress,
    pub(super) seen: u64,
    /// The last window under each setting, and the number of changes then.
    pub(super) last: BTreeMap<Arm, (u64, Progress)>,
    /// Each measured setting.
    pub(super) measured: BTreeMap<Arm, Mean>,
    /// The number of changes then. Measurements from before later changes are not compared with new ones.
    pub(super) changes: u64,
    pub(super) verdict: Option<Verdict>,
}

/// The setting that was found fastest.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) kept: Arm,
    /// The progress under it.
    pub(super) got: Progress,
    /// How fast each setting was, compared with neither.
    pub(super) speeds: BTreeMap<Arm, f64>,
    /// What was tried.
    pub(super) wanted: Arm,
    pub(super) until: u64,
    /// The number of changes then.
    pub(super) changes: u64,
}

impl Regime {
    /// A kind of work that begins with this window.
    pub(super) fn new(deeds: Progress, changes: u64) -> Regime {
        Regime {
            deeds,
            seen: 0,
            last: BTreeMap::new(),
            measured: BTreeMap::new(),
            changes,
            verdict: None,
        }
    }

    /// Whether threads do the same. Requests must also be as long as before under the same setting, and processes as
    /// fast if nothing else has changed since.
    pub(super) fn is_like(&self, progress: &Progress, acting: Arm, changes: u64) -> bool {
        let is_as_before = |(then, last): &(u64, Progress)| {
            are_as_long(last, progress) && (*then != changes || are_as_fast(last, progress))
        };
        are_alike(&self.deeds, progress) && self.last.get(&acting).is_none_or(is_as_before)
    }

    /// Takes a window under a setting. Returns whether one was seen since threads or data moved.
    pub(super) fn see(&mut self, acting: Arm, progress: &Progress, changes: u64) -> bool {
        let last = self.last.insert(acting, (changes, progress.clone()));
        last.is_some_and(|(then, _)| then == changes)
    }

    /// Measures a setting.
    pub(super) fn measure(&mut self, arm: Arm, progress: &Progress, trial_windows: u32) {
        let mean = self.measured.entry(arm).or_default();
        if mean.windows() < trial_windows {
            mean.add(progress);
        }
    }

    /// Forgets results if threads or data have moved since, and the kept setting gets less now.
    pub(super) fn doubt(&mut self, acting: Arm, progress: &Progress, changes: u64) {
        let is_doubtful = self.verdict.as_ref().is_some_and(|verdict| {
            let moved = verdict.changes != changes && verdict.kept == acting;
            moved && speed(progress, &verdict.got) < HOLDS
        });
        if is_doubtful {
            self.verdict = None;
        }
    }

    /// The part of a window that is lost, compared with the fastest setting.
    pub(super) fn lost(&self, progress: &Progress) -> f64 {
        let measured = self.measured.values();
        let lost = measured.map(|mean| 1.0 - speed(progress, &mean.progress()));
        lost.fold(0.0, f64::max)
    }

    /// What threads get under a setting, in the mean of its windows.
    pub(super) fn got(&self, arm: Arm) -> Option<Progress> {
        self.measured.get(&arm).map(Mean::progress)
    }

    /// How fast threads are under a setting, compared with neither.
    pub(super) fn speed(&self, arm: Arm) -> Option<f64> {
        Some(speed(&self.got(arm)?, &self.got(Arm::NEITHER)?))
    }

    /// How fast threads are under each setting that is measured now, compared with neither.
    pub(super) fn speeds(&self) -> BTreeMap<Arm, f64> {
        let arms = self.measured.keys();
        arms.filter_map(|arm| Some((*arm, self.speed(*arm)?)))
            .collect()
    }

    /// The speeds of all settings now, or as they were when one was kept.
    pub(super) fn known_speeds(&self) -> BTreeMap<Arm, f64> {
        match &self.verdict {
            Some(verdict) => verdict.speeds.clone(),
            None => self.speeds(),
        }
    }

    /// The settings to try: what is wanted now, and what is tried already.
    pub(super) fn wanted(&self, wanted: Arm) -> Arm {
        self.measured.keys().copied().fold(wanted, Arm::both)
    }

    /// The settings that were not measured for long enough. The current one comes first, then all in turns, so that
    /// changes during the measurement are noticed.
    pub(super) fn next_arms(&self, so_far: Arm, wanted: Arm, trial_windows: u32) -> Vec<Arm> {
        let best = self.speed(self.fastest()).unwrap_or(1.0);
        let is_slow = |arm: Arm| {
            self.speed(arm)
                .is_some_and(|speed| speed < MUCH_SLOWER * best)
        };
        let windows = |arm: Arm| self.measured.get(&arm).map_or(0, Mean::windows);
        let is_done = |arm: Arm| {
            let is_enough = windows(arm) >= trial_windows;
            is_enough || (arm != Arm::NEITHER && windows(arm) > 0 && is_slow(arm))
        };
        // A setting that costs much alone is not tried together with others.
        let together = Arm::LIMITS
            .into_iter()
            .filter(|arm| !is_slow(*arm) && !is_slow(Arm::DELEGATION))
            .map(|arm| Arm::both(arm, Arm::DELEGATION));
        let alone = [
            Arm::NEITHER,
            Arm::LIMITS[0],
            Arm::LIMITS[1],
            Arm::DELEGATION,
        ];
        let arms = alone.into_iter().chain(together);
        let mut arms: Vec<Arm> = arms
            .filter(|arm| (arm.is_within(wanted) || *arm == so_far) && !is_done(*arm))
            .collect();
        arms.sort_by_key(|arm| (windows(*arm), *arm != so_far));
        arms
    }

    /// Keeps the fastest setting of those that were wanted.
    pub(super) fn decide(&mut self, wanted: Arm, until: u64, changes: u64) -> Arm {
        let kept = self.fastest();
        self.verdict = Some(Verdict {
            kept,
            got: self.got(kept).unwrap_or_default(),
            speeds: self.speeds(),
            wanted,
            until,
            changes,
        });
        self.measured.clear();
        kept
    }

    /// The fastest setting; neither, if that gains too little.
    pub(super) fn fastest(&self) -> Arm {
        let mut best = (Arm::NEITHER, 1.0 + MIN_GAIN);
        for (arm, speed) in self.speeds() {
            if speed > best.1 {
                best = (arm, speed);
            }
        }
        best.0
    }
}
