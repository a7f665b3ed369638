//! Machine files and sysfs trees.

use super::subject::{Case, Observations, Subject, one_line};
use super::text_mutator::mutate;
use super::workload::predict;
use egeria_machine::{CpuId, Machine, MachineError};
use egeria_policy::planner::System;
use egeria_sim::Workload;
use egeria_stats::rng::Rng;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Machine files to begin with, beside the profiles.
const FILES: [&str; 3] = [
    include_str!("../../fuzz/machine/emulated.toml"),
    include_str!("../../fuzz/machine/linked.toml"),
    include_str!("../../fuzz/machine/real.toml"),
];
/// Trees: a line per file, path and content.
const TREES: [&str; 2] = [
    include_str!("../../fuzz/machine/cxl.sysfs"),
    include_str!("../../fuzz/machine/two-node.sysfs"),
];
/// What the model is asked about every machine.
const WORKLOAD: &str = include_str!("../../fuzz/workload/beside.toml");
const WORDS: [&str; 20] = [
    "[[nodes]]\n",
    "id = ",
    "cpus = \"0-3\"\n",
    "distances = [",
    "memory_bytes = ",
    "[emulation]\n",
    "0-1023",
    "4294967295",
    "node",
    "latency_ns",
    "bandwidth",
    "name = ",
    "pmem",
    "\"0-3,5\"",
    "0-",
    "-",
    "1e9",
    "[[links]]\n",
    "[[nodes.memories]]\nkind = \"dram\"\n",
    "controller = ",
];

/// Machines from text.
pub(super) struct Machines {
    texts: Vec<String>,
    /// Where trees grow.
    directory: TempDir,
}

impl Machines {
    pub(super) fn new() -> Result<Machines, String> {
        let failed = |error: std::io::Error| format!("no room for trees: {error}");
        let profiles = Machine::profile_names().iter().map(|name| {
            let profile = Machine::profile(name).map_err(|error| error.to_string())?;
            Ok(profile.to_toml())
        });
        let mut texts: Vec<String> = profiles.collect::<Result<_, String>>()?;
        texts.extend(FILES.map(str::to_owned));
        let builder = &mut tempfile::Builder::new();
        let directory = builder.prefix("egeria-fuzz-").tempdir_in("/dev/shm");
        Ok(Machines {
            texts,
            directory: directory.map_err(failed)?,
        })
    }

    fn file(&self, sample: usize, case: &Case, observed: &mut Observations) -> Result<(), String> {
        let mut text = self.texts[sample].clone().into_bytes();
        for step in &case.mutation_seeds {
            mutate(&mut Rng::new(*step), &mut text, &WORDS);
        }
        let text = String::from_utf8_lossy(&text);
        observed.line(|| text.to_string());
        look_at(
            Machine::from_toml(&text, Path::new("machine.toml")),
            observed,
        )
    }

    fn tree(&self, tree: &str, case: &Case, observed: &mut Observations) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot grow a tree: {error}");
        let root = self.directory.path().join("sys");
        let mut files: Vec<(String, Vec<u8>)> = tree.lines().filter_map(leaf).collect();
        for step in &case.mutation_seeds {
            change_tree(&mut Rng::new(*step), &mut files);
        }
        if root.exists() {
            fs::remove_dir_all(&root).map_err(failed)?;
        }
        for (path, content) in &files {
            let place = root.join(path);
            let above = place.parent().ok_or("a file without directory")?;
            fs::create_dir_all(above).map_err(failed)?;
            observed.line(|| format!("{path}: {}", String::from_utf8_lossy(content)));
            fs::write(&place, content).map_err(failed)?;
        }
        look_at(Machine::from_sysfs(&root), observed)
    }
}

fn leaf(line: &str) -> Option<(String, Vec<u8>)> {
    let (path, content) = line.split_once(": ")?;
    let content = content.replace("\\n", "\n") + "\n";
    Some((path.to_owned(), content.into_bytes()))
}

fn change_tree(rng: &mut Rng, files: &mut Vec<(String, Vec<u8>)>) {
    if files.is_empty() {
        return;
    }
    let place = rng.index(files.len());
    match rng.below(6) {
        0 => drop(files.remove(place)),
        1 => {
            // Another node or CPU.
            let mut path = files[place].0.clone().into_bytes();
            let digits: Vec<usize> = (0..path.len())
                .filter(|at| path[*at].is_ascii_digit())
                .collect();
            let Some(&at) = rng.choose(&digits) else {
                return;
            };
            let number = rng.below(3000).to_string();
            path.splice(at..=at, number.into_bytes());
            let content = files[place].1.clone();
            files.push((String::from_utf8_lossy(&path).into_owned(), content));
        }
        _ => mutate(rng, &mut files[place].1, &WORDS),
    }
}

/// Whatever a machine is asked.
fn look_at(
    machine: Result<Machine, MachineError>,
    observed: &mut Observations,
) -> Result<(), String> {
    let machine = match machine {
        Ok(machine) => machine,
        Err(error) => {
            observed.record(&error.to_string());
            return one_line(&error.to_string());
        }
    };
    observed.record("a machine");
    let (picture, table) = (machine.picture(), machine.table());
    std::hint::black_box((picture, table));
    let paths = machine
        .paths()
        .map_err(|error| format!("accepted, and then: {error}"))?;
    std::hint::black_box(paths);
    let text = machine.to_toml();
    let again = Machine::from_toml(&text, Path::new("again.toml"));
    let again =
        again.map_err(|error| format!("its own description is refused: {error}\n{text}"))?;
    if again.to_toml() != text {
        return Err(format!("read again it is another machine:\n{text}"));
    }
    for from in &machine.nodes {
        machine.core_count(from);
        machine.emulated_node(from.id);
        for to in &machine.nodes {
            machine.distance(from.id, to.id);
        }
    }
    let cpus: Vec<CpuId> = (0..4).map(CpuId).collect();
    std::hint::black_box(machine.clone().stand_on_cpus(&cpus));
    let workload = Workload::from_toml(WORKLOAD, "workload.toml");
    let workload = workload.map_err(|error| error.to_string())?;
    predict(&machine, workload, System::All, observed)
}

impl Subject for Machines {
    fn samples(&self) -> usize {
        self.texts.len() + TREES.len()
    }

    fn attempt(&mut self, case: &Case, observed: &mut Observations) -> Result<(), String> {
        let sample = case.sample as usize % self.samples();
        match sample.checked_sub(self.texts.len()) {
            None => self.file(sample, case, observed),
            Some(tree) => self.tree(TREES[tree], case, observed),
        }
    }
}
