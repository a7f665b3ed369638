//! `egeria weights`: the kernel's weights of nodes for memory that programs spread, from what memories give.

mod kept;

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use egeria_machine::{CALIBRATED, KERNEL_WEIGHTS, KernelWeights, Machine, NodeId};
use serde::Serialize;

use crate::machine_choice::MachineArguments;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};
use kept::Kept;

/// Arguments of `egeria weights`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria weights
  sudo egeria weights set
  sudo egeria weights set --from dual-socket.toml
  sudo egeria weights restore

The kernel uses weights for new memory of programs with the policy weighted
interleave (Linux 6.9); what is there stays. `set` keeps what was there before,
so that `restore` works after a crash, too. Weights end with the next boot.")]
pub struct Arguments {
    /// Show them, set those that follow from bandwidths, or restore what was there
    #[arg(value_enum, default_value_t = Action::Show)]
    action: Action,
    /// Take bandwidths from this machine file or profile [default: as measured]
    #[arg(long, value_name = "FILE|PROFILE")]
    from: Option<String>,
    /// Use `sys` and `proc` below this directory instead of /
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/",
        hide_default_value = true
    )]
    sysfs_root: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Action {
    Show,
    Set,
    Restore,
}

#[derive(Serialize)]
struct Document {
    /// Whether firmware chooses; `null` before Linux 6.16, or where the kernel has no weights.
    auto: Option<bool>,
    /// What was there before can be restored.
    can_restore: bool,
    nodes: Vec<Node>,
}

#[derive(Serialize)]
struct Node {
    node: NodeId,
    /// The kernel's weight.
    kernel: Option<u8>,
    /// The weight that follows from bandwidths.
    proposed: Option<u8>,
}

/// Shows, sets or restores.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let root = &arguments.sysfs_root;
    match arguments.action {
        Action::Show => {}
        Action::Set => set(root, &machine(arguments)?)?,
        Action::Restore => restore(root)?,
    }
    let machine = machine(arguments)?;
    format.print(&document(root, &machine), human)?;
    Ok(())
}

/// Where bandwidths come from.
fn machine(arguments: &Arguments) -> Outcome<Machine> {
    let root = &arguments.sysfs_root;
    match &arguments.from {
        Some(from) => Ok(Machine::resolve(Some(from), Some(root))?),
        None if root == Path::new("/") => MachineArguments::default().resolve(),
        None => Ok(Machine::from_sysfs(root)?),
    }
}

fn set(root: &Path, machine: &Machine) -> Outcome {
    let now = read(root)?;
    let wanted = machine.weights().ok_or_else(|| {
        Failure::new(format!(
            "what the memory of each node gives is not known; egeria machine calibrate --output {CALIBRATED}, or --from FILE"
        ))
    })?;
    let is_known = |id: &NodeId| now.nodes.iter().any(|(node, _)| node == id);
    if let Some((unknown, _)) = wanted.iter().find(|(id, _)| !is_known(id)) {
        return Err(Failure::new(format!(
            "the kernel has no weight of node {}; describe this machine, see `egeria machine`",
            unknown.0
        )));
    }
    let kept = Kept::keep(root, &now)?;
    let written = wanted
        .iter()
        .try_for_each(|(node, weight)| write_weight(root, *node, *weight));
    if written.is_err() {
        // As it was, as far as that is possible.
        let _ = put_back(root, &kept);
    }
    written
}

fn restore(root: &Path) -> Outcome {
    read(root)?;
    let kept = Kept::find(root)?;
    let kept = kept.ok_or_else(|| {
        Failure::new(
            "nothing is kept of weights since this machine started; there is nothing to restore",
        )
    })?;
    put_back(root, &kept)?;
    Kept::forget()
}

fn put_back(root: &Path, kept: &Kept) -> Outcome {
    if kept.is_auto == Some(true) {
        return write(&root.join(KERNEL_WEIGHTS).join("auto"), "true");
    }
    let mut nodes = kept.nodes.iter();
    nodes.try_for_each(|(node, weight)| write_weight(root, *node, *weight))
}

fn read(root: &Path) -> Outcome<KernelWeights> {
    KernelWeights::read(root).ok_or_else(|| {
        Failure::new(
            "this kernel has no weights of nodes (Linux 6.9); `warm --spread` and `move --spread` need none",
        )
    })
}

fn write_weight(root: &Path, node: NodeId, weight: u8) -> Outcome {
    let path = root.join(KERNEL_WEIGHTS).join(format!("node{}", node.0));
    write(&path, &weight.to_string())
}

fn write(path: &Path, text: &str) -> Outcome {
    // Not created: what is not there the kernel does not have.
    let file = std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path);
    let written = file.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
    let hint = "run it as root, and outside of containers";
    written.map_err(|error| Failure::io("writing", path, &error, hint))
}

fn document(root: &Path, machine: &Machine) -> Document {
    let kernel = KernelWeights::read(root);
    let proposed = machine.weights().unwrap_or_default();
    let of = |weights: &[(NodeId, u8)], id: NodeId| {
        let mut weights = weights.iter();
        weights
            .find(|(node, _)| *node == id)
            .map(|(_, weight)| *weight)
    };
    let known = kernel.as_ref().map_or(&[][..], |kernel| &kernel.nodes);
    let mut ids: Vec<NodeId> = known.iter().chain(&proposed).map(|(id, _)| *id).collect();
    ids.extend(machine.nodes.iter().map(|node| node.id));
    ids.sort_unstable();
    ids.dedup();
    let node = |id: NodeId| Node {
        node: id,
        kernel: of(known, id),
        proposed: of(&proposed, id),
    };
    Document {
        auto: kernel.as_ref().and_then(|kernel| kernel.is_auto),
        can_restore: Kept::find(root).is_ok_and(|kept| kept.is_some()),
        nodes: ids.into_iter().map(node).collect(),
    }
}

fn human(document: &Document) -> String {
    let shown = |weight: Option<u8>| weight.map_or("-".to_owned(), |weight| weight.to_string());
    let rows = document.nodes.iter().map(|node| {
        vec![
            node.node.0.to_string(),
            shown(node.kernel),
            shown(node.proposed),
        ]
    });
    let headers = ["node", "kernel's weight", "by bandwidth"];
    let mut text = output::table(&headers, rows.collect());
    if document.nodes.iter().all(|node| node.kernel.is_none()) {
        text += "\nThis kernel has no weights of nodes (Linux 6.9).";
    }
    if document.nodes.iter().any(|node| node.proposed.is_none()) {
        text += &format!(
            "\nWhat memories give is not known: egeria machine calibrate --output {CALIBRATED}"
        );
    }
    if document.auto == Some(true) {
        text += "\nThe kernel takes them from firmware (auto); `set` ends that, `restore` begins it again.";
    }
    if document.can_restore {
        text += "\nWhat was there before is kept: egeria weights restore";
    }
    text
}
