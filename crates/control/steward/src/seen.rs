//! A window as the log shows it, with what a plan found.

use std::cmp::Reverse;

use egeria_facts::{Facts, ThreadFacts, Window};
use egeria_machine::Machine;
use egeria_policy::{ActionResult, Plan};

use crate::log::{NodeRecord, ThreadRecord, ThreadResult, WindowRecord};

/// Threads of a window that are logged: those with news, then the busiest.
const MAX_THREADS: usize = 128;

impl WindowRecord {
    /// What was seen and found: no actions yet, no results, and no time of day.
    pub fn seen(machine: &Machine, window: &Window, plan: &Plan) -> WindowRecord {
        let threads = busiest(window, plan);
        let active = window.threads.iter().filter(|facts| is_active(facts));
        WindowRecord {
            number: window.number,
            start_ns: window.start_ns,
            duration_ns: window.duration_ns,
            local_share: window.local_share(machine),
            nodes: nodes(machine, window, plan),
            threads_omitted: (active.count() - threads.len()) as u64,
            threads: threads.iter().map(|facts| thread(window, facts)).collect(),
            pm_contended: plan.pm_contended,
            cpu_contended: plan.cpu_contended,
            kept: plan.kept.clone(),
            ..WindowRecord::default()
        }
    }
}

/// The nodes as measured; without a plan (policy off) from the window alone.
pub(crate) fn nodes(machine: &Machine, window: &Window, plan: &Plan) -> Vec<NodeRecord> {
    let nodes = machine.nodes.iter().zip(&window.nodes);
    let records = nodes.map(|(node, facts)| {
        let load = plan.measured.iter().find(|load| load.node == node.id);
        let cores = machine.core_count(node).max(1) as f64;
        let here = window.threads.iter().filter(|each| each.node == node.id);
        NodeRecord {
            node: node.id,
            read_bytes_s: window.rate_bytes_s(facts.read_bytes),
            written_bytes_s: window.rate_bytes_s(facts.written_bytes),
            pm_bytes_s: load.map_or(0.0, |load| load.pm_bytes_s),
            pm_maximum_bytes_s: load.and_then(|load| load.pm_maximum_bytes_s),
            cpu_share: facts.busy_ns as f64 / (window.duration_ns.max(1) as f64 * cores),
            threads: here.count() as u32,
        }
    });
    records.collect()
}

fn is_active(facts: &ThreadFacts) -> bool {
    facts.moved_total() > 0
}

fn busiest<'a>(window: &'a Window, plan: &Plan) -> Vec<&'a ThreadFacts> {
    let active = window.threads.iter().filter(|facts| is_active(facts));
    let mut threads: Vec<&ThreadFacts> = active.collect();
    if threads.len() > MAX_THREADS {
        let is_news = |facts: &ThreadFacts| {
            plan.move_of(facts.key).is_some() || plan.kept(facts.key).is_some()
        };
        threads.sort_by_key(|facts| Reverse((is_news(facts), facts.moved_total())));
        threads.truncate(MAX_THREADS);
    }
    threads
}

fn thread(window: &Window, facts: &ThreadFacts) -> ThreadRecord {
    let rates = |bytes: &[u64]| {
        let rates = bytes.iter().map(|bytes| window.rate_bytes_s(*bytes));
        rates.collect()
    };
    ThreadRecord {
        thread: facts.key,
        name: facts.name.clone(),
        node: facts.node,
        read_bytes_s: rates(&facts.read_bytes),
        written_bytes_s: rates(&facts.written_bytes),
        cpu_share: facts.busy_ns as f64 / window.duration_ns.max(1) as f64,
        is_shared: facts.is_shared,
    }
}

/// What a thread did before and after it was moved, in these two windows.
pub(crate) fn of_thread(
    machine: &Machine,
    (before, after): (Option<&Facts>, &Facts),
    result: &ActionResult,
) -> Option<ThreadResult> {
    let (thread, before) = (result.action.as_thread_move()?.thread, before?);
    let (then, now) = (before.window.thread(thread), after.window.thread(thread));
    let bytes_s = |facts: &Facts, thread: Option<&ThreadFacts>| {
        thread.map_or(0.0, |thread| {
            facts.window.rate_bytes_s(thread.moved_total())
        })
    };
    Some(ThreadResult {
        node: now.map(|facts| facts.node),
        bytes_s_before: bytes_s(before, then),
        bytes_s_after: bytes_s(after, now),
        local_share_before: then.and_then(|facts| facts.local_share(machine)),
        local_share_after: now.and_then(|facts| facts.local_share(machine)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_facts::{CpuSet, ThreadKey};

    #[test]
    fn of_many_threads_the_changed_and_busiest_are_logged() {
        let machine = Machine::profile("optane-2s").unwrap();
        let mut window = Window::empty(&machine, 0, 0, 1_000_000);
        let node = machine.nodes[0].id;
        for number in 1..=130_u32 {
            let key = ThreadKey {
                thread_id: number,
                ..ThreadKey::default()
            };
            let mut facts = ThreadFacts::idle(key, node, 2, CpuSet::empty());
            facts.read_bytes[0] = u64::from(number);
            window.threads.push(facts);
        }
        let quietest = window.threads[0].key;
        let plan = Plan {
            kept: vec![egeria_policy::Kept {
                thread: quietest,
                node,
                wanted: None,
                because: egeria_policy::KeptBecause::Pinned,
            }],
            ..Plan::default()
        };
        let decision = WindowRecord::seen(&machine, &window, &plan);
        assert_eq!((decision.threads.len(), decision.threads_omitted), (128, 2));
        let ids: Vec<u32> = (decision.threads.iter())
            .map(|each| each.thread.thread_id)
            .collect();
        assert_eq!((ids[0], ids[1], ids[127]), (1, 130, 4));
    }
}
