//! Files and nodes that a command line names, for commands that move page cache.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use egeria_machine::{Machine, NodeId, turns};
use egeria_pages::tree;
use egeria_pages::warm::Plan;

use crate::machine_choice::MachineArguments;
use crate::served;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::signals::Signals;

/// How long work on files may go on after a signal: the file system of a named file may never answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Where pages are to be.
#[derive(Args, Debug)]
pub(super) struct Destination {
    /// To the memory of this node, or of several in turn by 2 MiB, as 0,1
    #[arg(long, value_name = "N", value_delimiter = ',')]
    node: Vec<u16>,
    /// To all nodes by 2 MiB: in turn, or as the machine file's bandwidths are
    #[arg(long)]
    spread: bool,
    /// Move pages that other processes have mapped, too (root, or CAP_SYS_NICE)
    #[arg(long)]
    pub(super) mapped: bool,
}

impl Destination {
    /// Whether any of it is given.
    pub(super) fn is_named(&self) -> bool {
        !self.node.is_empty() || self.spread || self.mapped
    }

    /// As typed.
    pub(super) fn words(&self) -> Vec<String> {
        let nodes: Vec<String> = self.node.iter().map(u16::to_string).collect();
        let flag = |is_set: bool, name: &str| is_set.then(|| name.to_owned());
        let node = (!nodes.is_empty()).then(|| ["--node".to_owned(), nodes.join(",")]);
        let flags = [flag(self.spread, "--spread"), flag(self.mapped, "--mapped")];
        node.into_iter()
            .flatten()
            .chain(flags.into_iter().flatten())
            .collect()
    }

    /// The nodes that are asked for, or all with memory; a node with more bandwidth comes more often, where that is known.
    pub(super) fn nodes(&self, machine: &Machine) -> Outcome<Vec<NodeId>> {
        let has_memory = |node: &&egeria_machine::Node| node.memory_bytes > 0;
        let with_memory = machine.nodes.iter().filter(has_memory).map(|node| node.id);
        let with_memory: Vec<NodeId> = with_memory.collect();
        if self.spread {
            let weights = MachineArguments::default().resolve()?.weights();
            let weights =
                weights.filter(|weights| weights.iter().map(|(id, _)| *id).eq(with_memory.clone()));
            return Ok(weights.map_or(with_memory, |weights| turns(&weights)));
        }
        let mut nodes: Vec<NodeId> = self.node.iter().copied().map(NodeId).collect();
        nodes.sort_unstable();
        nodes.dedup();
        match nodes.iter().find(|node| !with_memory.contains(node)) {
            None => Ok(nodes),
            Some(wrong) => Err(Failure::Usage(format!(
                "this machine has no memory at node {}; choose of {}, see `egeria machine`",
                wrong.0,
                with_memory
                    .iter()
                    .map(|node| node.0.to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            ))),
        }
    }
}

/// Adds a file, or those below a directory; `doing` is what the command does.
pub(super) fn add(plan: &mut Plan, path: &Path, doing: &str, signals: &Signals) -> Outcome {
    let failed = |path: &Path, error: &std::io::Error| {
        let hint = match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => {
                "only its owner, who may write it and root can: run as root"
            }
            Some(_) => "check the path",
            None => "name files that the kernel caches",
        };
        Failure::io(doing, path, error, hint)
    };
    let metadata = std::fs::metadata(path).map_err(|error| failed(path, &error))?;
    if is_on_volume(path) {
        return Err(Failure::new(format!(
            "{} is on a volume of Egeria, whose pools are its memory; see `egeria where` for its nodes",
            path.display()
        )));
    }
    if !metadata.is_dir() {
        return plan.add(path).map_err(|error| failed(path, &error));
    }
    let mut result = Ok(());
    let walked = tree::walk(path, |file| {
        result = signals
            .check()
            .and_then(|()| plan.add(file).map_err(|error| failed(file, &error)));
        match &result {
            Ok(()) => Ok(()),
            Err(_) => Err(std::io::Error::other("ended")),
        }
    });
    result?;
    let walked = walked.map_err(|error| failed(path, &error))?;
    if walked.is_cut {
        Err(Failure::new(format!(
            "{} has more than {} entries; name directories below it",
            path.display(),
            tree::MAX_ENTRIES
        )))
    } else {
        Ok(())
    }
}

/// Whether a path is on a mount of Egeria; it is found, not opened.
fn is_on_volume(path: &Path) -> bool {
    let mut options = std::fs::File::options();
    let found = options.read(true).custom_flags(libc::O_PATH).open(path);
    let mount = found
        .ok()
        .and_then(|found| served::of_open(&found).ok().flatten());
    mount.is_some()
}
