//! Facts of processes as the kernel sees them: where threads run and for how long. No volume is needed. Their reads
//! and writes are not known.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use egeria_facts::{
    FactSource, Facts, KindFacts, MAX_COUNTER, MAX_THREADS, ThreadFacts, ThreadKey, Window,
};
use egeria_machine::{Machine, NodeId};

use crate::kinds::Kinds;
use crate::live::{LiveSource, Membership};
use crate::masks::SharedMasks;
use crate::nodes::CpuTimes;
use crate::scope::{Parents, Scope};
use crate::task::{self, CpuUse};

/// The watched processes: those in scope.
pub struct ProcessSource {
    machine: Machine,
    members: Arc<InScope>,
    parents: Parents,
    masks: SharedMasks,
    /// By process and thread.
    known: BTreeMap<(u32, u32), Known>,
    kinds: Kinds,
    bounds: Bounds,
    /// Threads without a file that is open, in this window.
    unkept: u64,
    /// Number of windows in which each of these is looked at once.
    turns: u64,
    number: u64,
    started: Instant,
    begun_ns: u64,
    cpu_times: CpuTimes,
}

/// A thread that was met.
struct Known {
    key: ThreadKey,
    name: String,
    cpu: CpuUse,
    /// Where it was when it was looked at closely.
    node: NodeId,
    /// Windows since then.
    age: u32,
    /// For how long it ran in this window, where that was asked already.
    ran: Option<Ran>,
    /// Windows in a row in which it hardly ran.
    idle: u32,
    /// Windows in which it was not asked, since it last was.
    skipped: u32,
    /// The parent of its process.
    parent: u32,
    /// For how long it ran, as far as facts have it; a first thread also has its process's short-lived children.
    counted_ns: u64,
}

impl Known {
    fn ran(&mut self) -> Ran {
        let windows = u64::from(std::mem::take(&mut self.skipped)) + 1;
        match self.cpu.of_same_ns() {
            Some(Some(ran_ns)) => Ran::For(ran_ns / windows),
            // It ended; another thread may have its number.
            Some(None) => Ran::New,
            None => Ran::Unknown,
        }
    }
}

/// Threads that ran for less than one part in this number of a window have not moved. That they hardly ran is known
/// from a file that is already open; to know where they are, another has to be opened.
const IDLE_PARTS: u64 = 1000;
/// Even those are looked at closely once in this number of windows.
const MAX_AGE: u32 = 16;
/// In a process with at least `MANY` threads, those that were idle for `IDLE_WINDOWS` windows are asked in turn, each
/// once in `IDLE_TURNS` windows.
const MANY: usize = 64;
const IDLE_WINDOWS: u32 = 4;
const IDLE_TURNS: u32 = 4;
/// Most threads without such a file that are looked at in one window, the others in turn: each takes some 10 us.
const MAX_OPENED: u64 = 2048;

/// What a look may take.
struct Bounds {
    /// Files that stay open.
    kept: usize,
    /// Threads for which files are opened in a window.
    opened: u64,
}

/// What is known of a thread without opening a file.
enum Ran {
    /// For this number of ns.
    For(u64),
    /// No file of it is open.
    Unknown,
    /// It has not been met, or has ended.
    New,
}

/// Threads of the processes in scope, as far as this process may act on them.
struct InScope {
    scope: Scope,
    reach: Reach,
}

/// Which threads may be acted upon.
enum Reach {
    /// All threads, because nothing is done to them.
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
    egeria_files::user() == 0 && capabilities(None).is_ok_and(has)
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
    /// Begins to watch: the first window starts now. For root it covers the threads of all users, for another user
    /// only its own.
    pub fn begin(machine: Machine, scope: Scope) -> ProcessSource {
        let reach = if reaches_all_users() {
            Reach::AllUsers
        } else {
            Reach::User(egeria_files::user())
        };
        ProcessSource::of(machine, scope, reach)
    }

    /// The same facts for processes of all users, as far as the kernel shows them; nothing may be done to these
    /// threads.
    pub fn looking(machine: Machine, scope: Scope) -> ProcessSource {
        ProcessSource::of(machine, scope, Reach::Looking)
    }

    fn of(machine: Machine, scope: Scope, reach: Reach) -> ProcessSource {
        let mut source = ProcessSource {
            machine,
            members: Arc::new(InScope { scope, reach }),
            parents: Parents::default(),
            masks: SharedMasks::default(),
            known: BTreeMap::new(),
            kinds: Kinds::default(),
            bounds: Bounds {
                kept: task::max_kept(),
                opened: MAX_OPENED,
            },
            unkept: 0,
            turns: 1,
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

    fn take(&mut self) -> Facts {
        let (now_ns, cpu_times) = (self.now_ns(), CpuTimes::now());
        let duration_ns = now_ns.saturating_sub(self.begun_ns).max(1);
        let mut window = Window::empty(&self.machine, self.number, self.begun_ns, duration_ns);
        for (facts, node) in window.nodes.iter_mut().zip(&self.machine.nodes) {
            facts.has_pool = false;
            facts.busy_ns = cpu_times.busy_since_ns(&self.cpu_times, node);
        }
        let mut living = HashSet::new();
        self.turns = std::mem::take(&mut self.unkept) / self.bounds.opened + 1;
        let processes = self.processes_in_scope();
        'all: for process_id in processes {
            for thread_id in self.threads_of(process_id) {
                if window.threads.len() >= MAX_THREADS {
                    break 'all;
                }
                if let Some(facts) = self.facts(process_id, thread_id, duration_ns / IDLE_PARTS) {
                    living.insert(facts.key);
                    window.threads.push(facts);
                }
            }
        }
        let kinds = self.take_kinds(&window, &living);
        self.known.retain(|_, known| living.contains(&known.key));
        self.masks.lock().retain(&living);
        (self.begun_ns, self.cpu_times) = (now_ns, cpu_times);
        self.number += 1;
        Facts {
            kinds,
            ..Facts::of(window)
        }
    }

    /// Short-lived processes by parent. Threads that are not living any more are still known.
    fn take_kinds(&mut self, window: &Window, living: &HashSet<ThreadKey>) -> Vec<KindFacts> {
        let is_first = |thread: &&ThreadFacts| thread.key.process_id == thread.key.thread_id;
        let firsts = window.threads.iter().filter(is_first);
        let firsts = firsts.map(|thread| (thread.key.process_id, thread.key));
        let firsts: BTreeMap<u32, ThreadKey> = firsts.collect();
        for known in self.known.values() {
            let process = known.key.process_id;
            if !living.contains(&known.key) && !firsts.contains_key(&process) {
                self.kinds
                    .ended(known.parent, &known.name, known.counted_ns);
            }
        }
        let cpus = self.machine.nodes.iter().map(|node| node.cpus.len());
        let most_ns = window
            .duration_ns
            .saturating_mul(cpus.sum::<usize>() as u64);
        let kinds = self.kinds.take(&firsts, most_ns.min(MAX_COUNTER));
        for kind in &kinds {
            let parent = (kind.parent.process_id, kind.parent.thread_id);
            if let Some(known) = self.known.get_mut(&parent) {
                known.counted_ns = known.counted_ns.saturating_add(kind.busy_ns);
            }
        }
        kinds
    }

    fn processes_in_scope(&mut self) -> Vec<u32> {
        let own = std::process::id();
        let mut processes = task::listed();
        processes.retain(|listed| listed.number != own);
        self.parents.in_scope(&self.members.scope, &processes)
    }

    /// The threads of a process. Listing them takes as long as all other work. So while the known ones live and there
    /// are no more, the list is reused. A new thread in place of an idle one is found a few windows later.
    fn threads_of(&mut self, process_id: u32) -> Vec<u32> {
        let all = (process_id, 0)..=(process_id, u32::MAX);
        let is_large = self.known.range(all.clone()).nth(MANY - 1).is_some();
        let mut known = Vec::new();
        for ((_, thread_id), thread) in self.known.range_mut(all) {
            let turn = thread_id.wrapping_add(self.number as u32);
            if is_large && thread.idle >= IDLE_WINDOWS && !turn.is_multiple_of(IDLE_TURNS) {
                thread.skipped += 1;
                thread.ran = Some(Ran::For(0));
                known.push(*thread_id);
                continue;
            }
            let ran = thread.ran();
            let ran = thread.ran.insert(ran);
            if !matches!(ran, Ran::For(_)) {
                if self.kinds.has(process_id) {
                    self.family(process_id);
                }
                return task::threads(process_id);
            }
            known.push(*thread_id);
        }
        let count = self.family(process_id);
        if !known.is_empty() && count == Some(known.len()) {
            known
        } else {
            task::threads(process_id)
        }
    }

    /// How many threads a process has. Its children are looked at.
    fn family(&mut self, process_id: u32) -> Option<usize> {
        let family = task::Family::of(process_id)?;
        self.kinds.waited(process_id, family.waited_ns);
        Some(family.threads)
    }

    /// The facts of a thread; what it ran is counted.
    fn facts(&mut self, process_id: u32, thread_id: u32, idle_ns: u64) -> Option<ThreadFacts> {
        let facts = self.look(process_id, thread_id, idle_ns)?;
        if let Some(known) = self.known.get_mut(&(process_id, thread_id)) {
            known.counted_ns = known.counted_ns.saturating_add(facts.busy_ns);
        }
        Some(facts)
    }

    /// The facts of a thread; if it ran for less than `idle_ns`, its node is the former one.
    fn look(&mut self, process_id: u32, thread_id: u32, idle_ns: u64) -> Option<ThreadFacts> {
        let ids = (process_id, thread_id);
        let ran_ns = match self.ran(ids) {
            Ran::For(ran_ns) => {
                let known = self.known.get_mut(&ids)?;
                known.age += 1;
                known.idle = if ran_ns < idle_ns { known.idle + 1 } else { 0 };
                if ran_ns < idle_ns && known.age < MAX_AGE {
                    return self.as_it_was(ids, ran_ns);
                }
                Some(ran_ns)
            }
            Ran::Unknown => {
                self.unkept += 1;
                let turn = self.number + u64::from(thread_id);
                if !turn.is_multiple_of(self.turns) {
                    return self.as_it_was(ids, 0);
                }
                None
            }
            Ran::New => None,
        };
        let now = task::Now::of(process_id, thread_id)?;
        let key = ThreadKey {
            process_id,
            thread_id,
            start_ticks: now.start_ticks,
        };
        let mask = task::affinity(thread_id).ok()?;
        let node = self.machine.node_of_cpu(now.cpu)?;
        if self.known.get(&ids).is_none_or(|known| known.key != key) {
            self.meet(key, node)?;
            if process_id == thread_id {
                self.kinds.began(now.parent, &now.name);
            }
        }
        let known = self.known.get_mut(&ids)?;
        (known.node, known.name, known.age) = (node, now.name, 0);
        known.parent = now.parent;
        // Its running time since its last turn is spread evenly over these windows.
        let busy_ns = ran_ns.unwrap_or_else(|| known.cpu.since_last_ns() / self.turns);
        self.masks.lock().meet(key, &mask);
        self.as_it_was(ids, busy_ns)
    }

    /// How long a thread ran, if an open file tells that.
    fn ran(&mut self, ids: (u32, u32)) -> Ran {
        let ran = self.known.get_mut(&ids).map(|known| {
            let asked = known.ran.take();
            asked.unwrap_or_else(|| known.ran())
        });
        let ran = ran.unwrap_or(Ran::New);
        if matches!(ran, Ran::New) {
            self.known.remove(&ids);
        }
        ran
    }

    /// The facts of a known thread, as of the last close look.
    fn as_it_was(&self, ids: (u32, u32), busy_ns: u64) -> Option<ThreadFacts> {
        let known = self.known.get(&ids)?;
        let masks = self.masks.lock();
        let original = masks.original(known.key)?.clone();
        let nodes = self.machine.nodes.len();
        let mut facts = ThreadFacts::idle(known.key, known.node, nodes, original);
        facts.busy_ns = busy_ns;
        facts.name.clone_from(&known.name);
        facts.pinned = masks.is_pinned(known.key);
        Some(facts)
    }

    fn meet(&mut self, key: ThreadKey, node: NodeId) -> Option<()> {
        let (process_id, thread_id) = (key.process_id, key.thread_id);
        if !self.members.reaches(key) || !task::is_still(key) {
            return None;
        }
        let known = Known {
            key,
            name: String::new(),
            cpu: CpuUse::keeping(process_id, thread_id, self.bounds.kept),
            node,
            age: 0,
            ran: None,
            idle: 0,
            skipped: 0,
            parent: 0,
            counted_ns: 0,
        };
        self.known.insert((process_id, thread_id), known);
        Some(())
    }
}

impl FactSource for ProcessSource {
    type Error = Infallible;

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, Infallible> {
        Ok(Some(self.take()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_facts::CpuSet;
    use egeria_harness::testing::has_two_cpus;
    use std::process::{Child, Command};

    struct Sleeping(Vec<Child>);

    impl Sleeping {
        fn start(count: usize) -> Sleeping {
            let sleep = || Command::new("sleep").arg("1000").spawn().unwrap();
            Sleeping((0..count).map(|_| sleep()).collect())
        }

        fn scope(&self) -> Scope {
            let keys = self
                .0
                .iter()
                .map(|child| task::process(child.id()).unwrap());
            Scope::Trees(keys.collect())
        }
    }

    impl Drop for Sleeping {
        fn drop(&mut self) {
            for child in &mut self.0 {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    #[test]
    fn too_many_threads_for_a_window_are_read_in_turn() {
        const COUNT: usize = 30;
        let sleeping = Sleeping::start(COUNT);
        let mut source = ProcessSource::begin(Machine::detect().unwrap(), sleeping.scope());
        source.known.clear();
        source.bounds = Bounds {
            kept: 0,
            opened: 10,
        };
        let windows = |source: &mut ProcessSource| source.take().window.threads;
        for _ in 0..3 {
            assert_eq!(windows(&mut source).len(), COUNT);
        }
        assert_eq!(source.turns, 4);
        let all = task::affinity(sleeping.0[0].id()).unwrap();
        let one: CpuSet = all.iter().take(1).collect();
        if !has_two_cpus() {
            return;
        }
        for child in &sleeping.0 {
            task::set_affinity(child.id(), &one).unwrap();
        }
        let mut seen = Vec::new();
        for _ in 0..4 {
            let threads = windows(&mut source);
            assert_eq!(threads.len(), COUNT, "nobody is left out");
            seen.push(
                threads
                    .iter()
                    .filter(|thread| thread.allowed_cpus == one)
                    .count(),
            );
        }
        assert!(seen[0] < COUNT && seen.is_sorted(), "{seen:?}");
        assert_eq!(seen[3], COUNT, "{seen:?}");
    }
}
