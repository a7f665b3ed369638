//! filebench on NThread's machine: Fig. 6.

use egeria_machine::NodeId;
use egeria_sim::Workload;

use super::file_system::{Metadata, Writes};
use super::stage::{Stage, System};
use crate::error::Result;
use crate::results::Results;

const FILEBENCH: &str = include_str!("../../workloads/filebench.toml");
/// NThread §V-A and §V-D: all cores of a Xeon Gold 5215.
pub(super) const CORES: u32 = 10;
/// Files of a set (Table III).
const FILES: u64 = 100_000;

/// A row of Table III.
struct Personality {
    name: &'static str,
    file_bytes: u64,
    threads: u64,
    read_share: f64,
    /// Operations of a loop in filebench's personality file, and those of them that move data.
    operations: (f64, f64),
    /// fsyncs of a loop.
    fsyncs: f64,
    /// Files created and deleted in a loop, and how many their directory has: all of the set where the personality's
    /// directories are a million files wide (webproxy, varmail), else its 20.
    created: (f64, u64),
}

const TABLE_3: [Personality; 4] = [
    Personality {
        name: "fileserver",
        file_bytes: 128 << 10,
        threads: 50,
        read_share: 1.0 / 3.0,
        operations: (11.0, 3.0),
        fsyncs: 0.0,
        created: (1.0, 20),
    },
    Personality {
        name: "webserver",
        file_bytes: 16 << 10,
        threads: 100,
        read_share: 10.0 / 11.0,
        operations: (31.0, 11.0),
        fsyncs: 0.0,
        created: (0.0, 20),
    },
    Personality {
        name: "webproxy",
        file_bytes: 16 << 10,
        threads: 100,
        read_share: 5.0 / 6.0,
        operations: (19.0, 6.0),
        fsyncs: 0.0,
        created: (1.0, FILES),
    },
    Personality {
        name: "varmail",
        file_bytes: 16 << 10,
        threads: 16,
        read_share: 0.5,
        operations: (13.0, 4.0),
        fsyncs: 2.0,
        created: (1.0, FILES),
    },
];

impl Personality {
    fn metadata(&self) -> Metadata {
        let (_, with_data) = self.operations;
        let (created, directory_files) = self.created;
        Metadata {
            created: created / with_data,
            fsyncs: self.fsyncs / with_data,
            directory_files: directory_files as f64,
        }
    }
}

/// Their names: the groups of Fig. 6.
pub(crate) const PERSONALITIES: [&str; 4] = ["fileserver", "webserver", "webproxy", "varmail"];

/// One and two instances.
pub(super) fn figure_6(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = stage.optane(CORES)?;
    for personality in &TABLE_3 {
        let one = workload(stage, personality, 1)?;
        let two = workload(stage, personality, 2)?;
        for system in System::all() {
            let [one, two] = [&one, &two]
                .map(|workload| system.on(workload, Writes::New, personality.metadata()));
            let operations_s = stage.run(&machine, &one, &system)?.operations_s;
            results.set("6a", personality.name, system.name, operations_s);
            let operations_s = stage.run(&machine, &two, &system.for_two())?.operations_s;
            results.set("6b", personality.name, system.name, operations_s);
        }
    }
    Ok(())
}

/// The workload of `instances` instances, each with its files on a node of its own.
fn workload(stage: &Stage, personality: &Personality, instances: u16) -> Result<Workload> {
    let mut workload = stage.workload(FILEBENCH, "filebench.toml")?;
    let (operations, with_data) = personality.operations;
    let group = &mut workload.threads[0];
    group.count = personality.threads;
    let phase = &mut group.phases[0];
    phase.request_bytes = personality.file_bytes;
    phase.read_share = personality.read_share;
    phase.think_ns *= operations / with_data;
    workload.files[0].bytes = FILES * personality.file_bytes;
    for node in 1..instances {
        add_instance(&mut workload, node);
    }
    Ok(workload)
}

/// The first instance's groups once more, with data on this node.
pub(super) fn add_instance(workload: &mut Workload, node: u16) {
    let name = |name: &str| format!("{name} {node}");
    let first_files: Vec<_> = workload
        .files
        .iter()
        .filter(|files| !is_later(&files.name))
        .cloned()
        .collect();
    let first_threads: Vec<_> = workload
        .threads
        .iter()
        .filter(|group| !is_later(&group.name))
        .cloned()
        .collect();
    for mut files in first_files {
        files.name = name(&files.name);
        files.node = Some(NodeId(node));
        workload.files.push(files);
    }
    for mut group in first_threads {
        group.files = name(&group.files);
        group.name = name(&group.name);
        workload.threads.push(group);
    }
}

fn is_later(name: &str) -> bool {
    name.contains(' ')
}
