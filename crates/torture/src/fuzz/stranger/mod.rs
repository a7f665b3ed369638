//! Another user of the machine does whatever he may: pools that name root's as their own, names in /dev/shm where
//! sessions are, mounts that name anything. Then root's commands run. They may refuse, in a line; nothing of root's
//! is changed, and nobody waits or dies.
//!
//! This needs root, to be two users. Every worker has mounts and a stranger of its own, so that others who test on
//! the machine at the same time are not in the way.

mod acts;
mod commands;
mod scene;
mod user;

use super::dice::{Dice, mix_all};
use super::target::{Case, Subject, Told, one_line};
use acts::Acts;
use commands::Commands;
use egeria_fs::{AttachMode, AttachOptions, Volume, check_volume};
use scene::Scene;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names the `egeria` program in the environment.
pub(super) const PROGRAM: &str = "EGERIA_FUZZ_PROGRAM";

/// The `egeria` program: as the environment says, or beside this one.
pub(super) fn egeria_program() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAM).map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("egeria"));
    named.or_else(beside).filter(|path| path.is_file())
}

/// Commands that run in a case.
const MOST_COMMANDS: u64 = 2;

/// Who has what attached while root's commands run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attached {
    Nobody,
    /// Root has his volume.
    Root,
    /// The stranger has a volume of his own, and scribbles over its session.
    Stranger,
}

/// Two users, and what they have.
pub(super) struct Strangers {
    scene: Scene,
    commands: Commands,
}

/// Why this cannot be tried here; nothing when it can.
pub(super) fn missing() -> Option<&'static str> {
    // SAFETY: a plain getter that cannot fail.
    match unsafe { libc::geteuid() } {
        0 => None,
        _ => Some("it needs root, to be two users"),
    }
}

impl Strangers {
    pub(super) fn new() -> Result<Strangers, String> {
        if let Some(why) = missing() {
            return Err(why.to_owned());
        }
        user::have_mounts_of_ones_own()?;
        Ok(Strangers {
            scene: Scene::new()?,
            commands: Commands::find()?,
        })
    }
}

impl Subject for Strangers {
    fn samples(&self) -> usize {
        3
    }

    fn attempt(&mut self, case: &Case, told: &mut Told) -> Result<(), String> {
        let attached = match case.sample % 3 {
            0 => Attached::Nobody,
            1 => Attached::Root,
            _ => Attached::Stranger,
        };
        told.line(|| format!("attached: {attached:?}"));
        let mut dice = Dice::new(mix_all(&[case.how]));
        let volume = match attached {
            Attached::Root => Some(attach(&self.scene.own[0], AttachMode::CreateOrJoin)?),
            _ => None,
        };
        let before = self.scene.snapshot()?;
        let mut acts = Acts::begin(&self.scene)?;
        for step in &case.steps {
            acts.act(&mut Dice::new(*step), told)?;
        }
        if attached == Attached::Stranger {
            acts.attach_and_scribble(&mut dice, told)?;
        }
        let done = self.meet(&acts, attached, &mut dice, told);
        // What the stranger holds goes first.
        drop(acts);
        let unchanged = self.scene.compare(&before);
        drop(volume);
        self.scene.clean_up();
        done.and(unchanged)
    }
}

impl Strangers {
    /// What root does with what he finds.
    fn meet(
        &self,
        acts: &Acts<'_>,
        attached: Attached,
        dice: &mut Dice,
        told: &mut Told,
    ) -> Result<(), String> {
        for path in acts.paths() {
            self.refuse(path, told)?;
        }
        for path in acts.given() {
            self.use_given(path, told)?;
        }
        for _ in 0..1 + dice.below(MOST_COMMANDS) {
            self.commands.run(&self.scene, acts, attached, dice, told)?;
        }
        Ok(())
    }

    /// A pool that root took over may be a volume, but not root's.
    fn use_given(&self, path: &Path, told: &mut Told) -> Result<(), String> {
        let options = AttachOptions::default();
        match Volume::attach(path, AttachMode::CreateOrJoin, &options) {
            Ok(volume) if *volume.uuid().as_bytes() == self.scene.root_volume => {
                Err("a pool of another user's led to root's volume".to_owned())
            }
            Ok(_) => {
                told.happened("attached what was taken over");
                Ok(())
            }
            Err(error) => {
                told.happened(&format!("taken over: {error}"));
                one_line(&error.to_string())
            }
        }
    }

    /// Root's own process believes nothing that is not his.
    fn refuse(&self, path: &Path, told: &mut Told) -> Result<(), String> {
        if self.scene.leads_home(path) {
            return Ok(());
        }
        for mode in [
            AttachMode::Join,
            AttachMode::CreateOrJoin,
            AttachMode::ReadOnly,
        ] {
            match Volume::attach(path, mode, &AttachOptions::default()) {
                Ok(_) => return Err(format!("root attached what is another user's: {mode:?}")),
                Err(error) => {
                    told.happened(&format!("attach: {error}"));
                    one_line(&error.to_string())?;
                }
            }
        }
        match check_volume(path, true, &mut |_, _| {}) {
            Ok(_) => Err("root checked what is another user's".to_owned()),
            Err(error) => {
                told.happened(&format!("check: {error}"));
                one_line(&error.to_string())
            }
        }
    }
}

fn attach(pool: &Path, mode: AttachMode) -> Result<Arc<Volume>, String> {
    let attached = Volume::attach(pool, mode, &AttachOptions::default());
    attached.map_err(|error| format!("root cannot attach his own volume: {error}"))
}
