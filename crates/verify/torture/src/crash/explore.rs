//! The explorer: stop the machine at every telling point of a run, form what the media may hold then, and
//! have the judge look at it.
//!
//! Telling points are those after each store and each mark: what can be found at a flush or a fence could
//! be found before it. Of a store to one line only images with a part of it are formed, for the others were
//! formed before it.

use super::judge::{Judge, Kind, LegalState, has_stores};
use super::violation::{BadState, Crash};
use super::workspace::{Recorded, Workspace};
use egeria_media::recorder::{CrashImages, Event, Recording};
use std::collections::HashSet;

/// How many images to look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    /// At each point: all there can be when they are no more, else a sample.
    pub(super) images: usize,
    /// At each point of a recovery.
    pub(super) images_in_recovery: usize,
    /// Decides the samples.
    pub(super) seed: u64,
}

/// What was looked at.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Tally {
    /// Crash states, no two of one run the same.
    pub(super) states: u64,
    /// Of these, after a second crash, in recovery.
    pub(super) in_recovery: u64,
    pub(super) workloads: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.states += other.states;
        self.in_recovery += other.in_recovery;
        self.workloads += other.workloads;
    }
}

/// Look at a run. The first wrong state ends it.
pub(super) fn explore(
    workspace: &mut Workspace,
    recorded: Recorded,
    limits: Limits,
    tally: &mut Tally,
) -> Result<(), Box<BadState>> {
    let Workspace {
        images,
        second,
        judge,
        ..
    } = workspace;
    let Recorded {
        kind,
        recording,
        from,
        legal,
    } = recorded;
    let points = telling_points(&recording, from);
    images.restart(recording);
    tally.workloads += 1;
    let mut seen = HashSet::new();
    for point in points {
        let marks: u64 = images.recording().marks_before(point).sum();
        let legal = &legal[marks as usize];
        let kind = if marks > 0 { kind.returned() } else { kind };
        let mut state = images.state_at(point);
        for choice in state.new_choices(limits.seed ^ point as u64, limits.images) {
            let hash = state.hash(&choice);
            if !seen.insert((hash, marks)) {
                continue;
            }
            tally.states += 1;
            if judge.is_known(kind, hash, legal) {
                continue;
            }
            let image = state.image(&choice);
            let crash = Crash { point, choice };
            judge.status.looks_at(&crash, hash);
            let recovered = match judge.look(&image, kind, legal) {
                Ok(recovered) => recovered,
                Err(why) => {
                    return Err(Box::new(BadState {
                        crash,
                        second: None,
                        hash,
                        why,
                    }));
                }
            };
            if limits.images_in_recovery > 0 && has_stores(&recovered.stores) {
                second.restart_from(&image, recovered.stores);
                let found = [recovered.found];
                let again = explore_recovery(second, judge, kind, &found, limits, tally);
                again.map_err(|wrong| {
                    Box::new(BadState {
                        second: Some(wrong.crash.clone()),
                        crash,
                        ..*wrong
                    })
                })?;
            }
        }
    }
    Ok(())
}

/// Crash again inside a recovery: what is found then must be what recovery alone made.
fn explore_recovery(
    images: &mut CrashImages,
    judge: &mut Judge,
    kind: Kind,
    legal: &[LegalState],
    limits: Limits,
    tally: &mut Tally,
) -> Result<(), Box<BadState>> {
    let mut seen = HashSet::new();
    for point in telling_points(images.recording(), 1) {
        let mut state = images.state_at(point);
        for choice in state.new_choices(limits.seed ^ point as u64, limits.images_in_recovery) {
            let hash = state.hash(&choice);
            if !seen.insert(hash) {
                continue;
            }
            tally.states += 1;
            tally.in_recovery += 1;
            if judge.is_known(kind, hash, legal) {
                continue;
            }
            let image = state.image(&choice);
            let crash = Crash { point, choice };
            judge.status.looks_again(&crash, hash);
            if let Err(why) = judge.look(&image, kind, legal) {
                return Err(Box::new(BadState {
                    crash,
                    second: None,
                    hash,
                    why,
                }));
            }
        }
    }
    Ok(())
}

/// The points after stores and marks, and `from` itself.
fn telling_points(recording: &Recording, from: usize) -> Vec<usize> {
    let events = recording.events();
    let tells = |point: &usize| {
        let last = point.checked_sub(1).map(|last| &events[last]);
        *point == from || matches!(last, Some(Event::Store { .. } | Event::Mark(_)))
    };
    (from..=events.len()).filter(tells).collect()
}
