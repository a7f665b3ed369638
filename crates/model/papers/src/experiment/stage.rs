//! Machines, systems and runs that the experiments share.

use egeria_machine::Machine;
use egeria_policy::nthread::{Configuration, Settings};
use egeria_policy::planner;
use egeria_sim::{Allocation, Options, Outcome, Workload};

use super::file_system::{EXT4_DAX, FileSystem, Metadata, PMFS, Writes};
use crate::error::{Result, shipped};

/// LLC of a Xeon Gold 5215, bytes: 1.375 MB for each of its ten cores (that family's figure), in whole grains. The
/// profile's own is scaled down for runs that are; runs here are not.
const LLC_BYTES: u64 = 13_750_000 / GRAIN * GRAIN;
const GRAIN: u64 = egeria_machine::emulated::LLC_GRAIN_BYTES;

/// NThread §III-A gives its margin as an example ("such as 200 MB"). Its evaluation had a smaller one: rw20's
/// threads and filebench's were all pinned to their data (§V-C, §V-D), and none of these can read 200 MB/s, for they
/// share one DIMM. A tenth is assumed, in all experiments.
const READ_MARGIN_BYTES_S: f64 = 20e6;

/// How long the runs are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Extent {
    /// As the workloads say.
    #[default]
    Full,
    /// A few windows of each: enough for the policies to settle, not for files to be overwritten.
    Brief,
}

impl Extent {
    /// Share of a workload's time.
    fn share(self) -> f64 {
        match self {
            Extent::Full => 1.0,
            Extent::Brief => 0.2,
        }
    }
}

/// A system under test.
#[derive(Clone)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) nthread: Settings,
    pub(crate) allocation: Allocation,
    /// When it is not NOVA's.
    pub(crate) file_system: Option<&'static FileSystem>,
}

impl System {
    fn of(name: &'static str, configuration: Configuration, allocation: Allocation) -> System {
        System {
            name,
            nthread: Settings::of(configuration),
            allocation,
            file_system: None,
        }
    }

    /// ext4-dax and PMFS: on one node, like NOVA (NThread §V-B).
    pub(crate) fn others() -> [System; 2] {
        [&EXT4_DAX, &PMFS].map(|file_system| System {
            name: file_system.name,
            file_system: Some(file_system),
            ..System::nova()
        })
    }

    /// NOVA: all data on one node, threads where the kernel puts them (NThread §V-B).
    pub(crate) fn nova() -> System {
        System::of("nova", Configuration::Off, Allocation::Node(0))
    }

    /// NOVA on each node, for one application each (NThread §V-B).
    pub(crate) fn nova_on_each() -> System {
        System::of("nova", Configuration::Off, Allocation::InPlace)
    }

    /// `NOVA_n`: blocks on random nodes (NThread §II-C).
    pub(crate) fn nova_n() -> System {
        System::of("nova_n", Configuration::Off, Allocation::Spread)
    }

    /// One of NThread's configurations (Table II), with the margin that must have been in force.
    pub(crate) fn nthread(configuration: Configuration) -> System {
        let mut system = System::of(configuration.name(), configuration, Allocation::Local);
        system.nthread.read_margin_bytes_s = READ_MARGIN_BYTES_S;
        system
    }

    /// As it is set up for two applications: a file system that knows one node is there once for each (NThread §V-B).
    pub(crate) fn for_two(&self) -> System {
        match self.allocation {
            Allocation::Node(_) => System {
                allocation: Allocation::InPlace,
                ..self.clone()
            },
            _ => self.clone(),
        }
    }

    /// What a workload becomes on its file system.
    pub(crate) fn on(&self, workload: &Workload, writes: Writes, metadata: Metadata) -> Workload {
        let mut workload = workload.clone();
        if let Some(file_system) = self.file_system {
            file_system.adapt(&mut workload, writes, metadata);
        }
        workload
    }

    /// All that NThread's figures have bars of.
    pub(crate) fn all() -> Vec<System> {
        use Configuration::*;
        let nthread = [Rl, Cpu, Nm, Full].map(System::nthread);
        let published = [System::nova(), System::nova_n()];
        let published = System::others().into_iter().chain(published);
        published.chain(nthread).collect()
    }
}

/// Where experiments are run.
pub(crate) struct Stage {
    pub(crate) extent: Extent,
}

impl Stage {
    /// `optane-2s` with `cores` cores per node.
    pub(crate) fn optane(&self, cores: u32) -> Result<Machine> {
        self.emulated("optane-2s", cores)
    }

    /// An emulated machine with `cores` cores per node, and the cache of its CPUs in full size.
    pub(crate) fn emulated(&self, name: &str, cores: u32) -> Result<Machine> {
        let mut machine = profile(name)?;
        let emulated = machine.emulated.as_mut();
        for node in emulated
            .into_iter()
            .flat_map(|emulated| &mut emulated.nodes)
        {
            node.cores = cores;
            node.llc_bytes = LLC_BYTES;
        }
        Ok(machine)
    }

    /// A workload that ships here, in the length of this extent.
    pub(crate) fn workload(&self, text: &str, name: &str) -> Result<Workload> {
        let mut workload = Workload::from_toml(text, name).map_err(|error| shipped(name, error))?;
        workload.seconds = (workload.seconds * self.extent.share()).ceil();
        workload.warm_up_seconds = (workload.warm_up_seconds * self.extent.share()).floor();
        Ok(workload)
    }

    /// A workload that ships here and settles at once: the same in every extent.
    pub(crate) fn steady(&self, text: &str, name: &str) -> Result<Workload> {
        Workload::from_toml(text, name).map_err(|error| shipped(name, error))
    }

    /// What a system makes of a workload.
    pub(crate) fn run(
        &self,
        machine: &Machine,
        workload: &Workload,
        system: &System,
    ) -> Result<Outcome> {
        let options = Options {
            planner: planner::Settings {
                nthread: system.nthread.clone(),
                ..planner::System::Off.settings()
            },
            allocation: system.allocation,
            ..Options::published(planner::System::Off)
        };
        self.outcome(machine, workload, &options)
    }

    /// What comes of a workload with these options.
    pub(crate) fn outcome(
        &self,
        machine: &Machine,
        workload: &Workload,
        options: &Options,
    ) -> Result<Outcome> {
        egeria_sim::run(machine, workload, options).map_err(|error| shipped(&workload.name, error))
    }
}

/// A machine that ships with Egeria.
pub(crate) fn profile(name: &str) -> Result<Machine> {
    Machine::profile(name).map_err(|error| shipped(name, error))
}
