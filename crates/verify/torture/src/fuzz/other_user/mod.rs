//! Another user of the machine does whatever he may: pools that name root's as their own, names in /dev/shm where
//! sessions are, mounts that name anything. Then root's commands run. They may refuse, in a line; nothing of root's
//! is changed, and nobody waits or dies.
//!
//! This needs root, to be two users. Every worker has mounts and another user of its own, so that others who test on
//! the machine at the same time are not in the way.

mod actions;
mod commands;
mod fixture;
mod user;

use super::subject::{Case, Observations, Subject, one_line};
use actions::Actions;
use commands::{Attached, Commands};
pub(super) use commands::{PROGRAM, egeria_program};
use egeria_engine::{AttachMode, AttachOptions, Volume, check_volume};
use egeria_stats::rng::{Rng, mix_all};
use fixture::Fixture;
use std::path::Path;
use std::sync::Arc;

/// Commands that run in a case.
const MAX_COMMANDS: u64 = 2;

/// Two users, and what they have.
pub(super) struct OtherUser {
    fixture: Fixture,
    commands: Commands,
}

/// Why this cannot be tried here; nothing when it can.
pub(super) fn missing() -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    (!is_root).then_some("it needs root, to be two users")
}

impl OtherUser {
    pub(super) fn new() -> Result<OtherUser, String> {
        if let Some(why) = missing() {
            return Err(why.to_owned());
        }
        user::have_mounts_of_ones_own()?;
        egeria_engine::set_attach_patience(commands::ATTACH_PATIENCE);
        Ok(OtherUser {
            fixture: Fixture::new()?,
            commands: Commands::find()?,
        })
    }
}

impl Subject for OtherUser {
    fn samples(&self) -> usize {
        3
    }

    fn attempt(&mut self, case: &Case, observed: &mut Observations) -> Result<(), String> {
        let attached = match case.sample % 3 {
            0 => Attached::Nobody,
            1 => Attached::Root,
            _ => Attached::OtherUser,
        };
        observed.line(|| format!("attached: {attached:?}"));
        let mut rng = Rng::new(mix_all(&[case.use_seed]));
        let volume = match attached {
            Attached::Root => Some(attach(&self.fixture.own[0], AttachMode::CreateOrJoin)?),
            _ => None,
        };
        let before = self.fixture.snapshot()?;
        let mut actions = Actions::begin(&self.fixture)?;
        for step in &case.mutation_seeds {
            actions.act(&mut Rng::new(*step), observed)?;
        }
        if attached == Attached::OtherUser {
            actions.attach_and_mutate(&mut rng, observed)?;
        }
        let done = self.meet(&actions, attached, &mut rng, observed);
        // What the other user holds goes first.
        drop(actions);
        let unchanged = self.fixture.compare(&before);
        drop(volume);
        self.fixture.clean_up();
        done.and(unchanged)
    }
}

impl OtherUser {
    /// What root does with what he finds.
    fn meet(
        &self,
        actions: &Actions<'_>,
        attached: Attached,
        rng: &mut Rng,
        observed: &mut Observations,
    ) -> Result<(), String> {
        for path in actions.paths() {
            self.refuse(path, observed)?;
        }
        for path in actions.given() {
            self.use_given(path, observed)?;
        }
        for _ in 0..1 + rng.below(MAX_COMMANDS) {
            self.commands
                .run(&self.fixture, actions, attached, rng, observed)?;
        }
        Ok(())
    }

    /// A pool that root took over may be a volume, but not root's.
    fn use_given(&self, path: &Path, observed: &mut Observations) -> Result<(), String> {
        let options = AttachOptions::default();
        match Volume::attach(path, AttachMode::CreateOrJoin, &options) {
            Ok(volume) if *volume.uuid().as_bytes() == self.fixture.root_volume => {
                Err("a pool of another user's led to root's volume".to_owned())
            }
            Ok(_) => {
                observed.record("attached what was taken over");
                Ok(())
            }
            Err(error) => {
                observed.record(&format!("taken over: {error}"));
                one_line(&error.to_string())
            }
        }
    }

    /// Root's own process believes nothing that is not his.
    fn refuse(&self, path: &Path, observed: &mut Observations) -> Result<(), String> {
        if self.fixture.leads_home(path) {
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
                    observed.record(&format!("attach: {error}"));
                    one_line(&error.to_string())?;
                }
            }
        }
        match check_volume(path, true, &mut |_, _| {}) {
            Ok(_) => Err("root checked what is another user's".to_owned()),
            Err(error) => {
                observed.record(&format!("check: {error}"));
                one_line(&error.to_string())
            }
        }
    }
}

fn attach(pool: &Path, mode: AttachMode) -> Result<Arc<Volume>, String> {
    let attached = Volume::attach(pool, mode, &AttachOptions::default());
    attached.map_err(|error| format!("root cannot attach his own volume: {error}"))
}
