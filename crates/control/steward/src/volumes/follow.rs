//! Follows the mounts of volumes that come and go.

use std::collections::HashMap;
use std::thread::JoinHandle;

use egeria_actuators::{JoinedVolumes, Journal};
use egeria_facts::{Facts, ThreadKey};
use egeria_machine::{Machine, NodeId};
use egeria_mount::Mounted;
use egeria_proc::file_systems::{Device, FileSystems};
use egeria_proc::{LiveSource, Scope};
use egeria_session::SessionSource;
use uuid::Uuid;

use super::join::{self, Found, LeftOut};
use super::role::Role;

/// Windows until a mount that was left out is tried again.
const TRY_AGAIN: u32 = 8;

/// What is followed, and what was joined.
pub(crate) struct Following {
    machine: Machine,
    role: Role,
    file_systems: FileSystems,
    joined: JoinedVolumes,
    /// By device.
    mounts: HashMap<Device, Followed>,
}

/// A mount.
struct Followed {
    state: State,
    /// Why it was left out, as it was said.
    said: Option<String>,
}

enum State {
    /// On a thread of its own, because a volume may not answer.
    Joining(JoinHandle<Result<Found, LeftOut>>),
    Joined(Box<Joined>),
    /// For this number of windows.
    LeftOut(u32),
}

/// A volume that was joined; dropped, it is released.
struct Joined {
    source: SessionSource,
    /// Keeps other stewards off the volume.
    journal: Option<Journal>,
    volume: Uuid,
    number: u32,
    directory: String,
    /// Where it is listed.
    list: JoinedVolumes,
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.list.remove(self.number);
        if let Some(journal) = self.journal.take() {
            journal.remove();
        }
        let (volume, directory) = (self.volume, &self.directory);
        tracing::info!("volume {volume} ({directory}) is released");
    }
}

impl Following {
    pub(crate) fn begin(machine: &Machine, role: Role, file_systems: FileSystems) -> Following {
        Following {
            machine: machine.clone(),
            role,
            file_systems,
            joined: JoinedVolumes::default(),
            mounts: HashMap::new(),
        }
    }

    /// The volumes joined, for what acts on them; `None` if nothing does.
    pub(crate) fn joined(&self) -> Option<JoinedVolumes> {
        matches!(self.role, Role::Decides { .. }).then(|| self.joined.clone())
    }

    /// Joins what was mounted, and releases what was unmounted.
    pub(super) fn follow(&mut self) {
        let Ok(mounts) = egeria_mount::mounts() else {
            return;
        };
        let mounts = join::of_own(mounts);
        let is_gone = |device: &Device| !mounts.iter().any(|(mounted, _)| mounted == device);
        let gone: Vec<Device> = self.mounts.keys().copied().filter(is_gone).collect();
        for device in gone {
            self.mounts.remove(&device);
            self.file_systems.set_of_session(device, false);
        }
        for (device, mount) in mounts {
            let followed = self.mounts.remove(&device);
            let followed = self.go_on(device, &mount, followed);
            self.mounts.insert(device, followed);
        }
    }

    fn go_on(&mut self, device: Device, mount: &Mounted, followed: Option<Followed>) -> Followed {
        let Some(Followed { state, said }) = followed else {
            return self.join(mount, None);
        };
        match state {
            State::Joining(thread) if thread.is_finished() => {
                let found = thread.join().unwrap_or_else(|_| Err(LeftOut::died()));
                match found {
                    Ok(found) => self.take(device, mount, found),
                    Err(why) => self.leave_out(device, mount, why, said),
                }
            }
            State::LeftOut(TRY_AGAIN..) => self.join(mount, said),
            State::LeftOut(windows) => Followed {
                state: State::LeftOut(windows + 1),
                said,
            },
            state => Followed { state, said },
        }
    }

    fn join(&self, mount: &Mounted, said: Option<String>) -> Followed {
        let (mount, machine, role) = (mount.clone(), self.machine.clone(), self.role.clone());
        let known = self.joined_volumes().map(|joined| joined.volume).collect();
        let thread = std::thread::Builder::new().name("egeria-join".to_owned());
        let thread = thread.spawn(move || join::join(&mount, &machine, &role, known));
        Followed {
            state: thread.map_or(State::LeftOut(0), State::Joining),
            said,
        }
    }

    fn take(&mut self, device: Device, mount: &Mounted, found: Found) -> Followed {
        let Found { volume, journal } = found;
        let number = self.file_systems.set_of_session(device, true);
        let machine = self.machine.clone();
        let mut source = SessionSource::begin(volume.clone(), machine, Scope::All).as_part(number);
        let (watches_files, what) = match self.role {
            Role::Decides { watches_files, .. } => (watches_files, "is looked after as well"),
            Role::Sees => (false, "is seen, and not changed"),
        };
        if watches_files {
            source.watch_files();
        }
        let joined = Joined {
            source,
            journal,
            volume: volume.uuid(),
            number,
            directory: join::shown(mount),
            list: self.joined.clone(),
        };
        let (name, directory) = (joined.volume, &joined.directory);
        tracing::info!("volume {name} ({directory}) {what}");
        self.joined.add(number, volume);
        Followed {
            state: State::Joined(Box::new(joined)),
            said: None,
        }
    }

    fn leave_out(
        &self,
        device: Device,
        mount: &Mounted,
        why: LeftOut,
        said: Option<String>,
    ) -> Followed {
        if matches!(why, LeftOut::Known) {
            // Another mount of a volume that was joined.
            self.file_systems.set_of_session(device, true);
        }
        let line = why.line(&join::shown(mount));
        if let Some(line) = line.as_ref().filter(|line| said.as_ref() != Some(line)) {
            match self.role {
                Role::Decides { .. } => tracing::warn!("{line}"),
                // Most volumes of a machine are not used by some processes.
                Role::Sees => tracing::debug!("{line}"),
            }
        }
        Followed {
            state: State::LeftOut(0),
            said: line.or(said),
        }
    }

    fn joined_volumes(&self) -> impl Iterator<Item = &Joined> {
        self.mounts
            .values()
            .filter_map(|followed| match &followed.state {
                State::Joined(joined) => Some(&**joined),
                _ => None,
            })
    }

    fn joined_mut(&mut self) -> impl Iterator<Item = &mut Joined> {
        self.mounts
            .values_mut()
            .filter_map(|followed| match &mut followed.state {
                State::Joined(joined) => Some(&mut **joined),
                _ => None,
            })
    }

    /// What went through each volume in this window, by threads on these nodes.
    pub(super) fn parts(&mut self, nodes: &HashMap<ThreadKey, NodeId>) -> Vec<Facts> {
        let part = |joined: &mut Joined| {
            let facts = joined.source.next_part(nodes);
            let media = facts.media.iter();
            let demand = media.map(|medium| (medium.node, medium.measured.demand));
            joined.list.set_demand(joined.number, demand.collect());
            facts
        };
        self.joined_mut().map(part).collect()
    }

    pub(super) fn start_over(&mut self) {
        self.joined_mut()
            .for_each(|joined| joined.source.start_over());
    }
}
