//! Root's commands, on what the other user left and on root's own volume.

use super::super::subject::{Observations, one_line};
use super::actions::Actions;
use super::fixture::Fixture;
use egeria_harness::process::{self, Finished};
use egeria_stats::rng::Rng;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Names the `egeria` program in the environment.
pub(in crate::fuzz) const PROGRAM: &str = "EGERIA_FUZZ_PROGRAM";

/// The `egeria` program: as the environment says, or beside this one.
pub(in crate::fuzz) fn egeria_program() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAM).map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("egeria"));
    named.or_else(beside).filter(|path| path.is_file())
}

/// Who has what attached while root's commands run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attached {
    Nobody,
    /// Root has his volume.
    Root,
    /// The other user has a volume of his own, and overwrites parts of its session.
    OtherUser,
}

/// How long root waits for whoever seems to make a session: the other user never lets go.
pub(super) const ATTACH_PATIENCE: Duration = Duration::from_millis(50);

/// How long a command may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(25);

pub(super) struct Commands(PathBuf);

impl Commands {
    pub(super) fn find() -> Result<Commands, String> {
        let missing = || format!("no egeria beside this program; build it, or set {PROGRAM}");
        egeria_program().map(Commands).ok_or_else(missing)
    }

    pub(super) fn run(
        &self,
        fixture: &Fixture,
        actions: &Actions<'_>,
        attached: Attached,
        rng: &mut Rng,
        observed: &mut Observations,
    ) -> Result<(), String> {
        let all: Vec<&PathBuf> = actions.paths().iter().chain(actions.given()).collect();
        match rng.choose(&all).copied() {
            // Whoever becomes the other user and joins his session is the other user's to harm.
            Some(path) if attached != Attached::OtherUser && !rng.one_in(3) => {
                self.on_theirs(fixture, actions, path, rng, observed)
            }
            _ => self.on_own(fixture, attached, rng, observed),
        }
    }

    /// On what the other user left: anything but success with what is not root's, if in order.
    fn on_theirs(
        &self,
        fixture: &Fixture,
        actions: &Actions<'_>,
        path: &Path,
        rng: &mut Rng,
        observed: &mut Observations,
    ) -> Result<(), String> {
        let mount = fixture.mount_point.as_path();
        let words: &[&str] = match rng.below(8) {
            0 => &["df"],
            1 => &["check"],
            2 => &["check", "--repair"],
            3 => &["scrub"],
            4 => &["top", "--once"],
            5 => &["steward"],
            6 => &["explain", "--volume"],
            _ => &["mount"],
        };
        // These go on for as long as they find somebody to serve.
        let endless = words == ["steward"] && fixture.leads_home(path);
        if endless {
            return Ok(());
        }
        let directory = (words == ["mount"]).then_some(mount);
        let ended = self.ask(words, [Some(path), directory], observed)?;
        if directory.is_some() && ended.status.success() {
            if !fixture.leads_home(path) && !actions.given().iter().any(|given| given == path) {
                return Err("root mounted what is another user's".to_owned());
            }
            self.well(&["umount"], [Some(mount), None], observed)?;
        }
        Ok(())
    }

    /// On root's own volume, which works whatever the other user did.
    fn on_own(
        &self,
        fixture: &Fixture,
        attached: Attached,
        rng: &mut Rng,
        observed: &mut Observations,
    ) -> Result<(), String> {
        let (pool, mount) = (fixture.own[0].as_path(), fixture.mount_point.as_path());
        match rng.below(6) {
            0 => self.ask(&["df"], [None, None], observed).map(drop),
            1 => self
                .ask(&["df", "--json"], [None, None], observed)
                .map(drop),
            2 => self.well(&["df"], [Some(pool), None], observed),
            3 => self.well(&["scrub"], [Some(pool), None], observed),
            // It wants to be alone.
            4 if attached == Attached::Root => Ok(()),
            4 => self.well(&["check"], [Some(pool), None], observed),
            _ => {
                self.well(&["mount"], [Some(pool), Some(mount)], observed)?;
                self.well(&["umount"], [Some(mount), None], observed)
            }
        }
    }

    fn ask(
        &self,
        words: &[&str],
        paths: [Option<&Path>; 2],
        observed: &mut Observations,
    ) -> Result<Finished, String> {
        let mut command = Command::new(&self.0);
        let patience_ms = ATTACH_PATIENCE.as_millis().to_string();
        command
            .args(words)
            .args(paths.into_iter().flatten())
            .env("EGERIA_PRELOAD_LIB", "")
            .env("EGERIA_ATTACH_PATIENCE_MS", &patience_ms)
            .env_remove("XDG_RUNTIME_DIR");
        let what = words.join(" ");
        let ended = process::run(&mut command, LIMIT, None);
        let ended = ended.map_err(|error| format!("egeria {what}: {error}"))?;
        let said = ended.stderr.lines().last().unwrap_or_default();
        observed.record(&format!("egeria {what}: {} {said}", ended.status));
        if let Some(signal) = ended.status.signal() {
            return Err(format!("egeria {what} died of signal {signal}"));
        }
        if ended.stderr.contains("panicked at") {
            return Err(format!("egeria {what}: {said}"));
        }
        if ended.status.success() {
            Ok(ended)
        } else {
            one_line(said).map(|()| ended)
        }
    }

    /// What root may do with his own must work.
    fn well(
        &self,
        words: &[&str],
        paths: [Option<&Path>; 2],
        observed: &mut Observations,
    ) -> Result<(), String> {
        let ended = self.ask(words, paths, observed)?;
        if ended.status.success() {
            Ok(())
        } else {
            Err(format!(
                "egeria {} on root's own volume: {}",
                words.join(" "),
                ended.stderr.trim()
            ))
        }
    }
}
