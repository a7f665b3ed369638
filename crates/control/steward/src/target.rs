//! What a steward looks after, and with what.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use egeria_actuators::{
    AccessDelegation, AdmissionLimits, Departures, FileRelocation, MemoryMigration,
};
use egeria_bpf::FileCounter;
use egeria_engine::Volume;
use egeria_machine::Machine;
use egeria_pages::accesses::{Choice, HotPages, MemorySource, Sampler};
use egeria_pages::file_counts::CountedFiles;
use egeria_pages::found_files::FoundFiles;
use egeria_policy::control::Actuator;
use egeria_policy::pats::Controller;
use egeria_policy::planner::{Stage, Unavailable};
use egeria_proc::LiveSource;
use egeria_proc::migration_times::MigrationTimes;
use egeria_proc::processes::ProcessSource;
use egeria_session::SessionSource;
use uuid::Uuid;

use crate::error::{Result, StewardError};
use crate::options::StewardOptions;

/// What a steward looks after.
#[derive(Clone)]
pub enum Target {
    /// Threads that use a volume.
    Volume(Arc<Volume>),
    /// Processes, whatever they use: of this user; root's steward has those of all users. If the policy moves threads
    /// to files, what they read and write is counted by the kernel; if it places clusters, their accesses to memory
    /// are looked at as well.
    Processes,
}

impl Target {
    pub(crate) fn volume(&self) -> Option<Uuid> {
        match self {
            Target::Volume(volume) => Some(volume.uuid()),
            Target::Processes => None,
        }
    }

    /// What cannot be seen is added to `unseen`.
    pub(crate) fn source(&self, options: &StewardOptions, unseen: &mut Vec<String>) -> Source {
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
            Target::Processes => {
                let mut processes: Box<dyn LiveSource> =
                    Box::new(ProcessSource::begin(machine, scope));
                let mut found = None;
                if options.settings.moves_threads() || options.settings.stages.relocation {
                    match FileCounter::begin_in_windows_of(options.window_ns) {
                        Ok(counter) => {
                            let counted = CountedFiles::new(processes, counter);
                            found = Some(counted.files());
                            processes = Box::new(counted);
                        }
                        Err(error) => unseen.push(format!(
                            "neither threads nor files are moved: what threads read is not known: {error}"
                        )),
                    }
                }
                let knows_memory =
                    (options.machine.nodes.iter()).any(|node| !node.hardware.memories.is_empty());
                if found.is_some() && options.moves_files() && !knows_memory {
                    unseen.push(
                        "files stay where their pages are: what the memory of the nodes can do is not known; \
                         `egeria machine calibrate --output FILE`, then --machine FILE"
                            .to_owned(),
                    );
                }
                if options.machine.nodes.len() > 1
                    && let Some(note) = numa_balancing(Path::new("/proc"))
                {
                    tracing::warn!("{note}");
                }
                let mut source = match Accesses::begin(options, unseen) {
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
                source.files = found;
                source
            }
        }
    }

    /// What carries out actions on the volume itself, as far as the policy has them and there is something to do.
    /// Otherwise, or without room for them, the stage is reported as unavailable.
    pub(crate) fn actuators(&self, options: &StewardOptions) -> Vec<Box<dyn Actuator + Send>> {
        let mut actuators: Vec<Box<dyn Actuator + Send>> = Vec::new();
        let Target::Volume(volume) = self else {
            return actuators;
        };
        let (machine, stages) = (&options.machine, &options.settings.stages);
        let has_any = |node| machine.has_persistent_memory(node);
        let volume = || Arc::clone(volume);
        if stages.limits && machine.nodes.iter().any(has_any) {
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

    /// A stage that is off, and what would have it.
    pub(crate) fn why_off(&self, off: &Unavailable, options: &StewardOptions) -> String {
        let machine = &options.machine;
        let has_one_node = machine.nodes.len() == 1;
        let why = match (self, off.stage) {
            (_, Stage::Threads) => "nothing moves threads here",
            (Target::Volume(_), Stage::Clusters) => {
                "it moves whole processes, which a steward of processes does (--pid, --cgroup or --all)"
            }
            (Target::Volume(_), Stage::Limits)
                if !(machine.nodes.iter()).any(|node| machine.has_persistent_memory(node)) =>
            {
                "no node has persistent memory"
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
                "it is for what goes through a volume; to have it, name the volume's POOL"
            }
            (Target::Processes, _) if has_one_node => "the machine has one node",
            (Target::Processes, _) => "what programs use is not seen here",
        };
        format!("{} is off: {why}", off.stage)
    }

    /// Whether it is in use on the machine given.
    pub(crate) fn check(&self, machine: &Machine) -> Result<()> {
        let given = machine.nodes.len();
        let emulation = match self {
            Target::Volume(volume) => volume.emulation(),
            Target::Processes if machine.is_emulated() => return Err(StewardError::NotReal),
            Target::Processes => return Ok(()),
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
}

impl Source {
    fn of(facts: Box<dyn LiveSource>) -> Source {
        Source {
            facts,
            accesses: None,
            files: None,
        }
    }

    /// What moves the page cache of these files between nodes, if there are several and the policy does such things.
    pub(crate) fn actuator_of_files(&self, options: &StewardOptions) -> Option<FileRelocation> {
        let files = self.files.clone()?;
        let relocation = || FileRelocation::of_page_cache(files, &options.machine).ok();
        options.moves_files().then(relocation).flatten()
    }
}

/// What a source that looks at accesses shares with the actuator of memory.
pub(crate) struct Accesses {
    hot: Box<dyn HotPages>,
    times: MigrationTimes,
    /// How they are seen, and what that cannot see.
    pub(crate) description: String,
}

impl Accesses {
    /// If the policy places clusters, and the kernel shows what they access; otherwise the reason is added to `unseen`.
    fn begin(
        options: &StewardOptions,
        unseen: &mut Vec<String>,
    ) -> Option<(Box<dyn Sampler>, Accesses)> {
        if !options.settings.stages.clusters {
            return None;
        }
        let window = Duration::from_nanos(options.window_ns);
        match Choice::make(options.memory_source, &options.machine, window) {
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
        let settings = &options.settings;
        let budget = if settings.stages.budget {
            settings.budget.share
        } else {
            settings.asymsched.budget
        };
        let (machine, hot) = (&options.machine, self.hot);
        MemoryMigration::new(
            machine,
            source.members(),
            hot,
            self.times,
            departures,
            budget,
        )
    }
}

/// That the kernel moves memory as well, if it does.
fn numa_balancing(proc: &Path) -> Option<String> {
    let text = std::fs::read_to_string(proc.join("sys/kernel/numa_balancing")).ok()?;
    let is_on = text.trim().parse::<u64>().is_ok_and(|mode| mode != 0);
    is_on.then(|| {
        "the kernel moves memory and threads as well (kernel.numa_balancing), perhaps against the steward: sysctl -w kernel.numa_balancing=0"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numa_balancing_is_named_where_it_is_on() {
        let proc = tempfile::tempdir_in("/dev/shm").unwrap();
        assert_eq!(numa_balancing(proc.path()), None, "no such setting");
        let file = proc.path().join("sys/kernel/numa_balancing");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (text, is_on) in [("0\n", false), ("1\n", true), ("2\n", true), ("x", false)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(numa_balancing(proc.path()).is_some(), is_on, "{text:?}");
        }
    }
}
