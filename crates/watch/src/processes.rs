//! Facts of processes as the kernel sees them: where threads run and for how long. No volume is needed, and nothing is
//! known of what they read and write.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use egeria_facts::{FactSource, Facts, MAX_THREADS, ThreadFacts, ThreadKey, Window};
use egeria_machine::Machine;

use crate::live::{LiveSource, Membership};
use crate::masks::SharedMasks;
use crate::nodes::CpuTimes;
use crate::own;
use crate::scope::Scope;
use crate::task::{self, CpuUse};

/// Processes under watch: those in scope.
pub struct ProcessSource {
    machine: Machine,
    members: Arc<InScope>,
    masks: SharedMasks,
    known: HashMap<ThreadKey, Known>,
    number: u64,
    started: Instant,
    begun_ns: u64,
    cpu_times: CpuTimes,
}

struct Known {
    name: String,
    cpu: CpuUse,
}

/// Threads of the processes in scope, as far as this process may act on them.
struct InScope {
    scope: Scope,
    reach: Reach,
}

/// Whose threads may be acted upon.
enum Reach {
    /// Everybody's, because nothing is done to them.
    Looking,
    /// Those of this user alone, and of no program with other rights.
    User(u32),
    /// Those of all users; the kernel's own stay where it put them.
    AllUsers,
}

/// Whether this process may set where threads of other users run: root with `CAP_SYS_NICE`.
pub fn reaches_all_users() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    let has = |of: rustix::thread::CapabilitySets| of.effective.contains(CapabilitySet::SYS_NICE);
    own::user() == 0 && capabilities(None).is_ok_and(has)
}

impl InScope {
    fn reaches(&self, thread: ThreadKey) -> bool {
        let (process_id, thread_id) = (thread.process_id, thread.thread_id);
        let users = || task::user_ids(process_id, thread_id);
        match self.reach {
            Reach::Looking => return true,
            Reach::User(user) if users() != Some([user; 4]) => return false,
            Reach::User(_) | Reach::AllUsers => {}
        }
        task::is_of_kernel(process_id) == Some(false)
    }
}

impl Membership for InScope {
    fn holds(&self, thread: ThreadKey) -> bool {
        self.scope.holds(thread.process_id) && self.reaches(thread) && task::is_still(thread)
    }
}

impl ProcessSource {
    /// Begins to watch: the first window starts now. Root's source has the threads of all users, that of another user only
    /// his own.
    pub fn begin(machine: Machine, scope: Scope) -> ProcessSource {
        let reach = match reaches_all_users() {
            true => Reach::AllUsers,
            false => Reach::User(own::user()),
        };
        ProcessSource::of(machine, scope, reach)
    }

    /// The same of everybody's processes, as far as the kernel shows them; only to look at them.
    pub fn looking(machine: Machine, scope: Scope) -> ProcessSource {
        ProcessSource::of(machine, scope, Reach::Looking)
    }

    fn of(machine: Machine, scope: Scope, reach: Reach) -> ProcessSource {
        let mut source = ProcessSource {
            machine,
            members: Arc::new(InScope { scope, reach }),
            masks: SharedMasks::default(),
            known: HashMap::new(),
            number: 0,
            started: Instant::now(),
            begun_ns: 0,
            cpu_times: CpuTimes::now(),
        };
        source.start_over();
        source
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn take(&mut self) -> Window {
        let (now_ns, cpu_times) = (self.now_ns(), CpuTimes::now());
        let duration_ns = now_ns.saturating_sub(self.begun_ns).max(1);
        let mut window = Window::empty(&self.machine, self.number, self.begun_ns, duration_ns);
        for (facts, node) in window.nodes.iter_mut().zip(&self.machine.nodes) {
            facts.has_pool = false;
            facts.busy_ns = cpu_times.busy_since_ns(&self.cpu_times, node);
        }
        let mut living = HashSet::new();
        for key in self.threads_in_scope() {
            if let Some(facts) = self.facts(key) {
                living.insert(key);
                window.threads.push(facts);
            }
        }
        self.known.retain(|key, _| living.contains(key));
        self.masks.lock().retain(&living);
        (self.begun_ns, self.cpu_times) = (now_ns, cpu_times);
        self.number += 1;
        window
    }

    fn threads_in_scope(&self) -> Vec<ThreadKey> {
        let own = std::process::id();
        let processes = task::processes().into_iter();
        let processes =
            processes.filter(|process| *process != own && self.members.scope.holds(*process));
        let threads = processes.flat_map(|process_id| {
            let threads = task::threads(process_id).into_iter();
            threads.filter_map(move |thread_id| {
                Some(ThreadKey {
                    process_id,
                    thread_id,
                    start_ticks: task::start_ticks(process_id, thread_id)?,
                })
            })
        });
        threads.take(MAX_THREADS).collect()
    }

    fn facts(&mut self, key: ThreadKey) -> Option<ThreadFacts> {
        let (process_id, thread_id) = (key.process_id, key.thread_id);
        if !self.known.contains_key(&key) {
            if !self.members.reaches(key) || !task::is_still(key) {
                return None;
            }
            let known = Known {
                name: task::name(process_id, thread_id),
                cpu: CpuUse::begin(process_id, thread_id),
            };
            self.known.insert(key, known);
        }
        let now = task::affinity(thread_id).ok()?;
        let node = (self.machine).node_of_cpu(task::last_cpu(process_id, thread_id)?)?;
        let mut masks = self.masks.lock();
        let original = masks.meet(key, &now);
        let known = self.known.get_mut(&key)?;
        let mut facts = ThreadFacts::idle(key, node, self.machine.nodes.len(), original);
        facts.busy_ns = known.cpu.since_last_ns();
        facts.name.clone_from(&known.name);
        facts.pinned = masks.is_pinned(key);
        Some(facts)
    }
}

impl FactSource for ProcessSource {
    type Error = Infallible;

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, Infallible> {
        Ok(Some(Facts::of(self.take())))
    }
}

impl LiveSource for ProcessSource {
    fn dilation(&self) -> f64 {
        1.0
    }

    fn start_over(&mut self) {
        let _ = self.take();
        self.number = 0;
    }

    fn masks(&self) -> SharedMasks {
        self.masks.clone()
    }

    fn members(&self) -> Arc<dyn Membership> {
        self.members.clone()
    }
}
