//! Tells when the process that serves a mount was killed: its volume lives on, but the directory answers nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use egeria_facts::printable_path;
use egeria_mount::Mounted;

/// Windows between two looks: a look asks each mount, from a process of its own.
const WINDOWS: u32 = 8;

/// The mounts of this user that a steward looks at.
pub(crate) struct MountWatch {
    /// The pools of the volumes that are looked after; `None`: every volume's.
    pools: Option<Vec<PathBuf>>,
    /// Windows since the last look.
    windows: u32,
    /// On a thread of its own, because a mount may take a second to answer.
    asking: Option<JoinHandle<BTreeSet<PathBuf>>>,
    /// Mounts that were said to be dead.
    said: BTreeSet<PathBuf>,
}

impl MountWatch {
    pub(crate) fn of(pools: Option<Vec<PathBuf>>) -> MountWatch {
        MountWatch {
            pools,
            windows: 0,
            asking: None,
            said: BTreeSet::new(),
        }
    }

    /// A window has passed. Logs a line for each mount whose process was killed since the last look.
    pub(crate) fn pass(&mut self) {
        if let Some(asking) = self.asking.take_if(|asking| asking.is_finished()) {
            let news = self.news(asking.join().unwrap_or_default());
            news.iter().for_each(|line| tracing::warn!("{line}"));
        }
        if self.pools.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        self.windows += 1;
        if self.windows >= WINDOWS && self.asking.is_none() {
            self.windows = 0;
            let pools = self.pools.clone();
            let thread = std::thread::Builder::new().name("egeria-mounts".to_owned());
            self.asking = thread.spawn(move || dead_mounts(pools.as_deref())).ok();
        }
    }

    /// The lines for what is dead now and was not before.
    fn news(&mut self, dead: BTreeSet<PathBuf>) -> Vec<String> {
        let lines = dead.difference(&self.said).map(|directory| {
            let shown = shown(directory);
            format!(
                "the process that served {shown} was killed: nothing on it can be reached; `egeria umount {shown}`, then mount the volume again: no acknowledged operation is lost"
            )
        });
        let lines = lines.collect();
        self.said = dead;
        lines
    }
}

/// The mounts of this user, of these pools, whose process is gone.
fn dead_mounts(pools: Option<&[PathBuf]>) -> BTreeSet<PathBuf> {
    let own = egeria_files::user();
    let is_meant = |mount: &Mounted| {
        mount.user == Some(own) && pools.is_none_or(|pools| pools.contains(&mount.source))
    };
    let mounts = egeria_mount::mounts().unwrap_or_default();
    let directories = mounts.into_iter().filter(is_meant);
    let directories = directories.map(|mount| mount.directory);
    directories
        .filter(|directory| egeria_mount::is_dead(directory))
        .collect()
}

fn shown(directory: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    printable_path(directory.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_mount_is_news_once() {
        let mut watch = MountWatch::of(None);
        let dead = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        let lines = watch.news(dead(&["/mnt"]));
        assert!(lines[0].contains("`egeria umount /mnt`"), "{lines:?}");
        assert_eq!(watch.news(dead(&["/mnt"])).len(), 0);
        assert_eq!(watch.news(dead(&["/mnt", "/srv"])).len(), 1);
        assert_eq!(watch.news(dead(&[])).len(), 0);
        assert_eq!(watch.news(dead(&["/mnt"])).len(), 1, "it died again");
    }
}
