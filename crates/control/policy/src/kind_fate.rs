//! What a decision means for short-lived processes, or why it means nothing for them.

use std::fmt;

use egeria_facts::{CpuSet, Facts, KindFacts};
use egeria_machine::{Machine, NodeId};
use serde::{Deserialize, Serialize};

use crate::KeptBecause;
use crate::planner::{Decision, Relocate};

/// At least this share of the bytes on the node of the process counts as local.
const LOCAL: f64 = 0.97;

/// What comes of the short-lived processes of a parent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum KindFate {
    /// Their parent goes to a node, so those that it begins from now on run there.
    ParentGoes { to: NodeId },
    /// A file that they use comes to a node.
    FileComes { to: NodeId },
    /// Too few of them were seen to say where the next one belongs.
    Rare,
    /// Their parent is the first process, which begins services of all sorts.
    Init,
    /// Nothing is known of what they read and write.
    Unseen,
    /// What they read and write is where they run.
    Local,
    /// The stage for single threads leaves the parent where it is.
    Kept { because: KeptBecause },
    /// Their parent may run on one node only, and what they read does not come there yet.
    Bound { node: NodeId },
    /// No other place is clearly better.
    NoneBetter,
}

impl KindFate {
    /// What a decision on these facts means for one of their kinds.
    pub fn of(machine: &Machine, facts: &Facts, kind: &KindFacts, decision: &Decision) -> KindFate {
        let parent = kind.parent;
        let single = decision.placement.single.iter();
        let step = single
            .chain(&decision.threads.moves)
            .find(|step| step.thread == parent);
        let mut whole = decision.placement.moves.iter();
        let whole = whole.find(|step| step.process.process_id == parent.process_id);
        if let Some(to) = step.map(|step| step.to).or(whole.map(|step| step.to)) {
            return KindFate::ParentGoes { to };
        }
        let comes = decision.relocations.iter().find_map(|step| {
            let is_theirs = kind.files.iter().any(|each| each.file == step.file);
            match step.action {
                Relocate::Move { to, .. } | Relocate::Replicate { to, .. } if is_theirs => Some(to),
                _ => None,
            }
        });
        if let Some(to) = comes {
            return KindFate::FileComes { to };
        }
        match kind.local_share() {
            None => return KindFate::Unseen,
            Some(share) if share >= LOCAL => return KindFate::Local,
            Some(_) if kind.is_of_init() => return KindFate::Init,
            Some(_) if !kind.is_often() => return KindFate::Rare,
            Some(_) => {}
        }
        let thread = facts.window.thread(parent);
        let cpus = thread.map(|thread| &thread.allowed_cpus);
        if let Some(node) = cpus.and_then(|cpus| only_node(machine, cpus)) {
            return KindFate::Bound { node };
        }
        match decision.threads.kept(parent) {
            Some(kept) => KindFate::Kept {
                because: kept.because.clone(),
            },
            None => KindFate::NoneBetter,
        }
    }
}

/// The node of all these CPUs, on a machine with several.
fn only_node(machine: &Machine, cpus: &CpuSet) -> Option<NodeId> {
    let has_some = |node: &&egeria_machine::Node| {
        let own: CpuSet = node.cpus.iter().copied().collect();
        cpus.intersects(&own)
    };
    let mut nodes = machine.nodes.iter().filter(has_some);
    let first = nodes.next().filter(|_| machine.nodes.len() > 1)?;
    nodes.next().is_none().then_some(first.id)
}

impl fmt::Display for KindFate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KindFate::ParentGoes { to } => write!(
                formatter,
                "their parent goes to node {}, and the next ones begin there",
                to.0
            ),
            KindFate::FileComes { to } => {
                write!(formatter, "a file that they use comes to node {}", to.0)
            }
            KindFate::Rare => formatter
                .write_str("such processes were seen too rarely to say where the next one belongs"),
            KindFate::Init => formatter
                .write_str("their parent is the first process, which begins services of all sorts"),
            KindFate::Unseen => formatter.write_str("nothing is known of what they read and write"),
            KindFate::Local => formatter.write_str("what they read and write is where they run"),
            KindFate::Kept { because } => write!(formatter, "their parent stays: {because}"),
            KindFate::Bound { node } => write!(
                formatter,
                "their parent may run on node {} only, and what they read is elsewhere",
                node.0
            ),
            KindFate::NoneBetter => {
                formatter.write_str("no other place is clearly better for them")
            }
        }
    }
}
