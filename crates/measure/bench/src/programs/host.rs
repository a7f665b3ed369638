//! What measurements run on: programs, machine, host.

use std::process::Command;
use std::time::Duration;

use egeria_machine::Machine;
use procfs::{CpuInfo, Current};
use serde::Serialize;

use egeria_harness::process::{Cancel, run};
use egeria_harness::program::find_in_path;
use egeria_harness::{Error, Result};

/// The machine the volume spanned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineSummary {
    /// Its name; of an emulated machine the profile's.
    pub name: String,
    /// Whether its nodes are declared rather than real.
    pub emulated: bool,
    /// Host time per machine time while emulated timing is on.
    pub dilation: Option<f64>,
    /// Nodes, each with a pool.
    pub nodes: usize,
    /// What a node is, for people.
    pub node: String,
}

/// Fails with all of these programs that are missing in one line; each has the name of its Debian package with it.
pub(crate) fn require(programs: &[(&str, &str)]) -> Result<()> {
    let is_missing = |(program, _): &&(&str, &str)| find_in_path(program).is_none();
    let missing: Vec<_> = programs.iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    Err(Error::MissingPrograms {
        programs: programs.join(", "),
        packages: packages.join(" "),
    })
}

/// The machine for the report's head.
pub(crate) fn summary(machine: &Machine) -> MachineSummary {
    let declared = machine.emulated.as_ref();
    let node = declared
        .and_then(|emulated| emulated.nodes.first())
        .map(|node| {
            let gigabytes = |bytes_s: f64| bytes_s / 1e9;
            let (read, write) = (gigabytes(node.read_bytes_s), gigabytes(node.write_bytes_s));
            let (cores, read_ns, write_ns) =
                (node.cores, node.read_latency_ns, node.write_latency_ns);
            format!(
                "{cores} cores, {read} GB/s read, {write} GB/s write, {read_ns} and {write_ns} ns"
            )
        });
    let cpus = machine
        .nodes
        .iter()
        .map(|node| node.cpus.len())
        .max()
        .unwrap_or(0);
    MachineSummary {
        name: machine.name.clone(),
        emulated: declared.is_some(),
        dilation: declared
            .filter(|emulated| emulated.timing)
            .map(|emulated| emulated.dilation),
        nodes: machine.nodes.len(),
        node: node.unwrap_or_else(|| format!("{cpus} CPUs")),
    }
}

/// Processor, CPUs and kernel.
pub(crate) fn host() -> String {
    let processors = CpuInfo::current().ok();
    let model = processors.as_ref().and_then(|all| all.model_name(0));
    let model = model.unwrap_or("unknown processor");
    let kernel = rustix::system::uname();
    let kernel = kernel.release().to_string_lossy();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cpus} CPUs, Linux {kernel}")
}

/// First lines of what the programs say of themselves.
pub(crate) fn versions(cancel: Cancel<'_>) -> Vec<String> {
    let says = |program: &str, argument: &str| {
        let mut command = Command::new(program);
        command.arg(argument).env_remove("LD_PRELOAD");
        let finished = run(&mut command, Duration::from_secs(5), cancel).ok()?;
        let line = finished
            .stdout
            .lines()
            .find(|line| !line.trim().is_empty())?
            .trim()
            .to_owned();
        Some(
            line.split_whitespace()
                .take(4)
                .collect::<Vec<_>>()
                .join(" "),
        )
    };
    let sqlite = says("sqlite3", "--version")
        .map(|line| format!("sqlite {}", line.split(' ').next().unwrap_or("")));
    let rocksdb =
        says("db_bench", "--version").map(|line| line.replace("db_bench version", "RocksDB"));
    [
        says("fio", "--version"),
        rocksdb,
        sqlite,
        says("git", "--version"),
        says("tar", "--version"),
        says("cp", "--version"),
    ]
    .into_iter()
    .flatten()
    .collect()
}
