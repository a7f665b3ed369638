//! When a window is logged in which nothing was read, written or done: readers of the log see that a busy machine works.

use egeria_facts::Window;
use egeria_machine::Machine;

/// A node counts as busy from this share of its CPUs on.
const BUSY_SHARE: f64 = 0.1;
/// A busy machine is shown after this time at the latest, ns of machine time.
const AGAIN_NS: u64 = 5_000_000_000;

/// The end of the last window that was logged.
#[derive(Default)]
pub(crate) struct SignOfLife {
    logged_ns: Option<u64>,
}

impl SignOfLife {
    /// The window is logged.
    pub(crate) fn logged(&mut self, window: &Window) {
        self.logged_ns = Some(end_ns(window));
    }

    /// Whether it should be: CPUs are in use, and the log said nothing for long.
    pub(crate) fn is_due(&self, machine: &Machine, window: &Window) -> bool {
        let since_ns = |logged_ns| end_ns(window).saturating_sub(logged_ns);
        let is_long = self
            .logged_ns
            .is_none_or(|logged_ns| since_ns(logged_ns) >= AGAIN_NS);
        let mut nodes = machine.nodes.iter().zip(&window.nodes);
        is_long
            && nodes.any(|(node, facts)| {
                let all_ns = machine.core_count(node) as f64 * window.duration_ns as f64;
                facts.busy_ns as f64 > BUSY_SHARE * all_ns
            })
    }
}

fn end_ns(window: &Window) -> u64 {
    window.start_ns.saturating_add(window.duration_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_shown_now_and_then() {
        const SECOND_NS: u64 = 1_000_000_000;
        let machine = Machine::profile("optane-2s").unwrap();
        let window = |second: u64, busy_ns: u64| {
            let mut window = Window::empty(&machine, second, second * SECOND_NS, SECOND_NS);
            window.nodes[1].busy_ns = busy_ns;
            window
        };
        let mut sign = SignOfLife::default();
        assert!(!sign.is_due(&machine, &window(0, SECOND_NS / 100)));
        let busy = |second| window(second, 100 * SECOND_NS);
        assert!(sign.is_due(&machine, &busy(1)));
        sign.logged(&busy(1));
        let due = (2..9).filter(|second| sign.is_due(&machine, &busy(*second)));
        assert_eq!(due.collect::<Vec<_>>(), [6, 7, 8]);
    }
}
