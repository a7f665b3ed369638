//! The explorer: record a few operations, stop the machine at every telling point, and look at what
//! recovery makes of it.
//!
//! Oracle (invariants 1 and 2): every operation that returned is there, the one under way wholly or not
//! at all, nothing else changed; check finds nothing; the volume can be written.
#![allow(dead_code)]

use super::image::*;
use super::oracle::{Snapshot, difference, snapshot};
use crate::common::*;
use egeria_fs::*;
use egeria_media::PoolIndex;
use egeria_media::recorder::{Choice, CrashImages, Recorder, Recording};
use std::path::PathBuf;
use std::sync::Arc;

/// An operation on the volume.
pub type Step<'a> = &'a dyn Fn(&Volume);

/// How much to look at.
#[derive(Clone, Copy)]
pub struct Explorer {
    pub pools: usize,
    pub pool_bytes: u64,
    /// Crash images per point.
    pub images: usize,
    pub seed: u64,
    /// Attach anew between preparing and recording, so that nothing is loaded.
    pub fresh: bool,
    /// Leave this flush, or this fence, out of what the media saw: the explorer must notice.
    pub without_flush: Option<u64>,
    /// See `without_flush`.
    pub without_fence: Option<u64>,
    /// How recovery attaches.
    pub options: fn() -> AttachOptions,
    /// Write to every recovered volume (a full one cannot be).
    pub probe: bool,
    /// Crash again in the middle of each recovery, this often.
    pub crashes_in_recovery: usize,
}

impl Explorer {
    pub fn new() -> Explorer {
        let images = std::env::var("EGERIA_TEST_IMAGES").ok();
        Explorer {
            pools: 1,
            pool_bytes: 8 << 20,
            images: images.and_then(|text| text.parse().ok()).unwrap_or(6),
            seed: 1,
            fresh: false,
            options: AttachOptions::default,
            probe: true,
            without_flush: None,
            without_fence: None,
            crashes_in_recovery: 0,
        }
    }

    pub fn pools(self, pools: usize) -> Explorer {
        Explorer { pools, ..self }
    }

    pub fn fresh(self) -> Explorer {
        Explorer {
            fresh: true,
            ..self
        }
    }

    pub fn images(self, images: usize) -> Explorer {
        Explorer { images, ..self }
    }

    /// Prepare a volume, record the steps, explore. Returns how many images were looked at.
    pub fn explore(&self, what: &str, prepare: Step<'_>, steps: &[Step<'_>]) -> usize {
        let recorded = self.record(prepare, steps);
        self.look(what, &recorded)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// What happened, and what there was to see after each step.
    pub fn record(&self, prepare: Step<'_>, steps: &[Step<'_>]) -> Recorded {
        let scratch = Scratch::new(self.pools, self.pool_bytes);
        let mut volume = scratch.attach();
        prepare(&volume);
        if self.fresh {
            drop(volume);
            volume = scratch.attach();
        }
        let recorder = Recorder::new();
        self.without_flush
            .into_iter()
            .for_each(|flush| recorder.drop_nth_flush(flush));
        self.without_fence
            .into_iter()
            .for_each(|fence| recorder.drop_nth_fence(fence));
        for (index, pool) in volume.pools().iter().enumerate() {
            recorder
                .attach(PoolIndex(index as u8), pool)
                .expect("record");
        }
        let mut states = vec![snapshot(&volume).expect("snapshot")];
        for (number, step) in steps.iter().enumerate() {
            step(&volume);
            recorder.mark(number as u64 + 1);
            states.push(snapshot(&volume).expect("snapshot"));
        }
        volume
            .pools()
            .iter()
            .for_each(|pool| Recorder::detach(pool));
        Recorded {
            recording: recorder.take(),
            states,
            seen: recorder.seen(),
            names: scratch.pools.clone(),
        }
    }

    /// Look at every image; how many, or what is wrong with the first bad one.
    pub fn look(&self, what: &str, recorded: &Recorded) -> Result<usize, String> {
        let mut images = CrashImages::new(recorded.recording.clone()).expect("images");
        let directory = tempfile::tempdir_in("/dev/shm").expect("scratch directory");
        let mut looked_at = 0;
        for point in recorded.recording.telling_points() {
            let returned = recorded.recording.marks_before(point).count();
            let until = (returned + 2).min(recorded.states.len());
            let state = images.state_at(point).expect("state");
            let nothing = state.image(&Choice(Vec::new())).expect("image");
            let base = PointBase::of(&nothing, recorded.names.len());
            for choice in state.choices(self.seed ^ point as u64, self.images) {
                let image = state.image(&choice).expect("image");
                let place = Place {
                    explorer: self,
                    what,
                    point,
                    choice: &choice,
                    legal: &recorded.states[returned..until],
                };
                let pools = base.write(&image, &state, &recorded.names, directory.path());
                if self.crashes_in_recovery > 0 {
                    looked_at += self.crash_in_recovery(&place, &pools)?;
                }
                let verified = place.verify(&pools);
                pools
                    .iter()
                    .for_each(|pool| std::fs::remove_file(pool).expect("remove"));
                verified?;
                looked_at += 1;
            }
        }
        Ok(looked_at)
    }

    /// Leave what recovery had done when it was cut off itself, and recover from that.
    ///
    /// Recovery stores the words that journals hold, in any order, then forgets the journals, then drops
    /// orphans one by one.
    fn crash_in_recovery(&self, place: &Place<'_>, pools: &[PathBuf]) -> Result<usize, String> {
        let before: Vec<Vec<u8>> = pools
            .iter()
            .map(|pool| std::fs::read(pool).expect("read"))
            .collect();
        let journal = journal_of(&before[0]);
        drop(place.attach(pools)?);
        let changed = changed_words(&before, pools);
        for round in 0..self.crashes_in_recovery {
            let mut cut_off = before.clone();
            match journal.is_empty() {
                true => changed
                    .iter()
                    .take(round)
                    .for_each(|word| word.apply(&mut cut_off)),
                false => apply_part(&journal, round, &mut cut_off),
            }
            for (pool, bytes) in pools.iter().zip(cut_off) {
                std::fs::write(pool, bytes).expect("write");
            }
            let what = format!("{}, crash {round} in recovery", place.what);
            Place {
                what: &what,
                ..*place
            }
            .verify(pools)?;
        }
        for (pool, before) in pools.iter().zip(before) {
            std::fs::write(pool, before).expect("write");
        }
        Ok(self.crashes_in_recovery)
    }
}

/// A recorded run.
pub struct Recorded {
    pub recording: Recording,
    /// What there was to see before the first step and after each.
    pub states: Vec<Snapshot>,
    /// Flushes and fences.
    pub seen: (u64, u64),
    names: Vec<PathBuf>,
}

/// Where in which scenario, and what may be found there.
#[derive(Clone, Copy)]
struct Place<'a> {
    explorer: &'a Explorer,
    what: &'a str,
    point: usize,
    choice: &'a Choice,
    legal: &'a [Snapshot],
}

impl Place<'_> {
    fn told(&self, why: impl std::fmt::Display) -> String {
        let Place {
            what,
            point,
            choice,
            ..
        } = self;
        format!("{what}: crash at point {point}, arrived {choice}: {why}")
    }

    fn attach(&self, pools: &[PathBuf]) -> Result<Arc<Volume>, String> {
        let options = (self.explorer.options)();
        let attached = Volume::attach(&pools[0], AttachMode::CreateOrJoin, &options);
        attached.map_err(|error| self.told(error))
    }

    fn verify(&self, pools: &[PathBuf]) -> Result<(), String> {
        let volume = self.attach(pools)?;
        let found = snapshot(&volume).map_err(|error| self.told(error))?;
        if !self.legal.contains(&found) {
            let legal = self.legal.iter();
            let differences: Vec<String> = legal.map(|legal| difference(&found, legal)).collect();
            let differences = differences.join("\n or\n");
            return Err(self.told(format!("neither before nor after:\n{differences}")));
        }
        if self.explorer.probe {
            self.probe(&volume)?;
        }
        drop(volume);
        let report =
            check_volume(&pools[0], false, &mut |_, _| {}).map_err(|error| self.told(error))?;
        match report.findings.is_empty() {
            true => Ok(()),
            false => Err(self.told(format!("{:#?}", report.findings))),
        }
    }

    /// The volume takes new files, and they do not hurt the old ones.
    fn probe(&self, volume: &Volume) -> Result<(), String> {
        let before = snapshot(volume).map_err(|error| self.told(error))?;
        write_and_remove(volume)
            .map_err(|errno| self.told(format!("cannot be written: {errno}")))?;
        let mut after = snapshot(volume).map_err(|error| self.told(error))?;
        // The probe's coming and going showed in the root's times only.
        if let Some(root) = after.get_mut("") {
            root.attributes = before[""].attributes;
        }
        match after == before {
            true => Ok(()),
            false => Err(self.told(format!("the probe hurt:\n{}", difference(&after, &before)))),
        }
    }
}

fn write_and_remove(volume: &Volume) -> Outcome<()> {
    let made = volume.create_open(InodeNumber::ROOT, b"probe", &FILE)?;
    let file = volume.open(made.ino, None)?;
    let bytes = [0xA5; 9000];
    volume.write(file, 100, &bytes)?;
    let mut read = [0; 9100];
    if volume.read(file, 0, &mut read)? != 9100 || read[..100] != [0; 100] || read[100..] != bytes {
        return Err(Errno(libc::EIO));
    }
    volume.unlink(InodeNumber::ROOT, b"probe")?;
    volume.close(made.ino);
    volume.close(made.ino);
    Ok(())
}
