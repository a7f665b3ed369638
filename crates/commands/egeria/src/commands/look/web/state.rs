//! What the page asks for.

use std::collections::BTreeMap;

use egeria_machine::NodeId;
use egeria_steward::WindowRecord;
use serde::Serialize;

use super::super::top::rows::Sort;
use super::super::top::view::{Frame, View};

/// Threads sent: the busiest.
const MAX_THREADS: usize = 500;
/// Files sent: the busiest.
const MAX_FILES: usize = 200;
/// Flows sent: the widest.
const MAX_FLOWS: usize = 400;

/// `/state`.
#[derive(Serialize)]
pub(super) struct State {
    #[serde(flatten)]
    frame: Frame,
    /// What threads of one node read and write on another, or on their own.
    flows: Vec<Flow>,
}

/// Traffic of the threads that are named.
#[derive(Serialize, Debug, PartialEq)]
pub(super) struct Flow {
    /// Where the threads are.
    from: NodeId,
    /// Where the data is.
    to: NodeId,
    bytes_s: f64,
}

impl State {
    pub(super) fn of(view: &View) -> State {
        let mut frame = view.frame(Sort::Bytes);
        let omitted = frame.threads.len().saturating_sub(MAX_THREADS);
        frame.threads.truncate(MAX_THREADS);
        frame.files.truncate(MAX_FILES);
        frame.threads_omitted = frame.threads_omitted.saturating_add(omitted as u64);
        State {
            frame,
            flows: view.last_window().map_or_else(Vec::new, flows),
        }
    }
}

fn flows(window: &WindowRecord) -> Vec<Flow> {
    let mut sums = BTreeMap::<(NodeId, NodeId), f64>::new();
    for thread in &window.threads {
        for (position, node) in window.nodes.iter().enumerate() {
            let of = |rates: &[f64]| rates.get(position).copied().unwrap_or(0.0);
            let bytes_s = of(&thread.read_bytes_s) + of(&thread.written_bytes_s);
            if bytes_s > 0.0 && bytes_s.is_finite() {
                *sums.entry((thread.node, node.node)).or_default() += bytes_s;
            }
        }
    }
    let flows = sums.into_iter();
    let mut flows: Vec<Flow> = flows
        .map(|((from, to), bytes_s)| Flow { from, to, bytes_s })
        .collect();
    flows.sort_by(|one, other| other.bytes_s.total_cmp(&one.bytes_s));
    flows.truncate(MAX_FLOWS);
    flows
}
