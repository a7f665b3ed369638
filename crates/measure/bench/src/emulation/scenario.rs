//! What is run: one DIMM to eight nodes, reads, writes and mixes, DRAM beside persistent memory, remote, striped.

use std::num::NonZeroU8;

use egeria_engine::{AllocationPolicy, DelegationRule};
use egeria_harness::Result;
use egeria_machine::{Machine, MemoryKind, NodeId};
use egeria_policy::planner::{Settings, System};
use egeria_sim::{Allocation, FileGroup, MediumKind, Pattern, Phase, ThreadGroup, Workload};

use crate::emulated::{self, EmulatedRun, VolumeSetup};
use crate::programs::fio::Jobs;
use crate::programs::script::Call;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Beyond this, memory of the host gets scarce.
const MAX_DATA_BYTES: u64 = 1 << 30;

/// Where data lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On node 0.
    First,
    /// In stripes over all nodes.
    Striped,
}

/// fio, on a volume of its own.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) memory: MemoryKind,
    pub(super) threads: usize,
    pub(super) request_bytes: u64,
    pub(super) read_share: f64,
}

/// Programs on one machine.
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) profile: &'static str,
    /// The first nodes of the profile.
    pub(super) nodes: usize,
    pub(super) dilation: f64,
    pub(super) place: Place,
    /// Delegates of each pool that make all accesses.
    pub(super) delegates: Option<NonZeroU8>,
    /// All threads use one file.
    pub(super) is_shared: bool,
    pub(super) programs: Vec<Program>,
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    let pm = |threads, request_bytes, read_share| Program {
        name: "persistent",
        memory: MemoryKind::Persistent,
        threads,
        request_bytes,
        read_share,
    };
    let dram = |threads, request_bytes, read_share| Program {
        name: "dram",
        memory: MemoryKind::Dram,
        ..pm(threads, request_bytes, read_share)
    };
    let mut add = |profile: &'static str, nodes: usize, dilation, place, programs: Vec<Program>| {
        let words: Vec<String> = programs.iter().map(Program::words).collect();
        let place_words = match (nodes, place) {
            (1, _) => "",
            (_, Place::First) => ", data on one",
            (_, Place::Striped) => ", striped",
        };
        let plural = if nodes == 1 { "" } else { "s" };
        let name = format!(
            "{profile}, {nodes} node{plural}{place_words}: {}",
            words.join(" beside ")
        );
        all.push(Scenario {
            name,
            profile,
            nodes,
            dilation,
            place,
            delegates: None,
            is_shared: false,
            programs,
        });
    };
    let one = Place::First;
    for threads in [1, 4, 14] {
        add("optane-1s", 1, 64.0, one, vec![pm(threads, 4 * KIB, 0.0)]);
    }
    for threads in [1, 7, 14] {
        add("optane-1s", 1, 128.0, one, vec![pm(threads, 4 * KIB, 1.0)]);
    }
    add("optane-1s", 1, 64.0, one, vec![pm(4, 64 * KIB, 0.0)]);
    add("optane-1s", 1, 64.0, one, vec![pm(4, 64 * KIB, 1.0)]);
    add("optane-1s", 1, 128.0, one, vec![pm(8, 4 * KIB, 0.5)]);
    add("optane-1s-3i", 1, 128.0, one, vec![pm(14, 4 * KIB, 0.0)]);
    add("optane-1s", 1, 256.0, one, vec![dram(1, 4 * KIB, 1.0)]);
    add("optane-1s", 1, 512.0, one, vec![dram(8, 4 * KIB, 0.0)]);
    for writers in [2, 14] {
        let both = vec![pm(writers, 4 * KIB, 0.0), dram(2, 4 * KIB, 1.0)];
        add("optane-1s", 1, 128.0, one, both);
    }
    let both = vec![pm(14, 4 * KIB, 1.0), dram(2, 4 * KIB, 1.0)];
    add("optane-1s", 1, 256.0, one, both);
    let both = vec![pm(14, 4 * KIB, 0.0), dram(2, 4 * KIB, 1.0)];
    add("optane-1s-dimc", 1, 128.0, one, both);
    add("odin-8s", 1, 16.0, one, vec![pm(12, 2 * MIB, 0.0)]);
    add("odin-8s", 1, 512.0, one, vec![pm(12, 4 * KIB, 1.0)]);
    add("odin-8s", 2, 64.0, one, vec![pm(8, 64 * KIB, 0.0)]);
    add("odin-8s", 2, 256.0, one, vec![pm(8, 64 * KIB, 1.0)]);
    add(
        "odin-8s",
        4,
        256.0,
        Place::Striped,
        vec![pm(16, 2 * MIB, 0.0)],
    );
    add(
        "odin-8s",
        8,
        256.0,
        Place::Striped,
        vec![pm(32, 2 * MIB, 0.0)],
    );
    add(
        "odin-8s",
        8,
        256.0,
        Place::Striped,
        vec![pm(32, 2 * MIB, 1.0)],
    );
    add("odin-8s", 8, 64.0, one, vec![pm(32, 64 * KIB, 0.0)]);
    for (delegates, threads) in [1, 4, 12]
        .into_iter()
        .flat_map(|delegates| [1, 8, 32].map(|threads| (delegates, threads)))
    {
        for (read_share, is_shared) in [(0.0, false), (0.0, true), (1.0, false), (1.0, true)] {
            all.push(delegated(
                delegates,
                is_shared,
                pm(threads, 2 * MIB, read_share),
            ));
        }
    }
    all
}

/// A program on stripes over eight nodes that delegates access.
fn delegated(delegates: u8, is_shared: bool, program: Program) -> Scenario {
    let of = if is_shared { ", one file" } else { "" };
    let plural = if delegates == 1 { "" } else { "s" };
    Scenario {
        name: format!(
            "odin-8s, 8 nodes, striped, {delegates} delegate{plural}{of}: {}",
            program.words()
        ),
        profile: "odin-8s",
        nodes: 8,
        // The fewer delegates, the less the host must copy.
        dilation: match delegates {
            1 => 64.0,
            2..=4 => 256.0,
            _ => 1024.0,
        },
        place: Place::Striped,
        delegates: NonZeroU8::new(delegates),
        is_shared,
        programs: vec![program],
    }
}

impl Program {
    fn words(&self) -> String {
        let what = match self.read_share {
            1.0 if self.threads == 1 => "reader".to_owned(),
            0.0 if self.threads == 1 => "writer".to_owned(),
            1.0 => "readers".to_owned(),
            0.0 => "writers".to_owned(),
            share => format!("threads, {:.0} % reads", share * 100.0),
        };
        let size = match self.request_bytes {
            bytes if bytes >= MIB => format!("{} MiB", bytes / MIB),
            bytes => format!("{} KiB", bytes / KIB),
        };
        let memory = match self.memory {
            MemoryKind::Dram => " on DRAM",
            _ => "",
        };
        format!("{} {what} of {size}{memory}", self.threads)
    }

    /// Bytes of each thread's file: beyond what the caches of the machine hold in all, as far as there is room.
    fn file_bytes(&self) -> u64 {
        let least = self.request_bytes.max(8 * MIB);
        (MAX_DATA_BYTES / 2 / self.threads as u64 / least * least).clamp(least, 128 * MIB)
    }
}

impl Scenario {
    /// The machine as its profile describes it.
    pub(super) fn described(&self) -> Result<Machine> {
        emulated::described(self.profile, Some(self.nodes))
    }

    /// The same, emulated.
    pub(super) fn machine(&self) -> Result<Machine> {
        emulated::machine(self.profile, Some(self.nodes), self.dilation)
    }

    pub(super) fn volumes(&self) -> Vec<VolumeSetup> {
        let setup = |program: &Program| VolumeSetup {
            memory: Some(program.memory),
            // Copy-on-write needs room for what is being replaced.
            pool_bytes: self.pool_bytes(program),
            allocation: match self.place {
                Place::First => AllocationPolicy::Pool(0),
                Place::Striped => AllocationPolicy::Striped,
            },
        };
        self.programs.iter().map(setup).collect()
    }

    fn pool_bytes(&self, program: &Program) -> u64 {
        let data = program.file_bytes() * program.threads as u64;
        let share = match self.place {
            Place::First => data,
            Place::Striped => data / self.nodes as u64,
        };
        (share + share / 4 + 64 * MIB).next_multiple_of(2 * MIB)
    }

    /// One program's files and threads.
    pub(super) fn jobs<'r>(&self, index: usize, run: &'r EmulatedRun<'_>) -> Jobs<'r> {
        let program = &self.programs[index];
        Jobs {
            directory: run.directory(index),
            count: program.threads,
            file_bytes: program.file_bytes(),
            is_shared: self.is_shared,
        }
    }

    /// The measured program.
    pub(super) fn call(&self, index: usize, run: &EmulatedRun<'_>) -> Call {
        let program = &self.programs[index];
        self.jobs(index, run).endless([
            format!("--bs={}", program.request_bytes),
            "--rw=randrw".to_owned(),
            format!("--rwmixread={:.0}", program.read_share * 100.0),
            "--norandommap".to_owned(),
            "--randrepeat=0".to_owned(),
        ])
    }

    /// The same for the model. Where threads run, nobody says: they spread over the nodes.
    pub(super) fn workload(&self, think_ns: &[f64]) -> Workload {
        let files = self.programs.iter().map(|program| FileGroup {
            name: program.name.to_owned(),
            count: if self.is_shared {
                1
            } else {
                program.threads as u64
            },
            bytes: if self.is_shared {
                program.file_bytes() * program.threads as u64
            } else {
                program.file_bytes()
            },
            node: (self.place == Place::First).then_some(NodeId(0)),
            nodes: Vec::new(),
            in_turn: false,
            medium: match program.memory {
                MemoryKind::Dram => MediumKind::Memory,
                _ => MediumKind::Storage,
            },
            layout: match self.place {
                Place::First => egeria_sim::Layout::Local,
                Place::Striped => egeria_sim::Layout::Striped,
            },
        });
        let threads = self.programs.iter().zip(think_ns);
        let threads = threads.map(|(program, think_ns)| ThreadGroup {
            name: program.name.to_owned(),
            count: program.threads as u64,
            files: program.name.to_owned(),
            pinned: true,
            phases: vec![Phase {
                read_share: program.read_share,
                request_bytes: self.access_bytes(program),
                // What a program computes between two requests counts once, however many accesses a request is.
                think_ns: think_ns * self.access_bytes(program) as f64
                    / program.request_bytes as f64,
                pattern: if program.read_share > 0.0 {
                    Pattern::Random
                } else {
                    // New data is written one behind the other, wherever in the file it belongs.
                    Pattern::Sequential
                },
                ..Phase::default()
            }],
            ..ThreadGroup::default()
        });
        Workload {
            name: "emulated".to_owned(),
            seconds: 2.0,
            warm_up_seconds: 1.0,
            files: files.collect(),
            threads: threads.collect(),
        }
    }

    /// Bytes of an access in the model: a striped request is one of each node, unless delegates divide it.
    fn access_bytes(&self, program: &Program) -> u64 {
        match (self.place, self.delegates) {
            (Place::Striped, None) => program.request_bytes / self.nodes as u64,
            _ => program.request_bytes,
        }
    }

    /// What is delegated on the volume.
    pub(super) fn rule(&self) -> Option<DelegationRule> {
        self.delegates.map(|delegates| DelegationRule {
            delegates,
            min_read_bytes: 1,
            min_write_bytes: 1,
            always: true,
        })
    }

    /// What the model's planner does: nothing, but what is set by hand on the volume.
    pub(super) fn planner(&self) -> Settings {
        let mut settings = System::Off.settings();
        if let Some(delegates) = self.delegates {
            settings.stages.delegation = true;
            settings.delegation.always = true;
            settings.delegation.min_read_bytes = 1;
            settings.delegation.min_write_bytes = 1;
            settings.delegation.delegates_per_node = delegates.get().into();
        }
        settings
    }

    pub(super) fn allocation_in_model(&self) -> Allocation {
        match self.place {
            Place::First => Allocation::Node(0),
            Place::Striped => Allocation::Striped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_computes_as_long_for_a_request_in_the_model() {
        for scenario in scenarios() {
            let workload = scenario.workload(&vec![800.0; scenario.programs.len()]);
            for (program, threads) in scenario.programs.iter().zip(&workload.threads) {
                let phase = &threads.phases[0];
                let accesses = program.request_bytes as f64 / phase.request_bytes as f64;
                let name = &scenario.name;
                assert!((phase.think_ns * accesses - 800.0).abs() < 1e-9, "{name}");
            }
        }
    }
}
