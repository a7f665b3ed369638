//! One fresh volume (or one per instance) on the emulated machine, and programs on it.

use std::path::PathBuf;
use std::time::Duration;

use egeria_engine::AllocationPolicy;
use egeria_machine::Machine;

use super::mover::{Mover, Moves};
use super::options::NthreadOptions;
use super::plan::Group;
use super::program::Program;
use super::sample::{self, Moment, Sampler};
use super::setup::{Allocation, Pinning};
use super::{fio, rocksdb};
use crate::emulated::{EmulatedOptions, EmulatedRun, VolumeSetup};
use crate::programs::script::Call;
use crate::programs::{self, Yield, filebench};
use egeria_harness::{Error, Result};
use egeria_scratch::ScratchVolume;

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
    run: EmulatedRun<'a>,
    filebench: PathBuf,
}

impl<'a> Stage<'a> {
    /// Makes the volumes, with timing off.
    pub(super) fn set_up(options: &NthreadOptions<'a>, group: &'a Group) -> Result<Stage<'a>> {
        let machine = paced(&options.machine, group)?;
        let volumes = match group.setup.allocation {
            Allocation::NodeOfInstance => group.instances as usize,
            _ => 1,
        };
        let setup = |place| VolumeSetup {
            memory: None,
            pool_bytes: POOL_BYTES,
            allocation: allocation(group, place, machine.nodes.len()),
        };
        let setups: Vec<VolumeSetup> = (0..volumes).map(setup).collect();
        let given = EmulatedOptions {
            memory_directory: options.memory_directory.clone(),
            watch: options.watch,
            ..EmulatedOptions::new(options.preload_library.clone())
        };
        let run = EmulatedRun::set_up_apart(&given, &machine, &setups)?;
        Ok(Stage {
            group,
            machine,
            run,
            filebench: options.filebench_program.clone(),
        })
    }

    /// Makes the files that the group's programs use, with timing off.
    pub(super) fn prepare(&self) -> Result<()> {
        match self.group.programs[0] {
            Program::Fio { .. } => {
                // NThread §V-C: all data is on node 0 at first, in every system.
                let volume = self.run.shared(0);
                volume.set_allocation(AllocationPolicy::Pool(0));
                let made = fio::prepare(volume, self.group.threads);
                volume.set_allocation(allocation(self.group, 0, self.machine.nodes.len()));
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
            self.run.call(&[bound], LIMIT)?;
        }
        Ok(())
    }

    /// Runs one program in all instances, timed, moved and sampled.
    pub(super) fn perform(&self, program: Program) -> Result<Measurement> {
        let calls: Vec<Call> = (0..self.group.instances)
            .map(|place| self.bound(place, self.measured_call(program, place)))
            .collect();
        self.run.set_timing(true);
        let (said, samples, moves) = self.watched(program, &calls)?;
        let pace = &self.group.pace;
        let measured = sample::measured(&samples, pace.warmup);
        let dilations = sample::dilations(measured, self.run.volumes().count(), pace.dilation);
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
        let volumes = self.run.volumes().map(ScratchVolume::shared);
        let volumes = volumes.cloned().collect();
        let log = format!("decisions-{}", program.workload());
        let log = self.run.backstage().join(log);
        let first = self.run.shared(0);
        let mover = Mover::start(first, &self.machine, &self.group.setup, pace, &log)?;
        let interval = (pace.warmup + pace.measured) / MOMENTS;
        let sampler = Sampler::start(volumes, self.machine.nodes.len(), interval)?;
        let said = self.run.call(calls, LIMIT);
        let (samples, moves) = (sampler.stop(), mover.stop());
        self.run.set_timing(false);
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

    /// The files of an instance.
    fn directory(&self, place: u32) -> PathBuf {
        let volume = place as usize % self.run.volumes().count();
        let directory = self.run.directory(volume);
        match self.group.programs[0] {
            Program::Fio { .. } => directory.to_owned(),
            _ => directory.join(format!("instance{place}")),
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
}

/// Where new data of the volume in this place goes.
fn allocation(group: &Group, place: usize, nodes: usize) -> AllocationPolicy {
    match group.setup.allocation {
        Allocation::Local => AllocationPolicy::Local,
        Allocation::Random => AllocationPolicy::Random,
        Allocation::OneNode => AllocationPolicy::Pool(0),
        Allocation::NodeOfInstance => AllocationPolicy::Pool((place % nodes) as u8),
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
