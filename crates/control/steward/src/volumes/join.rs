//! Joining the session of one volume.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use egeria_actuators::{Journal, JournalError};
use egeria_engine::{AttachMode, AttachOptions, Volume};
use egeria_machine::Machine;
use egeria_mount::Mounted;
use egeria_proc::file_systems::Device;
use uuid::Uuid;

use super::role::Role;
use crate::place;

/// A volume that was joined.
pub(super) struct Found {
    pub(super) volume: Arc<Volume>,
    /// Locked, for a steward that decides about the volume.
    pub(super) journal: Option<Journal>,
}

/// Why a mount is left out.
pub(super) enum LeftOut {
    /// Its volume was joined by another mount.
    Known,
    /// It is on an emulated machine.
    Emulated,
    /// Another steward works on it.
    Steward(u32),
    Failed(String),
}

impl LeftOut {
    /// The thread that joined it panicked.
    pub(super) fn died() -> LeftOut {
        LeftOut::Failed("joining it failed".to_owned())
    }

    /// One line, for the user; `None` where nothing is lost.
    pub(super) fn line(&self, directory: &str) -> Option<String> {
        Some(match self {
            LeftOut::Known => return None,
            LeftOut::Emulated => format!(
                "the volume on {directory} is left out: it is on an emulated machine; look after it with `egeria steward POOL`"
            ),
            LeftOut::Steward(process_id) => format!(
                "the volume on {directory} is left to its own steward (process {process_id}); when that stops, this one takes it"
            ),
            LeftOut::Failed(why) => format!("the volume on {directory} is left out: {why}"),
        })
    }
}

/// The mounts that this user serves, by device.
pub(super) fn of_own(mounts: Vec<Mounted>) -> Vec<(Device, Mounted)> {
    let own = egeria_files::user();
    let mut found: Vec<(Device, Mounted)> = Vec::new();
    for mount in mounts.into_iter().filter(|mount| mount.user == Some(own)) {
        let device = device_of(&mount.device);
        // Bind mounts have the device of the mount they show.
        let device = device.filter(|device| !found.iter().any(|(known, _)| known == device));
        found.extend(device.map(|device| (device, mount)));
    }
    found
}

/// Of `MAJOR:MINOR`.
fn device_of(text: &str) -> Option<Device> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A directory as it may be shown.
pub(super) fn shown(mount: &Mounted) -> String {
    use std::os::unix::ffi::OsStrExt;
    egeria_facts::printable_path(mount.directory.as_os_str().as_bytes())
}

/// Joins the session of a mount's volume, and locks its journal to decide about it.
pub(super) fn join(
    mount: &Mounted,
    machine: &Machine,
    role: &Role,
    known: Vec<Uuid>,
) -> Result<Found, LeftOut> {
    let failed = |error: &dyn std::fmt::Display| LeftOut::Failed(error.to_string());
    check_owner(&mount.source)?;
    let options = AttachOptions::default();
    let volume = Volume::attach(&mount.source, AttachMode::Join, &options);
    let volume = volume.map_err(|error| failed(&error))?;
    volume.works_on_behalf();
    if known.contains(&volume.uuid()) {
        return Err(LeftOut::Known);
    }
    if volume.emulation().is_configured() {
        return Err(LeftOut::Emulated);
    }
    check_nodes(&volume, machine)?;
    let Role::Decides { log, .. } = role else {
        let journal = None;
        return Ok(Found { volume, journal });
    };
    let directory = place::make_runtime_directory().map_err(|error| failed(&error))?;
    let journal = directory.join(place::journal_name(Some(volume.uuid())));
    match Journal::open(&journal, log) {
        Ok((journal, _)) => Ok(Found {
            volume,
            journal: Some(journal),
        }),
        Err(JournalError::Running { process_id, .. }) if process_id == std::process::id() => {
            Err(LeftOut::Known)
        }
        Err(JournalError::Running { process_id, .. }) => Err(LeftOut::Steward(process_id)),
        Err(error) => Err(failed(&error)),
    }
}

/// Root believes no other user's pools.
fn check_owner(pool: &Path) -> Result<(), LeftOut> {
    let owner = std::fs::metadata(pool).map(|metadata| metadata.uid());
    match owner {
        Ok(user) if egeria_files::user() == 0 && user != 0 => Err(LeftOut::Failed(format!(
            "its pool belongs to uid {user}; look after it as that user"
        ))),
        _ => Ok(()),
    }
}

/// Its pools must be on nodes of this machine.
fn check_nodes(volume: &Volume, machine: &Machine) -> Result<(), LeftOut> {
    let mut pools = 0..volume.pool_nodes().len();
    if pools.all(|pool| volume.node_position(pool) < machine.nodes.len()) {
        Ok(())
    } else {
        let why =
            "it was mounted with more nodes than this machine has; name its POOL and --machine";
        Err(LeftOut::Failed(why.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(device: &str, user: Option<u32>) -> Mounted {
        Mounted {
            number: 1,
            device: device.to_owned(),
            user,
            directory: "/mnt".into(),
            kind: "fuse.egeria".to_owned(),
            source: "/pool".into(),
        }
    }

    #[test]
    fn only_own_mounts_are_followed_each_device_once() {
        let own = Some(egeria_files::user());
        let mounts = vec![
            mount("0:41", own),
            mount("0:42", own.map(|user| user + 1)),
            mount("0:41", own),
            mount("nonsense", own),
            mount("0:43", None),
        ];
        let devices = of_own(mounts).into_iter().map(|(device, _)| device);
        assert_eq!(devices.collect::<Vec<_>>(), [(0, 41)]);
    }
}
