//! The judge: recover a crash image, compare it with what may be found, write to it, check it.

use super::snapshot::Snapshot;
use super::worker_status::WorkerStatus;
use egeria_engine::*;
use egeria_media::Pool;
use egeria_media::recorder::{CrashImage, Event, Recording};
use egeria_stats::text::message_of;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What may be found after a crash.
#[derive(Clone)]
pub(super) struct LegalState {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) digest: u64,
}

impl LegalState {
    /// What a volume holds, as this kind of run compares it.
    pub(super) fn of(volume: &Volume, kind: Kind) -> Result<LegalState, String> {
        Snapshot::of(volume).map(|snapshot| LegalState::from(kind.shown(snapshot)))
    }

    /// No volume at all: attaching is refused.
    pub(super) fn refused() -> LegalState {
        LegalState::from(Snapshot::empty())
    }

    fn is_refused(&self) -> bool {
        *self.snapshot == Snapshot::empty()
    }
}

impl From<Snapshot> for LegalState {
    fn from(snapshot: Snapshot) -> LegalState {
        let digest = snapshot.digest();
        let snapshot = Arc::new(snapshot);
        LegalState { snapshot, digest }
    }
}

/// What runs differ in for the judge.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Kind {
    /// Operations one after the other.
    Sequence,
    /// Operations of two attachments at once: which inode has which number is chance.
    Pair,
    /// A volume in the making: a damaged copy of a superblock may have to be repaired.
    Making,
    /// The same, made.
    Made,
    /// A repair: it is begun anew after the crash.
    Repair,
    /// The same, done.
    Repaired,
    /// A change of the pools: a damaged copy of a superblock may have to be repaired.
    Changing,
    /// The same, done.
    Changed,
}

impl Kind {
    /// A snapshot without what is chance in this kind of run.
    pub(super) fn shown(self, snapshot: Snapshot) -> Snapshot {
        match self {
            Kind::Sequence | Kind::Making | Kind::Made | Kind::Changing | Kind::Changed => snapshot,
            Kind::Pair => snapshot.without_numbers(),
            Kind::Repair | Kind::Repaired => snapshot.without_numbers().without_times(),
        }
    }

    /// The kind once it has returned.
    pub(super) fn returned(self) -> Kind {
        match self {
            Kind::Making => Kind::Made,
            Kind::Repair => Kind::Repaired,
            Kind::Changing => Kind::Changed,
            kind => kind,
        }
    }

    /// Whether superblocks may be in want of a repair.
    fn repairs(self) -> bool {
        matches!(self, Kind::Making | Kind::Repair | Kind::Changing)
    }
}

/// What recovery makes of an image.
pub(super) struct Recovered {
    /// What was found.
    pub(super) found: LegalState,
    /// What recovery stored.
    pub(super) stores: Recording,
}

/// What the clock shows after a crash.
pub(super) const CLOCK_NS: i64 = 1_000_000_000;

/// Recovers images, each once.
#[derive(Default)]
pub(super) struct Judge {
    /// Told of each look.
    pub(super) status: Arc<WorkerStatus>,
    memory: PrivateMemory,
    /// By an image's hash: what recovery found.
    known: HashMap<(Kind, u64), u64>,
    /// How recovery attaches.
    pub(super) options: AttachOptions,
    /// Do not write to recovered volumes: they are full.
    pub(super) no_probe: bool,
}

impl Judge {
    /// Whether an image was looked at before and holds what it may here.
    pub(super) fn is_known(&self, kind: Kind, hash: u64, legal: &[LegalState]) -> bool {
        let found = self.known.get(&(kind, hash));
        found.is_some_and(|found| legal.iter().any(|legal| legal.digest == *found))
    }

    /// The hashes of all images looked at.
    pub(super) fn images(&self) -> impl Iterator<Item = u64> + '_ {
        self.known.keys().map(|(_, hash)| *hash)
    }

    /// Recover the image and compare; what is wrong, in words. Nothing of it is left in the image.
    pub(super) fn look(
        &mut self,
        image: &CrashImage<'_>,
        kind: Kind,
        legal: &[LegalState],
    ) -> Result<Recovered, String> {
        let looked = catch_unwind(AssertUnwindSafe(|| self.recover(image, kind, legal)));
        image.take_back();
        let recovered = match looked {
            Ok(outcome) => outcome?,
            Err(panic) => return Err(format!("panicked: {}", message_of(&*panic))),
        };
        self.known
            .insert((kind, image.hash()), recovered.found.digest);
        Ok(recovered)
    }

    fn recover(
        &mut self,
        image: &CrashImage<'_>,
        kind: Kind,
        legal: &[LegalState],
    ) -> Result<Recovered, String> {
        let pools: Vec<Arc<Pool>> = image.pools().iter().cloned().collect();
        if kind == Kind::Repair {
            self.check(&pools, true)?;
        }
        let volume = match Volume::attach_private(&pools, &mut self.memory, &self.options) {
            Ok(volume) => volume,
            Err(error) => {
                let is_none = !is_volume_private(&pools);
                let refused = legal.iter().find(|legal| is_none && legal.is_refused());
                let legal = refused.ok_or_else(|| format!("cannot be attached: {error}"))?;
                let (found, stores) = (legal.clone(), Vec::new().into());
                return Ok(Recovered { found, stores });
            }
        };
        let stores = image.drain();
        volume.set_clock(CLOCK_NS);
        let found = self.compare(&volume, kind, legal)?;
        let report = volume.check_contents().map_err(|error| error.to_string())?;
        let used_blocks = clean(report)?;
        drop(volume);
        if kind.repairs() {
            self.check(&pools, true)?;
        }
        let again = clean(self.check(&pools, false)?)?;
        if again == used_blocks {
            Ok(Recovered { found, stores })
        } else {
            Err(format!(
                "{used_blocks} blocks are in use, but the next to attach counts {again}"
            ))
        }
    }

    fn check(&mut self, pools: &[Arc<Pool>], repair: bool) -> Result<CheckReport, String> {
        let checked = check_private(pools, &mut self.memory, CLOCK_NS, repair);
        checked.map_err(|error| format!("cannot be checked: {error}"))
    }

    fn compare(
        &self,
        volume: &Arc<Volume>,
        kind: Kind,
        legal: &[LegalState],
    ) -> Result<LegalState, String> {
        let found = Snapshot::of(volume)?;
        let shown = kind.shown(found.clone());
        let is_between = || {
            legal.iter().any(|one| {
                let mut others = legal.iter();
                others.any(|other| shown.is_between(&one.snapshot, &other.snapshot))
            })
        };
        let same = match legal.iter().find(|legal| *legal.snapshot == shown) {
            Some(same) => Some(same.clone()),
            None => is_between().then(|| LegalState::from(shown.clone())),
        };
        let Some(same) = same else {
            let differences = legal.iter().map(|legal| shown.difference(&legal.snapshot));
            let differences: Vec<String> = differences.collect();
            return Err(format!(
                "found what cannot be:\n{}",
                differences.join("\n or\n")
            ));
        };
        if !self.no_probe {
            probe(volume, &found)?;
        }
        Ok(same)
    }
}

/// Blocks in use of a volume with which nothing is wrong.
fn clean(report: CheckReport) -> Result<u64, String> {
    match report.findings.as_slice() {
        [] => Ok(report.used_blocks),
        [first, ..] => Err(format!("check finds: {}", first.what)),
    }
}

/// Whether recovery stored anything.
pub(super) fn has_stores(recording: &Recording) -> bool {
    let is_store = |event: &Event| matches!(event, Event::Store { .. });
    recording.events().iter().any(is_store)
}

/// The volume takes new files, and they do not hurt the old ones.
fn probe(volume: &Volume, before: &Snapshot) -> Result<(), String> {
    write_and_remove(volume).map_err(|errno| format!("cannot be written: {errno}"))?;
    let after = Snapshot::of(volume)?.with_root_of(before);
    if after == *before {
        Ok(())
    } else {
        Err(format!(
            "a new file hurt others:\n{}",
            after.difference(before)
        ))
    }
}

fn write_and_remove(volume: &Volume) -> Outcome<()> {
    const PROBE: NewInode = NewInode::of_root(libc::S_IFREG | 0o644);
    let made = volume.create_open(InodeNumber::ROOT, b"probe", &PROBE)?;
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
