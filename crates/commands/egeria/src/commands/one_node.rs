//! What a machine of one node gets.

use egeria_machine::Machine;

const LINE: &str = "This machine has one node: there is nothing to place here. Egeria still serves volumes (mount, run), shows what programs hold and read (top, where), and emulates machines with more nodes (run --machine).";

/// One line for machines of one node; `None` for others.
pub(super) fn line(machine: &Machine) -> Option<&'static str> {
    (machine.nodes.len() == 1).then_some(LINE)
}
