//! One fresh volume (or one per instance) on the emulated machine, and programs on it.

use std::path::PathBuf;
use std::time::Duration;

use egeria_engine::AllocationPolicy;
use egeria_machine::Machine;
use tempfile::TempDir;

use super::mover::{Mover, Moves};
use super::options::NthreadOptions;
use super::plan::Group;
use super::program::Program;
use super::sample::{self, Moment, Sampler};
use super::setup::{Allocation, Pinning};
use super::{fio, rocksdb};
use crate::programs::script::{self, Call};
use crate::programs::{self, Yield, filebench};
use egeria_harness::process::Cancel;
use egeria_harness::{Error, Result};
use egeria_scratch::{ScratchVolume, memory_directory};

/// Size of each pool; a file in memory that takes only what is written.
const POOL_BYTES: u64 = 2 << 30;
/// No run takes nearly this long.
const LIMIT: Duration = Duration::from_secs(60);
/// Points of a chart over time.
const MOMENTS: u32 = 40;

/// What one program of a group gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Measurement {
    /// Of all instances together, machine time.
    pub(super) given: Yield,
    /// Share of bytes moved on the thread's own node.
    pub(super) local_share: Option<f64>,
    /// Share of the measured time for which the machine's clock stood still.
    pub(super) stalled_share: f64,
    /// What the steward did.
    pub(super) moves: Moves,
    /// Bandwidth of the nodes.
    pub(super) series: Vec<Moment>,
}

/// Where a group runs.
pub(super) struct Stage<'a> {
    group: &'a Group,
    machine: Machine,
    scratches: Vec<ScratchVolume>,
    /// For what programs say.
    backstage: TempDir,
    library: PathBuf,
    filebench: PathBuf,
    cancel: Cancel<'a>,
}

impl<'a> Stage<'a> {
    /// Makes the volumes, with timing off.
    pub(super) fn set_up(options: &'a NthreadOptions<'_>, group: &'a Group) -> Result<Stage<'a>> {
        let memory = &options.memory_directory;
        let backstage = memory_directory(memory)?;
        let library =
            egeria_harness::program::loadable(&options.preload_library, backstage.path())?;
        let machine = paced(&options.machine, group)?;
        let nodes: Vec<u16> = machine.nodes.iter().map(|node| node.id.0).collect();
        let volumes = match group.setup.allocation {
            Allocation::NodeOfInstance => group.instances,
            _ => 1,
        };
        let make = |_| ScratchVolume::make(memory, &nodes, POOL_BYTES, Some(machine.clone()));
        let scratches = (0..volumes)
            .map(make)
            .collect::<egeria_scratch::Result<Vec<_>>>()?;
        let stage = Stage {
            group,
            machine,
            scratches,
            backstage,
            library,
            filebench: options.filebench_program.clone(),
            cancel: options.watch.cancel,
        };
        stage.set_timing(false);
        stage.allocate();
        Ok(stage)
    }

    fn allocate(&self) {
        for (place, scratch) in self.scratches.iter().enumerate() {
            let node = (place % self.machine.nodes.len()) as u8;
            scratch
                .volume()
                .set_allocation(match self.group.setup.allocation {
                    Allocation::Local => AllocationPolicy::Local,
                    Allocation::Random => AllocationPolicy::Random,
                    Allocation::OneNode => AllocationPolicy::Pool(0),
                    Allocation::NodeOfInstance => AllocationPolicy::Pool(node),
                });
        }
    }

    /// Makes the files that the group's programs use, with timing off.
    pub(super) fn prepare(&self) -> Result<()> {
        match self.group.programs[0] {
            Program::Fio { .. } => {
                // NThread §V-C: all data is on node 0 at first, in every system.
                let volume = self.scratches[0].shared();
                volume.set_allocation(AllocationPolicy::Pool(0));
                let made = fio::prepare(volume, self.group.threads);
                self.allocate();
                made
            }
            Program::Rocksdb(_) if self.group.needs_database() => {
                self.one_by_one(|place| rocksdb::fill(&self.directory(place)))
            }
            Program::Rocksdb(_) => Ok(()),
            Program::Filebench(personality) => self.one_by_one(|place| {
                filebench::prepare(&self.filebench, personality, &self.directory(place))
            }),
        }
    }

    /// Each instance's files are made on a node of their own, as if it had run there before: else
    /// where they lie would be chance.
    fn one_by_one(&self, call: impl Fn(u32) -> Call) -> Result<()> {
        for place in 0..self.group.instances {
            let mut bound = call(place);
            bound.cpus = Some(self.cpus(place));
            self.call(&[bound])?;
        }
        Ok(())
    }

    /// Runs one program in all instances, timed, moved and sampled.
    pub(super) fn perform(&self, program: Program) -> Result<Measurement> {
        let calls: Vec<Call> = (0..self.group.instances)
            .map(|place| self.bound(place, self.measured_call(program, place)))
            .collect();
        self.set_timing(true);
        let (said, samples, moves) = self.watched(program, &calls)?;
        let pace = &self.group.pace;
        let measured = sample::measured(&samples, pace.warmup);
        let dilations = sample::dilations(measured, self.scratches.len(), pace.dilation);
        let sum = |sum: Yield, (text, dilation): (&String, &f64)| -> Result<Yield> {
            Ok(sum.plus(given(program, text, *dilation)?))
        };
        // Instances without a volume of their own share the first's.
        let mut said = said.iter().zip(dilations.iter().cycle());
        Ok(Measurement {
            given: said.try_fold(Yield::default(), sum)?,
            local_share: sample::local_share(measured),
            stalled_share: dilations
                .first()
                .map_or(0.0, |dilation| 1.0 - pace.dilation / dilation),
            moves,
            series: sample::moments(sample::measured(&samples, Duration::ZERO)),
        })
    }

    fn watched(
        &self,
        program: Program,
        calls: &[Call],
    ) -> Result<(Vec<String>, Vec<sample::Sample>, Moves)> {
        let pace = &self.group.pace;
        let volumes = self
            .scratches
            .iter()
            .map(ScratchVolume::shared)
            .cloned()
            .collect();
        let log = format!("decisions-{}", program.workload());
        let log = self.backstage.path().join(log);
        let first = self.scratches[0].shared();
        let mover = Mover::start(first, &self.machine, &self.group.setup, pace, &log)?;
        let interval = (pace.warmup + pace.measured) / MOMENTS;
        let sampler = Sampler::start(volumes, self.machine.nodes.len(), interval)?;
        let said = self.call(calls);
        let (samples, moves) = (sampler.stop(), mover.stop());
        self.set_timing(false);
        Ok((said?, samples, moves?))
    }

    fn measured_call(&self, program: Program, place: u32) -> Call {
        let (group, directory) = (self.group, self.directory(place));
        match program {
            Program::Fio {
                read_percent,
                block_bytes,
            } => fio::call(
                &directory,
                read_percent,
                block_bytes,
                group.threads,
                &group.pace,
            ),
            Program::Rocksdb(benchmark) => {
                rocksdb::call(&directory, benchmark, group.threads, &group.pace)
            }
            Program::Filebench(personality) => filebench::call(
                &self.filebench,
                personality,
                &directory,
                group.threads,
                (group.pace.warmup, group.pace.measured),
            ),
        }
    }

    fn call(&self, calls: &[Call]) -> Result<Vec<String>> {
        script::run(
            calls,
            &self.library,
            self.backstage.path(),
            LIMIT,
            self.cancel,
        )
    }

    /// The files of an instance.
    fn directory(&self, place: u32) -> PathBuf {
        let scratch = &self.scratches[place as usize % self.scratches.len()];
        match self.group.programs[0] {
            Program::Fio { .. } => scratch.mount_directory().to_owned(),
            _ => scratch.mount_directory().join(format!("instance{place}")),
        }
    }

    fn bound(&self, place: u32, mut call: Call) -> Call {
        call.cpus = match self.group.setup.pinning {
            Pinning::Free => None,
            Pinning::WithData => Some(self.cpus(place)),
            Pinning::AwayFromData => Some(self.cpus(place + 1)),
        };
        call
    }

    /// CPUs of a node, counted round.
    fn cpus(&self, node: u32) -> String {
        let nodes = &self.machine.nodes;
        egeria_machine::format_cpu_list(&nodes[node as usize % nodes.len()].cpus)
    }

    fn set_timing(&self, on: bool) {
        for scratch in &self.scratches {
            scratch.volume().set_timing(on);
        }
    }
}

/// The machine at the group's pace. Where every instance has a volume of its own, each has a machine
/// of its own too; free to run anywhere, it gets its share of the cores.
fn paced(machine: &Machine, group: &Group) -> Result<Machine> {
    let mut machine = machine.clone();
    let name = machine.name.clone();
    let Some(emulated) = machine.emulated.as_mut().filter(|emulated| emulated.timing) else {
        return Err(Error::failed(format!(
            "machine {name} emulates no timing; use a profile such as optane-2s"
        )));
    };
    emulated.dilation = group.pace.dilation;
    let setup = &group.setup;
    if setup.allocation == Allocation::NodeOfInstance && setup.pinning == Pinning::Free {
        for node in &mut emulated.nodes {
            node.cores = (node.cores / group.instances).max(1);
        }
    }
    Ok(machine)
}

/// What a program said it did, on the machine's clock.
fn given(program: Program, text: &str, dilation: f64) -> Result<Yield> {
    let given = match program {
        Program::Fio { .. } => programs::fio::given(text),
        Program::Rocksdb(benchmark) => {
            programs::rocksdb::outcome(text, benchmark.word()).map(|outcome| outcome.given)
        }
        Program::Filebench(_) => filebench::given(text),
    };
    Ok(given?.times(dilation))
}
