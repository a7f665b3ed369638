//! Memory after its threads have moved (§4.2, Migration; Alg. 1, lines 21-27).

use egeria_machine::NodeId;

use super::budget::Account;
use super::clusters::{Process, Scene};
use super::following::Following;
use super::plan::{MemoryAction, MemoryStep};
use super::settings::Settings;
use egeria_facts::ProcessKey;

/// The steps for memory that follows an earlier move, and the processes that continue to follow.
pub(super) fn follow(
    scene: &Scene<'_>,
    end_ns: u64,
    settings: &Settings,
) -> (Vec<MemoryStep>, Vec<(ProcessKey, Following)>) {
    let (mut steps, mut going_on) = (Vec::new(), Vec::new());
    for process in &scene.processes {
        let Some(following) = process.following else {
            continue;
        };
        let key = process.facts.process;
        let is_early =
            end_ns.saturating_sub(following.since_ns) < settings.full_after_ms * 1_000_000;
        let action = (!is_early).then(|| judge(scene, process, following, settings));
        if matches!(action, None | Some(MemoryAction::Short { .. })) {
            going_on.push((key, following.clone()));
        }
        steps.extend(action.map(|action| MemoryStep {
            process: key,
            action,
        }));
    }
    (steps, going_on)
}

/// After the wait: has it followed, and if not, may the rest follow at once?
fn judge(
    scene: &Scene<'_>,
    process: &Process<'_>,
    following: &Following,
    settings: &Settings,
) -> MemoryAction {
    let left: Vec<(NodeId, NodeId)> = left_behind(scene, process, following);
    let old_share = share_to(scene, process, &left);
    if !settings.full_memory || old_share <= settings.old_share {
        return MemoryAction::Settled { old_share };
    }
    let resident = |from: NodeId| {
        let entry = scene
            .machine
            .index_of(from)
            .and_then(|node| process.nodes.get(&node));
        entry.map_or(0, |each| each.resident_bytes)
    };
    let copies: Vec<_> = left
        .iter()
        .map(|(from, to)| (*from, *to, resident(*from)))
        .collect();
    let bytes = copies
        .iter()
        .fold(0u64, |sum, copy| sum.saturating_add(copy.2));
    let account = Account::of(process.facts, bytes, (settings.budget, scene.cost));
    let Account {
        spent_ns,
        cost_ns,
        allowed_ns,
        cost,
    } = account;
    if account.is_affordable() {
        MemoryAction::Full {
            old_share,
            copies,
            cost_ns,
            cost,
            chunk_pages: settings.chunk_pages,
        }
    } else {
        MemoryAction::Short {
            old_share,
            spent_ns,
            cost_ns,
            cost,
            allowed_ns,
        }
    }
}

/// Nodes that the process was on and has left.
fn left_behind(
    scene: &Scene<'_>,
    process: &Process<'_>,
    following: &Following,
) -> Vec<(NodeId, NodeId)> {
    let is_left = |from: NodeId| {
        let entry = scene
            .machine
            .index_of(from)
            .and_then(|node| process.nodes.get(&node));
        entry.is_none_or(|each| each.threads == 0)
    };
    let pairs = following.pairs.iter().copied();
    pairs.filter(|(from, _)| is_left(*from)).collect()
}

/// Part of the process's accesses that go to nodes it has left (`A_oldA`).
fn share_to(scene: &Scene<'_>, process: &Process<'_>, left: &[(NodeId, NodeId)]) -> f64 {
    let to = |memory: usize| -> f64 {
        process
            .with_threads()
            .map(|(_, each)| each.rate_to(memory))
            .sum()
    };
    let all: f64 = (0..scene.machine.nodes.len()).map(to).sum();
    let old = left
        .iter()
        .filter_map(|(from, _)| scene.machine.index_of(*from));
    let old: f64 = old.map(to).sum();
    if all > 0.0 { old / all } else { 0.0 }
}
