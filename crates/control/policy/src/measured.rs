//! What came of an action, in the measure that was expected to change.

use egeria_facts::{Facts, FileFacts, Measured, ProcessAccesses};
use egeria_machine::{Machine, NodeId};

use crate::expected::total_bytes_s;
use crate::mba::MbaPlan;
use crate::media::of_programs;
use crate::planner::{DelegatedBecause, DelegationPlan, Relocate};
use crate::{Action, Expectation, Measure, measures};

impl Expectation {
    /// The measure of it now; `None` when what the action was about is gone or did nothing.
    pub fn measured(&self, action: &Action, machine: &Machine, facts: &Facts) -> Option<f64> {
        let window = &facts.window;
        let thread = match action.as_thread_move() {
            Some(step) => Some(
                window
                    .thread(step.thread)
                    .filter(|thread| thread.moved_total() > 0)?,
            ),
            None => None,
        };
        match self.measure {
            Measure::LocalShare => thread?.local_share(machine),
            Measure::ThreadBytesPerSecond => Some(window.rate_bytes_s(thread?.moved_total())),
            Measure::TotalBytesPerSecond => Some(total_bytes_s(facts)).filter(is_some_rate),
            Measure::PathBandwidth => {
                let paths = machine.paths().ok()??;
                let process = process(action, facts)?;
                measures::path_bandwidth_bytes_s(machine, process, &paths, |node| node)
            }
            Measure::NearThreadsShare => {
                let process = process(action, facts)?;
                let nodes = measures::nodes_with_threads(machine, process);
                measures::share_to(machine, process, |node| nodes.contains(&node))
            }
            Measure::LocalAccesses => {
                measures::local_share(machine, process(action, facts)?, |node| node)
            }
            Measure::PmBytesPerSecond => {
                Some(medium(action, facts)?.pm_bytes_s).filter(is_some_rate)
            }
            Measure::DramBytesPerSecond => medium(action, facts)?.dram_bytes_s.filter(is_some_rate),
            Measure::MemoryBytesPerSecond => memory_bytes_s(action, machine, facts),
            Measure::FileLocalShare => measures::local_share_of_file(file(action, facts)?),
            Measure::FileReadBytesPerSecond => {
                let read = measures::read_of(file(action, facts)?);
                Some(read / window.seconds()).filter(is_some_rate)
            }
            Measure::FileShareOnNode => {
                let node = machine.index_of(target(action)?)?;
                measures::share_on_node(file(action, facts)?, node)
            }
        }
    }
}

fn is_some_rate(bytes_s: &f64) -> bool {
    bytes_s.is_finite() && *bytes_s > 0.0
}

fn process<'f>(action: &Action, facts: &'f Facts) -> Option<&'f ProcessAccesses> {
    let process = match action {
        Action::MigrateProcess { step, .. } => step.process,
        Action::MigrateMemory(step) => step.process,
        _ => return None,
    };
    measures::process(facts, process)
}

fn medium<'f>(action: &Action, facts: &'f Facts) -> Option<&'f Measured> {
    let node = match action {
        Action::SetLimit(limit) => limit.node,
        Action::SetDelegation {
            plan:
                DelegationPlan::On {
                    because: DelegatedBecause::Crowded { node, .. },
                    ..
                },
        } => *node,
        _ => return None,
    };
    measures::medium(facts, node).map(|medium| &medium.measured)
}

/// Traffic of the memory that bounds are about.
fn memory_bytes_s(action: &Action, machine: &Machine, facts: &Facts) -> Option<f64> {
    let Action::SetMba {
        plan: MbaPlan::On { because, .. },
    } = action
    else {
        return None;
    };
    let (kind, _) = of_programs(machine, machine.index_of(because.node)?)?;
    let mut memories = facts.memories.iter();
    let traffic = memories.find(|each| each.node == because.node && each.kind == kind)?;
    Some(traffic.read_bytes_s + traffic.written_bytes_s).filter(is_some_rate)
}

fn file<'f>(action: &Action, facts: &'f Facts) -> Option<&'f FileFacts> {
    match action {
        Action::Relocate(step) => measures::file(facts, step.file),
        _ => None,
    }
}

fn target(action: &Action) -> Option<NodeId> {
    match action {
        Action::Relocate(step) => match step.action {
            Relocate::Move { to, .. } | Relocate::Replicate { to, .. } => Some(to),
            Relocate::Drop { .. } => None,
        },
        _ => None,
    }
}
