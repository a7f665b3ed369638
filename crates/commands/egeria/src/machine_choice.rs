//! The `--machine`, `--sysfs-root` and `--alloc` arguments, shared by several commands.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use egeria_engine::{AllocationPolicy, AttachOptions, Volume};
use egeria_machine::{Machine, MemoryKind, NamedPath, Source};
use serde::{Deserialize, Serialize};

use egeria_cli::failure::{Failure, Outcome};

/// Which machine to stand on.
#[derive(Args, Clone, Debug, Default)]
pub struct MachineArguments {
    /// Machine file (TOML) or profile (optane-2s, optane-1s, odin-8s …) instead of this machine
    #[arg(long, value_name = "FILE|PROFILE")]
    pub machine: Option<String>,
    /// Emulate that machine, at so much time here per time on it (1 to 65536); for one that is emulated anyway, this time
    #[arg(long, value_name = "N", requires = "machine")]
    pub dilation: Option<f64>,
}

/// What of an emulated machine the pools of a volume lie on.
#[derive(Args, Clone, Debug, Default)]
pub struct MemoryArguments {
    /// Kind of the emulated machine's memory that the pools lie on [default: persistent, or what its nodes have]
    #[arg(long, value_name = "dram|persistent|expander", requires = "machine", value_parser = memory_kind)]
    pub memory: Option<MemoryKind>,
    /// Let volumes that are attached with the same machine and this name meet on one emulated machine
    #[arg(long, value_name = "NAME", requires = "machine")]
    pub share_machine: Option<String>,
}

fn memory_kind(text: &str) -> Result<MemoryKind, String> {
    let kinds = [
        MemoryKind::Dram,
        MemoryKind::Persistent,
        MemoryKind::Expander,
    ];
    let found = kinds.into_iter().find(|kind| kind.name() == text);
    found
        .ok_or_else(|| format!("{text:?} is no kind of memory; write dram, persistent or expander"))
}

/// No machine file is nearly as large.
const MAX_MACHINE_FILE_BYTES: u64 = 4 << 20;
pub use egeria_machine::CALIBRATED;

impl MachineArguments {
    /// The machine meant: without a name this one, as calibrated where root has had that done.
    pub fn resolve(&self) -> Outcome<Machine> {
        let machine = Machine::resolve(self.machine.as_deref(), None)?;
        if let Some(dilation) = self.dilation {
            return Ok(machine.emulate(dilation)?.standing_here()?);
        }
        Ok(match self.machine {
            Some(_) => machine,
            None => as_calibrated(machine, Path::new(CALIBRATED)),
        })
    }

    /// The machine for a session: the running machine is the session's own matter.
    pub fn declared(&self) -> Outcome<Option<Machine>> {
        self.machine.is_some().then(|| self.resolve()).transpose()
    }

    /// Refuses `--machine` for a session made by another process: the machine is chosen when a session is made.
    pub fn check_made(&self, volume: &Volume) -> Outcome {
        if self.machine.is_none() || volume.made_session() {
            return Ok(());
        }
        Err(Failure::new(
            "--machine is for who attaches the volume first, and it is attached already; leave --machine out, or unmount the volume first",
        ))
    }
}

/// The machine file at `path`, where it is there, may be believed and describes the present machine; else the present
/// machine, with a warning that says why.
fn as_calibrated(mut present: Machine, path: &Path) -> Machine {
    match calibrated(&present, path) {
        Ok(Some(machine)) => machine,
        Ok(None) => present,
        Err(cause) => {
            let warning = format!(
                "{} is not used: {cause}; write it anew with `egeria machine calibrate --output {}`",
                path.display(),
                path.display()
            );
            present.warnings.push(warning);
            present
        }
    }
}

fn calibrated(present: &Machine, path: &Path) -> Result<Option<Machine>, String> {
    let text = egeria_files::read_trusted(path, MAX_MACHINE_FILE_BYTES)
        .map_err(|error| error.to_string())?;
    let Some(text) = text else {
        return Ok(None);
    };
    let machine = Machine::from_toml(&text, path).map_err(|error| error.to_string())?;
    let nodes = |machine: &Machine| -> Vec<_> {
        let nodes = machine.nodes.iter();
        nodes.map(|node| (node.id, node.cpus.clone())).collect()
    };
    if machine.is_emulated() || nodes(&machine) != nodes(present) {
        return Err("it describes other nodes or CPUs than this machine has".to_owned());
    }
    Ok(Some(machine))
}

/// Where new data goes, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// On the node of the writing thread.
    Local,
    /// On random nodes.
    Random,
    /// In stripes over all nodes.
    Striped,
    /// All on this node.
    Node(u16),
}

impl Allocation {
    /// Reads `local`, `random`, `striped` or `node=N`.
    pub fn parse(text: &str) -> Result<Allocation, String> {
        let node = |number: &str| number.parse().ok().map(Allocation::Node);
        match text {
            "local" => Some(Allocation::Local),
            "random" => Some(Allocation::Random),
            "striped" => Some(Allocation::Striped),
            _ => text.strip_prefix("node=").and_then(node),
        }
        .ok_or_else(|| format!("{text:?} is no allocation; write local, random, striped or node=N"))
    }

    /// As typed.
    pub fn name(self) -> String {
        match self {
            Allocation::Local => "local".to_owned(),
            Allocation::Random => "random".to_owned(),
            Allocation::Striped => "striped".to_owned(),
            Allocation::Node(node) => format!("node={node}"),
        }
    }

    /// What a session with pools on these nodes has in force.
    pub fn of(policy: AllocationPolicy, nodes: &[u16]) -> Allocation {
        match policy {
            AllocationPolicy::Local => Allocation::Local,
            AllocationPolicy::Random => Allocation::Random,
            AllocationPolicy::Striped => Allocation::Striped,
            AllocationPolicy::Pool(pool) => {
                Allocation::Node(nodes.get(usize::from(pool)).copied().unwrap_or(0))
            }
        }
    }

    /// The engine's word for it.
    fn policy(self, nodes: &[u16]) -> Outcome<AllocationPolicy> {
        match self {
            Allocation::Local => Ok(AllocationPolicy::Local),
            Allocation::Random => Ok(AllocationPolicy::Random),
            Allocation::Striped => Ok(AllocationPolicy::Striped),
            Allocation::Node(node) => match nodes.iter().position(|&other| other == node) {
                Some(index) => Ok(AllocationPolicy::Pool(index as u8)),
                None => Err(Failure::new(format!(
                    "the volume has no pool on node {node}; its pools are on {}",
                    node_list(nodes)
                ))),
            },
        }
    }

    /// Makes it the session's, for all processes.
    pub fn apply(self, volume: &Volume) -> Outcome {
        volume.set_allocation(self.policy(&volume.pool_nodes())?);
        Ok(())
    }

    /// Makes it the session's, until the result is dropped.
    pub fn apply_for_a_while(self, volume: &Arc<Volume>) -> Outcome<BorrowedAllocation> {
        let before = volume.allocation();
        self.apply(volume)?;
        Ok(BorrowedAllocation {
            volume: volume.clone(),
            before,
            ours: volume.allocation(),
        })
    }
}

/// A changed allocation of a session that others use too. Dropping it restores the former one, unless another process
/// has changed it since.
pub struct BorrowedAllocation {
    volume: Arc<Volume>,
    before: AllocationPolicy,
    ours: AllocationPolicy,
}

impl Drop for BorrowedAllocation {
    fn drop(&mut self) {
        if self.volume.allocation() == self.ours {
            self.volume.set_allocation(self.before);
        }
    }
}

fn node_list(nodes: &[u16]) -> String {
    let mut nodes: Vec<String> = nodes.iter().map(u16::to_string).collect();
    nodes.dedup();
    format!(
        "node{} {}",
        if nodes.len() == 1 { "" } else { "s" },
        nodes.join(", ")
    )
}

/// The options for a new session.
pub fn attach_options(machine: Option<Machine>, memory: &MemoryArguments) -> AttachOptions {
    AttachOptions {
        machine,
        share_machine: memory.share_machine.clone(),
        memory: memory.memory,
        ..AttachOptions::default()
    }
}

/// The machine as reports name it.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct MachineLabel {
    /// Its name.
    pub name: String,
    /// Figures are emulated.
    pub emulated: bool,
    /// The profile's name, when it is one.
    pub profile: Option<String>,
    /// The machine file, when it is one.
    pub file: Option<NamedPath>,
}

impl MachineLabel {
    /// Of this machine.
    pub fn of(machine: &Machine) -> MachineLabel {
        let (profile, file) = match &machine.source {
            Source::Profile(name) => (Some(name.clone()), None),
            Source::File(path) => (None, Some(path.clone())),
            Source::Sysfs(_) => (None, None),
        };
        MachineLabel {
            name: machine.name.clone(),
            emulated: machine.is_emulated(),
            profile,
            file,
        }
    }

    /// Of the machine a session runs on: the one its maker declared, or none.
    pub fn of_session(volume: &Volume, declared: Option<&Machine>) -> Option<MachineLabel> {
        let by_another = || {
            let emulated = volume.emulation().is_configured();
            emulated.then(MachineLabel::declared_by_another)
        };
        declared.map(MachineLabel::of).or_else(by_another)
    }

    /// A session knows what its machine does, not its name.
    fn declared_by_another() -> MachineLabel {
        MachineLabel {
            name: "as declared when the volume was attached".to_owned(),
            emulated: true,
            profile: None,
            file: None,
        }
    }

    /// `emulated (optane-2s)`, or nothing for a real machine.
    pub fn remark(&self) -> Option<String> {
        self.emulated
            .then(|| format!("emulated ({})", self.profile.as_ref().unwrap_or(&self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn measured(text: &str, mode: u32) -> Machine {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("machine.toml");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
        as_calibrated(Machine::detect().expect("this machine"), &path)
    }

    #[test]
    fn calibrated_file_replaces_what_the_kernel_says() {
        let text = Machine::detect().expect("this machine").to_toml();
        let machine = measured(&text, 0o644);
        assert!(matches!(machine.source, Source::File(_)), "{machine:?}");
        let missing = as_calibrated(
            Machine::detect().expect("it"),
            Path::new("/nonexistent/file"),
        );
        assert!(matches!(missing.source, Source::Sysfs(_)) && missing.warnings.is_empty());
    }

    #[test]
    fn file_of_another_machine_or_writer_is_not_used() {
        let text = Machine::detect().expect("this machine").to_toml();
        let other = Machine::profile("odin-8s").expect("a profile").to_toml();
        for (text, mode, cause) in [
            (text.as_str(), 0o664, "other users can write it"),
            (&other, 0o644, "other nodes or CPUs"),
            ("nonsense", 0o644, "machine.toml"),
        ] {
            let machine = measured(text, mode);
            assert!(matches!(machine.source, Source::Sysfs(_)));
            let warning = machine.warnings.last().expect("a warning");
            assert!(
                warning.contains(cause) && warning.contains("calibrate"),
                "{warning}"
            );
        }
    }
}
