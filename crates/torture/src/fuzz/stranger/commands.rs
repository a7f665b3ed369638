//! Root's commands, on what the stranger left and on root's own volume.

use super::super::dice::Dice;
use super::super::target::{Told, one_line};
use super::acts::Acts;
use super::scene::Scene;
use super::{Attached, PROGRAM, egeria_program};
use egeria_harness::process::{self, Finished};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a command may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(25);

/// The program.
pub(super) struct Commands(PathBuf);

impl Commands {
    pub(super) fn find() -> Result<Commands, String> {
        let missing = || format!("no egeria beside this program; build it, or set {PROGRAM}");
        egeria_program().map(Commands).ok_or_else(missing)
    }

    /// One command.
    pub(super) fn run(
        &self,
        scene: &Scene,
        acts: &Acts<'_>,
        attached: Attached,
        dice: &mut Dice,
        told: &mut Told,
    ) -> Result<(), String> {
        let all: Vec<&PathBuf> = acts.paths().iter().chain(acts.given()).collect();
        match dice.one_of(&all).copied() {
            // Whoever becomes the stranger and joins his session is the stranger's to harm.
            Some(path) if attached != Attached::Stranger && !dice.one_in(3) => {
                self.on_theirs(scene, acts, path, dice, told)
            }
            _ => self.on_own(scene, attached, dice, told),
        }
    }

    /// On what the stranger left: anything but success with what is not root's, if in order.
    fn on_theirs(
        &self,
        scene: &Scene,
        acts: &Acts<'_>,
        path: &Path,
        dice: &mut Dice,
        told: &mut Told,
    ) -> Result<(), String> {
        let mount = scene.mount_point.as_path();
        let words: &[&str] = match dice.below(8) {
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
        let endless = words == ["steward"] && scene.leads_home(path);
        if endless {
            return Ok(());
        }
        let directory = (words == ["mount"]).then_some(mount);
        let ended = self.ask(words, [Some(path), directory], told)?;
        if directory.is_some() && ended.status.success() {
            if !scene.leads_home(path) && !acts.given().iter().any(|given| given == path) {
                return Err("root mounted what is another user's".to_owned());
            }
            self.well(&["umount"], [Some(mount), None], told)?;
        }
        Ok(())
    }

    /// On root's own volume, which works whatever the stranger did.
    fn on_own(
        &self,
        scene: &Scene,
        attached: Attached,
        dice: &mut Dice,
        told: &mut Told,
    ) -> Result<(), String> {
        let (pool, mount) = (scene.own[0].as_path(), scene.mount_point.as_path());
        match dice.below(6) {
            0 => self.ask(&["df"], [None, None], told).map(drop),
            1 => self.ask(&["df", "--json"], [None, None], told).map(drop),
            2 => self.well(&["df"], [Some(pool), None], told),
            3 => self.well(&["scrub"], [Some(pool), None], told),
            // It wants to be alone.
            4 if attached == Attached::Root => Ok(()),
            4 => self.well(&["check"], [Some(pool), None], told),
            _ => {
                self.well(&["mount"], [Some(pool), Some(mount)], told)?;
                self.well(&["umount"], [Some(mount), None], told)
            }
        }
    }

    fn ask(
        &self,
        words: &[&str],
        paths: [Option<&Path>; 2],
        told: &mut Told,
    ) -> Result<Finished, String> {
        let mut command = Command::new(&self.0);
        command
            .args(words)
            .args(paths.into_iter().flatten())
            .env("EGERIA_PRELOAD_LIB", "")
            .env_remove("XDG_RUNTIME_DIR");
        let what = words.join(" ");
        let ended = process::run(&mut command, LIMIT, None);
        let ended = ended.map_err(|error| format!("egeria {what}: {error}"))?;
        let said = ended.stderr.lines().last().unwrap_or_default();
        told.happened(&format!("egeria {what}: {} {said}", ended.status));
        if let Some(signal) = ended.status.signal() {
            return Err(format!("egeria {what} died of signal {signal}"));
        }
        if ended.stderr.contains("panicked at") {
            return Err(format!("egeria {what}: {said}"));
        }
        match ended.status.success() {
            true => Ok(ended),
            false => one_line(said).map(|()| ended),
        }
    }

    /// What root may do with his own must work.
    fn well(
        &self,
        words: &[&str],
        paths: [Option<&Path>; 2],
        told: &mut Told,
    ) -> Result<(), String> {
        let ended = self.ask(words, paths, told)?;
        match ended.status.success() {
            true => Ok(()),
            false => Err(format!(
                "egeria {} on root's own volume: {}",
                words.join(" "),
                ended.stderr.trim()
            )),
        }
    }
}
