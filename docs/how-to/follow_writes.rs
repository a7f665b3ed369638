//! Each thread goes to the node that it writes to most.

use egeria_facts::Facts;
use egeria_machine::Machine;
use egeria_policy::planner::{Decision, Policy, Settings};
use egeria_policy::{ActionKind, Move, Reason};

#[derive(Debug)]
struct FollowWrites;

impl Policy for FollowWrites {
    fn decide(&mut self, machine: &Machine, facts: &Facts) -> Decision {
        let mut decision = Decision::none(facts.window.number);
        for thread in facts.sorted().window.threads {
            let nodes = machine.nodes.iter().zip(&thread.written_bytes);
            let most = nodes.max_by_key(|(_, bytes)| **bytes);
            let most = most.filter(|(node, bytes)| **bytes > 0 && node.id != thread.node);
            if let (Some((node, bytes)), false) = (most, thread.pinned) {
                let text = format!("it wrote {bytes} bytes there");
                let (from, to, reason) = (thread.node, node.id, Reason::Own { text });
                let thread = thread.key;
                decision.threads.moves.push(Move {
                    thread,
                    from,
                    to,
                    reason,
                });
            }
        }
        decision
    }
}

pub fn make(_: &Machine, _: &Settings, _: &[ActionKind]) -> Box<dyn Policy> {
    Box::new(FollowWrites)
}
