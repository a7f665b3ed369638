//! What a steward looks after, and with what.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use egeria_actuators::{
    AccessDelegation, AdmissionLimits, BandwidthAllocation, Departures, FileRelocation,
    JoinedVolumes, Journal, MemoryMigration, VolumeActuators,
};
use egeria_bpf::FileCounter;
use egeria_engine::Volume;
use egeria_machine::Machine;
use egeria_pages::accesses::damon::Notes;
use egeria_pages::accesses::{Choice, HotPages, MemorySource, Sampler};
use egeria_pages::file_counts::CountedFiles;
use egeria_pages::found_files::FoundFiles;
use egeria_policy::ActionKind;
use egeria_policy::control::Actuator;
use egeria_policy::pats::Controller;
use egeria_policy::planner::{Stage, Unavailable};
use egeria_proc::file_systems::FileSystems;
use egeria_proc::migration_times::MigrationTimes;
use egeria_proc::processes::ProcessSource;
use egeria_proc::{LiveSource, Membership};
use egeria_session::SessionSource;
use uuid::Uuid;

use crate::error::{Result, StewardError};
use crate::mounts::MountWatch;
use crate::options::StewardOptions;
use crate::rivals;
use crate::volumes::{Following, Role, WithVolumes};

/// What a steward looks after.
#[derive(Clone)]
pub enum Target {
    /// Threads that use a volume.
    Volume(Arc<Volume>),
    /// Processes, whatever they use: of this user; root's steward has those of all users. If the policy moves threads
    /// to files, what they read and write is counted by the kernel, and by the volumes in use that this user mounted;
    /// if it places clusters, their accesses to memory are looked at as well.
    Processes,
    /// All processes, and the volumes in use that this user mounted, in one decision.
    Machine,
}

impl Target {
    pub(crate) fn volume(&self) -> Option<Uuid> {
        match self {
            Target::Volume(volume) => Some(volume.uuid()),
            Target::Processes | Target::Machine => None,
        }
    }

    /// The mounts that may die while it works.
    pub(crate) fn mounts(&self) -> MountWatch {
        MountWatch::of(match self {
            Target::Volume(volume) => Some(volume.pool_paths()),
            Target::Machine => None,
            Target::Processes => Some(Vec::new()),
        })
    }

    /// What cannot be seen is added to `unseen`; decisions go to `log`, and what is changed to see it into `journal`.
    /// Without a journal nothing is changed for that.
    pub(crate) fn source(
        &self,
        options: &StewardOptions,
        (log, journal): (&Path, Option<&Journal>),
        unseen: &mut Vec<String>,
    ) -> Source {
        let (machine, scope) = (options.machine.clone(), options.scope.clone());
        match self {
            Target::Volume(volume) => {
                let mut session = SessionSource::begin(Arc::clone(volume), machine, scope);
                if options.settings.stages.relocation {
                    session.watch_files();
                }
                let learns = options.settings.pats.controller == Controller::Learned;
                if options.settings.stages.limits && learns && !session.measures_dram() {
                    tracing::warn!(
                        "limits follow the formula and are not learned: nobody counts what goes through DRAM here; \
                         where the CPU monitors memory bandwidth, `mount -t resctrl resctrl /sys/fs/resctrl`"
                    );
                }
                Source::of(Box::new(session))
            }
            Target::Processes | Target::Machine => {
                let mut processes: Box<dyn LiveSource> =
                    Box::new(ProcessSource::begin(machine.clone(), scope));
                let (mut found, file_systems) = (None, FileSystems::default());
                let stages = &options.settings.stages;
                let watches_files = stages.relocation || options.only_records();
                if options.settings.moves_threads() || watches_files {
                    match FileCounter::begin_in_windows_of(options.window_ns) {
                        Ok(counter) => {
                            let counted =
                                CountedFiles::new(processes, counter).sharing(file_systems.clone());
                            found = Some(counted.files());
                            processes = Box::new(counted);
                        }
                        Err(error) => unseen.push(self.why_uncounted(&error)),
                    }
                }
                let role = match self {
                    Target::Machine => Role::Decides {
                        log: log.to_owned(),
                        watches_files,
                    },
                    _ => Role::Sees,
                };
                let following = Following::begin(&machine, role, file_systems);
                let joined = following.joined();
                processes = Box::new(WithVolumes::new(processes, following));
                if options.machine.nodes.len() > 1 {
                    for note in rivals::notes(Path::new("/proc"), std::process::id()) {
                        tracing::warn!("{note}");
                    }
                }
                let mut source = match Accesses::begin(options, journal, unseen) {
                    Some((sampler, accesses)) => {
                        let times = accesses.times.clone();
                        let memory = MemorySource::new(processes, sampler, times);
                        Source {
                            accesses: Some(accesses),
                            ..Source::of(Box::new(memory))
                        }
                    }
                    None => Source::of(processes),
                };
                (source.files, source.joined) = (found, joined);
                source
            }
        }
    }

    /// What is lost where the kernel does not count what threads read and write.
    fn why_uncounted(&self, error: &dyn std::fmt::Display) -> String {
        let lost = match self {
            Target::Machine => "threads are moved to data of volumes only, and no other files are",
            _ => "threads are moved to data of volumes only, and no files are",
        };
        format!("{lost}: what threads read is not known: {error}")
    }

    /// What carries out actions on the volume itself, as far as the policy has them and there is something to do.
    /// Otherwise, or without room for them, the stage is reported as unavailable.
    pub(crate) fn actuators(&self, options: &StewardOptions) -> Vec<Box<dyn Actuator + Send>> {
        let mut actuators: Vec<Box<dyn Actuator + Send>> = Vec::new();
        let Target::Volume(volume) = self else {
            return actuators;
        };
        let (machine, stages) = (&options.machine, &options.settings.stages);
        let volume = || Arc::clone(volume);
        if stages.limits && has_bounded_medium(machine) {
            let limits = AdmissionLimits::begin(volume(), machine).ok();
            actuators.extend(limits.map(|limits| Box::new(limits) as _));
        }
        let mut nodes = volume().pool_nodes();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() > 1 {
            if stages.delegation {
                actuators.push(Box::new(AccessDelegation::begin(volume())));
            }
            if stages.relocation {
                let relocation = FileRelocation::of_volume(volume(), machine).ok();
                actuators.extend(relocation.map(|relocation| Box::new(relocation) as _));
            }
        }
        actuators
    }

    /// What bounds programs that do not ask, if the policy does that.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) fn bounds(
        &self,
        options: &StewardOptions,
        members: Arc<dyn Membership>,
        journal: &Journal,
    ) -> std::result::Result<Option<BandwidthAllocation>, String> {
        if !options.settings.stages.mba {
            return Ok(None);
        }
        if let Target::Volume(_) = self {
            return Err(
                "it bounds programs, which a steward of processes does (--pid, --cgroup or --all)"
                    .to_owned(),
            );
        }
        let (root, machine) = (Path::new("/"), &options.machine);
        let name = "processes";
        let bounds = BandwidthAllocation::begin(root, machine, name, members, journal.clone());
        // It was asked for by name.
        let bounds = bounds.inspect_err(|why| tracing::warn!("programs are not bounded: {why}"));
        bounds.map(Some)
    }

    /// A stage that is off, and what would have it.
    /// `no_bounds` says why programs cannot be bounded.
    pub(crate) fn why_off(
        &self,
        off: &Unavailable,
        options: &StewardOptions,
        no_bounds: Option<&str>,
    ) -> String {
        let machine = &options.machine;
        let has_one_node = machine.nodes.len() == 1;
        let why = match (self, off.stage) {
            (_, Stage::Threads) => "nothing moves threads here",
            (_, Stage::Mba) => no_bounds.unwrap_or("nothing bounds programs here"),
            (Target::Volume(_), Stage::Clusters) => {
                "it moves whole processes, which a steward of processes does (--pid, --cgroup or --all)"
            }
            (Target::Volume(_) | Target::Machine, Stage::Limits)
                if !has_bounded_medium(machine) =>
            {
                "no node has persistent memory, or memory that gives less to many threads"
            }
            (Target::Volume(volume), Stage::Relocation | Stage::Delegation)
                if volume
                    .pool_nodes()
                    .windows(2)
                    .all(|pair| pair[0] == pair[1]) =>
            {
                "all pools of the volume are on one node"
            }
            (Target::Volume(_), _) => "the volume's session has no memory left for it",
            (Target::Processes, Stage::Limits | Stage::Delegation) => {
                "it is for all that use a volume; to have it, name the volume's POOL, or --all"
            }
            (Target::Processes | Target::Machine, _) if has_one_node => "the machine has one node",
            (Target::Processes | Target::Machine, _) => "what programs use is not seen here",
        };
        format!("{} is off: {why}", off.stage)
    }

    /// Whether it is in use on the machine given.
    pub(crate) fn check(&self, machine: &Machine) -> Result<()> {
        let given = machine.nodes.len();
        let emulation = match self {
            Target::Volume(volume) => volume.emulation(),
            _ if machine.is_emulated() => return Err(StewardError::NotReal),
            _ => return Ok(()),
        };
        let session = emulation.node_count();
        let is_other = machine.is_emulated() != emulation.is_configured();
        if is_other || (machine.is_emulated() && session != given) {
            Err(StewardError::OtherMachine { session, given })
        } else {
            Ok(())
        }
    }
}

/// Where facts come from, and what actuators share with that.
pub(crate) struct Source {
    pub(crate) facts: Box<dyn LiveSource>,
    pub(crate) accesses: Option<Accesses>,
    /// Files outside of volumes that are in use.
    pub(crate) files: Option<FoundFiles>,
    /// The volumes that are followed.
    joined: Option<JoinedVolumes>,
}

impl Source {
    fn of(facts: Box<dyn LiveSource>) -> Source {
        Source {
            facts,
            accesses: None,
            files: None,
            joined: None,
        }
    }

    /// What acts on files, and on the volumes that are followed, as far as the policy does such things.
    pub(crate) fn actuators(&self, options: &StewardOptions) -> Vec<Box<dyn Actuator + Send>> {
        let files = self.actuator_of_files(options);
        match &self.joined {
            Some(joined) => vec![Box::new(VolumeActuators::new(
                joined.clone(),
                &options.machine,
                kinds_of_volumes(options),
                files,
            ))],
            None => files
                .map(|files| Box::new(files) as _)
                .into_iter()
                .collect(),
        }
    }

    /// What moves the page cache of these files between nodes, if there are several and the policy does such things.
    fn actuator_of_files(&self, options: &StewardOptions) -> Option<FileRelocation> {
        let files = self.files.clone()?;
        let relocation = || FileRelocation::of_page_cache(files, &options.machine).ok();
        options.moves_files().then(relocation).flatten()
    }
}

/// Whether it matters on some node how many threads are at the memory of its files.
fn has_bounded_medium(machine: &Machine) -> bool {
    let mut nodes = machine.nodes.iter();
    nodes.any(|node| machine.has_bounded_medium(node))
}

/// What can be done to volumes that come and go on this machine, as far as the policy has it.
fn kinds_of_volumes(options: &StewardOptions) -> Vec<ActionKind> {
    let (machine, stages) = (&options.machine, &options.settings.stages);
    let has_several = machine.nodes.len() > 1;
    let kinds = [
        (
            ActionKind::AdmissionLimit,
            stages.limits && has_bounded_medium(machine),
        ),
        (ActionKind::Delegation, stages.delegation && has_several),
        (ActionKind::Relocation, options.moves_files()),
    ];
    let kinds = kinds.into_iter().filter(|(_, is_done)| *is_done);
    kinds.map(|(kind, _)| kind).collect()
}

/// What a source that looks at accesses shares with the actuator of memory.
pub(crate) struct Accesses {
    hot: Box<dyn HotPages>,
    times: MigrationTimes,
    /// How they are seen, and what that cannot see.
    pub(crate) description: String,
}

impl Accesses {
    /// If the policy places clusters, or all is recorded, and the kernel shows what they access; otherwise the reason is added to `unseen`.
    fn begin(
        options: &StewardOptions,
        journal: Option<&Journal>,
        unseen: &mut Vec<String>,
    ) -> Option<(Box<dyn Sampler>, Accesses)> {
        if !options.settings.stages.clusters && !options.only_records() {
            return None;
        }
        let window = Duration::from_nanos(options.window_ns);
        let journal = journal.cloned();
        let notes: Notes = Arc::new(move |change| match &journal {
            Some(journal) => journal.add(change),
            None => Err(std::io::ErrorKind::Unsupported.into()),
        });
        match Choice::make(options.memory_source, &options.machine, window, &notes) {
            Ok(choice) => {
                let accesses = Accesses {
                    description: choice.description(),
                    hot: choice.hot,
                    times: MigrationTimes::default(),
                };
                Some((choice.sampler, accesses))
            }
            Err(why) => {
                unseen.push(format!(
                    "clusters are not placed and memory follows nobody: what programs access in memory is not known: {why}"
                ));
                None
            }
        }
    }

    pub(crate) fn actuator(
        self,
        options: &StewardOptions,
        source: &dyn LiveSource,
        departures: Departures,
    ) -> MemoryMigration {
        let (machine, hot) = (&options.machine, self.hot);
        MemoryMigration::new(
            machine,
            source.members(),
            hot,
            self.times,
            departures,
            options.settings.migration_share(),
        )
    }
}
