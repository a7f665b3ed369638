//! Making volumes and repairing them, cut off.

use super::judge::{CLOCK_NS, Kind, Legal};
use super::operation::{Actor, ino};
use super::scene::{record_at, root};
use super::stage::{Recorded, Stage};
use egeria_fs::format::*;
use egeria_fs::*;
use egeria_media::{BlockNumber, PoolOffset};
use serde::{Deserialize, Serialize};

/// What is damaged before a repair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// The first copy of each superblock.
    FirstSuperblocks,
    /// The second copy of each superblock.
    SecondSuperblocks,
    /// A name whose inode is gone.
    NameOfNothing,
    /// A file that counts more names than it has.
    TooManyLinks,
    /// A file without a name.
    NoName,
    /// All of these that go together.
    Several,
}

/// All kinds of damage.
pub(crate) const DAMAGES: [Damage; 6] = [
    Damage::FirstSuperblocks,
    Damage::SecondSuperblocks,
    Damage::NameOfNothing,
    Damage::TooManyLinks,
    Damage::NoName,
    Damage::Several,
];

/// Tells the volume that is made from the scene's.
const SEED_OF_NEW: u64 = 2;

impl Stage {
    /// Make a volume over what the scene left.
    pub(super) fn record_making(&mut self) -> Result<Recorded, String> {
        self.reset();
        let pools = self.pools();
        create_private(&pools, SEED_OF_NEW, &root()).map_err(|error| error.to_string())?;
        self.recorder.mark(1);
        let events = self.recorder.drain();
        let volume = Volume::attach_private(&pools, &mut self.memory, &AttachOptions::default());
        let made = Legal::of(&*volume.map_err(|error| error.to_string())?, Kind::Making)?;
        let before = vec![self.before.clone(), Legal::refused(), made.clone()];
        Ok(Recorded {
            kind: Kind::Making,
            recording: events.into(),
            from: 0,
            legal: vec![before, vec![made]],
        })
    }

    /// Repair the scene.
    pub(super) fn record_repair(&mut self) -> Result<Recorded, String> {
        self.reset();
        let pools = self.pools();
        let report = check_private(&pools, &mut self.memory, CLOCK_NS, true);
        let report = report.map_err(|error| error.to_string())?;
        if report.repaired == 0 {
            return Err("the repair found nothing to do".into());
        }
        self.recorder.mark(1);
        let events = self.recorder.drain();
        let volume = Volume::attach_private(&pools, &mut self.memory, &AttachOptions::default());
        let whole = Legal::of(&*volume.map_err(|error| error.to_string())?, Kind::Repair)?;
        Ok(Recorded {
            kind: Kind::Repair,
            recording: events.into(),
            from: 0,
            legal: vec![vec![whole.clone()], vec![whole]],
        })
    }
}

/// Damage an attached volume; it must not be used any more.
pub(super) fn do_damage(volume: &Volume, damage: Damage) -> Outcome<()> {
    match damage {
        Damage::FirstSuperblocks => scribble(volume, 0),
        Damage::SecondSuperblocks => scribble(volume, 1),
        Damage::NameOfNothing => store_commit(volume, "d/x", 0),
        Damage::TooManyLinks => unseen(volume, "", "link big second"),
        Damage::NoName => unseen(volume, "e", "create e/lost"),
        Damage::Several => {
            unseen(volume, "", "link big second")?;
            store_commit(volume, "d/x", 0)?;
            unseen(volume, "e", "create e/lost")?;
            scribble(volume, 1)
        }
    }
}

fn scribble(volume: &Volume, copy: usize) -> Outcome<()> {
    for pool in volume.pools() {
        let at = BlockNumber(SUPERBLOCK_COPIES[copy]).offset() + 40;
        pool.write_bytes(at, &[0x5A; 300])
            .map_err(|_| Errno(libc::EIO))?;
    }
    Ok(())
}

fn commit_place(volume: &Volume, path: &str) -> Outcome<(usize, PoolOffset)> {
    let (pool, at) = record_at(volume, ino(volume, path)?)?;
    Ok((pool, at + COMMIT_WORD_AT))
}

fn store_commit(volume: &Volume, path: &str, word: u64) -> Outcome<()> {
    let (pool, at) = commit_place(volume, path)?;
    volume.pools()[pool]
        .store_u64(at, word)
        .map_err(|_| Errno(libc::EIO))
}

/// Run an operation, and have its directory know nothing of it.
fn unseen(volume: &Volume, directory: &str, text: &str) -> Outcome<()> {
    let (pool, at) = commit_place(volume, directory)?;
    let word = volume.pools()[pool]
        .load_u64(at)
        .map_err(|_| Errno(libc::EIO))?;
    let operation = text.parse().map_err(|_| Errno(libc::EINVAL))?;
    Actor::new(volume).run(&operation, 0)?;
    store_commit(volume, directory, word)
}
