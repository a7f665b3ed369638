//! Facts of threads that come through a mount: programs without the library, static ones, and those in other
//! namespaces. The mount counts bytes for each calling thread, which the kernel names in its own pid namespace.

use std::collections::HashMap;

use egeria_engine::{CallerReport, Volume};
use egeria_facts::{CpuSet, ThreadFacts, ThreadKey, Window};
use egeria_machine::Machine;

use crate::members::Members;
use crate::pools::add_since;
use egeria_proc::Scope;
use egeria_proc::masks::SharedMasks;
use egeria_proc::task::{self, CpuUse};

/// The known calling threads.
#[derive(Default)]
pub(crate) struct Callers {
    /// By slot and the number of threads that had it before.
    known: HashMap<(u32, u64), Known>,
}

struct Known {
    key: ThreadKey,
    name: String,
    /// `None` where another source looks at the threads.
    cpu: Option<CpuUse>,
    before: CallerReport,
}

/// The context for looking at callers.
pub(crate) struct Look<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) machine: &'a Machine,
    pub(crate) scope: &'a Scope,
    pub(crate) members: &'a Members,
    pub(crate) masks: &'a SharedMasks,
    /// Host ns per ns of the machine's clock.
    pub(crate) dilation: f64,
    /// Another source looks at the threads: only their bytes are wanted.
    pub(crate) is_part: bool,
}

impl Callers {
    /// Adds the threads that came through mounts to the window, with the bytes moved since the last look. If a thread
    /// also uses the library, it is already in the window, and its bytes are added.
    pub(crate) fn add_to(&mut self, window: &mut Window, look: &Look<'_>) {
        let mut known = HashMap::new();
        for report in look.volume.callers() {
            if report.pid_namespace != look.members.pid_namespace {
                continue;
            }
            let slot = (report.slot, report.generation);
            let before = self.known.remove(&slot);
            let before = before.filter(|known| task::is_still(known.key));
            let Some(mut caller) = before.or_else(|| Known::meet(&report, look)) else {
                continue;
            };
            if let Some(facts) = caller.facts(&report, look) {
                add(window, facts);
                caller.before = report;
                known.insert(slot, caller);
            }
        }
        self.known = known;
        look.members.set_callers(self.threads());
    }

    /// The threads known.
    pub(crate) fn threads(&self) -> impl Iterator<Item = ThreadKey> + '_ {
        self.known.values().map(|known| known.key)
    }
}

impl Known {
    /// A thread seen for the first time; `None` if it must not be watched.
    fn meet(report: &CallerReport, look: &Look<'_>) -> Option<Known> {
        let thread_id = report.thread_id;
        let process_id = task::process_of(thread_id)?;
        let is_own = process_id == std::process::id();
        let is_ours = look.members.is_of_user(process_id, thread_id);
        if is_own || !is_ours || !look.scope.holds(process_id) {
            return None;
        }
        let key = ThreadKey {
            process_id,
            thread_id,
            start_ticks: task::start_ticks(process_id, thread_id)?,
        };
        Some(Known {
            key,
            name: task::name(process_id, thread_id),
            cpu: (!look.is_part).then(|| CpuUse::begin(process_id, thread_id)),
            // Its counts before that belong to no window.
            before: report.clone(),
        })
    }

    /// Its counts since the last look; `None` when it is gone.
    fn facts(&mut self, report: &CallerReport, look: &Look<'_>) -> Option<ThreadFacts> {
        let mut facts = if look.is_part {
            let (nodes, anywhere) = (&look.machine.nodes, CpuSet::empty());
            ThreadFacts::idle(self.key, nodes[0].id, nodes.len(), anywhere)
        } else {
            self.place(look)?
        };
        let before = &self.before;
        add_since(
            &mut facts,
            look.volume,
            [&report.read_bytes, &report.written_bytes],
            [&before.read_bytes, &before.written_bytes],
        );
        let ran_ns = self.cpu.as_mut().map_or(0, CpuUse::since_last_ns);
        facts.busy_ns = (ran_ns as f64 / look.dilation.max(1e-9)) as u64;
        facts.name.clone_from(&self.name);
        Some(facts)
    }

    /// Where it is, and the CPUs that its owner allows.
    fn place(&self, look: &Look<'_>) -> Option<ThreadFacts> {
        let (process_id, thread_id) = (self.key.process_id, self.key.thread_id);
        let now = task::affinity(thread_id).ok()?;
        let node = (look.machine).node_of_cpu(task::last_cpu(process_id, thread_id)?)?;
        let mut masks = look.masks.lock();
        let original = masks.meet(self.key, &now);
        let mut facts = ThreadFacts::idle(self.key, node, look.machine.nodes.len(), original);
        facts.pinned = masks.is_pinned(self.key);
        Some(facts)
    }
}

fn add(window: &mut Window, facts: ThreadFacts) {
    let mut threads = window.threads.iter_mut();
    let Some(thread) = threads.find(|thread| thread.key == facts.key) else {
        window.threads.push(facts);
        return;
    };
    let both = [
        (&mut thread.read_bytes, &facts.read_bytes),
        (&mut thread.written_bytes, &facts.written_bytes),
    ];
    for (sums, more) in both {
        for (sum, more) in sums.iter_mut().zip(more) {
            *sum = sum.saturating_add(*more);
        }
    }
}
