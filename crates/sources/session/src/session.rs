//! Facts of a live session: the counters of its threads, the kernel's view of them.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use egeria_engine::format::MAX_POOLS;
use egeria_engine::{AskedOfPool, Counters, ThreadReport, Volume};
use egeria_facts::{
    CpuSet, FactSource, Facts, FileKey, FileUse, MAX_FILES, Measured, MediumFacts, Mix, NodeFacts,
    ThreadFacts, ThreadKey, Window,
};
use egeria_machine::{Machine, Node, NodeId};

use crate::callers::{Callers, Look};
use crate::dram::{DramBytes, DramCounters};
use crate::files;
use crate::members::{Asked, Members};
use crate::pools::add_since;
use egeria_proc::Scope;
use egeria_proc::masks::SharedMasks;
use egeria_proc::nodes::CpuTimes;
use egeria_proc::task::{self, CpuUse};
use egeria_proc::{LiveSource, Membership};

/// A thread's affinity is read once in this number of windows.
const AFFINITY_TURNS: u64 = 8;
const BLOCK_BYTES: u64 = 4096;

/// A session that is watched.
///
/// Each thread that uses the volume is identified by its place in the session and how often that was taken before. So
/// threads that come and go, and reused ids, are never confused. Dropping it ends the recording of counts.
pub struct SessionSource {
    volume: Arc<Volume>,
    machine: Machine,
    scope: Scope,
    members: Arc<Members>,
    masks: SharedMasks,
    callers: Callers,
    /// Threads in scope (`None`: not in scope), by place and incarnation.
    known: HashMap<(u32, u64), Option<Known>>,
    session_window: u64,
    number: u64,
    begun_ns: u64,
    started: Instant,
    /// The emulated machine's clock then, ns.
    started_machine_ns: u64,
    totals: Counters,
    dram: DramCounters,
    /// What went through the DRAM of each node, where it is counted.
    dram_bytes: Option<DramBytes>,
    cpu_times: CpuTimes,
    /// Facts of media in the window that ended last.
    media: Vec<MediumFacts>,
    watches_files: bool,
    /// Its number in keys of files.
    file_system: u32,
    /// Another source looks at the threads.
    is_part: bool,
}

struct Known {
    key: ThreadKey,
    name: String,
    node: NodeId,
    /// `None` where another source looks at the threads.
    cpu: Option<CpuUse>,
    before: ThreadReport,
}

impl SessionSource {
    /// Begin to watch: the first window starts now.
    pub fn begin(volume: Arc<Volume>, machine: Machine, scope: Scope) -> SessionSource {
        let dram = DramCounters::of(&volume, &machine);
        let mut watch = SessionSource {
            session_window: 0,
            number: 0,
            begun_ns: 0,
            started: Instant::now(),
            started_machine_ns: volume.emulation().machine_now_ns(),
            totals: volume.counters(),
            dram_bytes: dram.bytes(&volume, &machine),
            dram,
            cpu_times: CpuTimes::default(),
            media: Vec::new(),
            watches_files: false,
            file_system: 0,
            is_part: false,
            known: HashMap::new(),
            members: Arc::new(Members::of(&volume)),
            masks: SharedMasks::default(),
            callers: Callers::default(),
            volume,
            machine,
            scope,
        };
        watch.forget_time();
        watch
    }

    /// Only counts from now on: what goes through the volume, by threads and files, which have this number in keys.
    /// Another source looks at the threads, so their nodes, CPUs, running times and names are not asked.
    #[must_use]
    pub fn as_part(mut self, file_system: u32) -> SessionSource {
        (self.file_system, self.is_part) = (file_system, true);
        for known in self.known.values_mut().flatten() {
            known.cpu = None;
        }
        self
    }

    /// Adds facts of files from now on.
    pub fn watch_files(&mut self) {
        self.watches_files = true;
    }

    /// Whether the traffic of the nodes' DRAM is counted.
    pub fn measures_dram(&self) -> bool {
        !matches!(self.dram, DramCounters::Nobody)
    }

    /// The machine watched.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// ns of the machine's own clock since the watch began.
    pub fn now_ns(&self) -> u64 {
        if self.machine.is_emulated() {
            // Its clock stands still while the host cannot keep up.

            let now_ns = self.volume.emulation().machine_now_ns();
            now_ns.saturating_sub(self.started_machine_ns)
        } else {
            self.started.elapsed().as_nanos() as u64
        }
    }

    /// Host ns per ns of the machine's clock.
    pub fn dilation(&self) -> f64 {
        if self.machine.is_emulated() {
            self.volume.emulation().dilation().max(1e-9)
        } else {
            1.0
        }
    }

    /// Start a new window, as after a time in which nothing was watched.
    pub fn forget_time(&mut self) {
        let _ = self.take();
        self.number = 0;
    }

    /// Ends the window and begins the next. Returns the facts of the ended window.
    pub fn take(&mut self) -> Window {
        let reports = self.volume.threads(self.session_window);
        let totals = self.volume.counters();
        let cpu_times = if self.machine.is_emulated() || self.is_part {
            CpuTimes::default()
        } else {
            CpuTimes::now()
        };
        let now_ns = self.now_ns();
        self.session_window = self.volume.begin_window();
        let mut window = Window::empty(
            &self.machine,
            self.number,
            self.begun_ns,
            now_ns.saturating_sub(self.begun_ns),
        );
        window.nodes = self.nodes(&totals, &cpu_times);
        let mut asked = Asked::default();
        // Do this while the threads that may have started others are all known, including those that ended in this
        // window.
        for report in &reports {
            let place = (report.slot, report.incarnation);
            if !self.known.contains_key(&place) {
                let met = self.meet(report, &mut asked);
                self.known.insert(place, met);
            }
        }
        let mut seen = HashMap::with_capacity(reports.len());
        for report in reports {
            let place = (report.slot, report.incarnation);
            let known = self.known.remove(&place).flatten();
            let known = known.and_then(|known| {
                let (known, facts) = self.facts(known, report)?;
                window.threads.push(facts);
                Some(known)
            });
            seen.insert(place, known);
        }
        self.known = seen;
        let look = Look {
            volume: &self.volume,
            machine: &self.machine,
            scope: &self.scope,
            members: &self.members,
            masks: &self.masks,
            dilation: self.dilation(),
            is_part: self.is_part,
        };
        self.callers.add_to(&mut window, &look);
        if !self.is_part {
            let known = self.known.values().flatten().map(|known| known.key);
            let living: HashSet<ThreadKey> = known.chain(self.callers.threads()).collect();
            self.masks.lock().retain(&living);
        }
        if self.machine.is_emulated() {
            busy_of_threads(&mut window);
        }
        let dram_bytes = self.dram.bytes(&self.volume, &self.machine);
        self.media = self.media(&totals, dram_bytes.as_ref(), window.duration_ns);
        self.totals = totals;
        self.dram_bytes = dram_bytes;
        self.cpu_times = cpu_times;
        self.begun_ns = now_ns;
        self.number += 1;
        window
    }

    fn nodes(&self, totals: &Counters, cpu_times: &CpuTimes) -> Vec<NodeFacts> {
        let pools = self.volume.pool_nodes().len();
        let nodes = self
            .machine
            .nodes
            .iter()
            .enumerate()
            .map(|(position, node)| {
                let mut facts = NodeFacts {
                    has_pool: false,
                    ..NodeFacts::idle(node.id)
                };
                for pool in (0..pools).filter(|pool| self.volume.node_position(*pool) == position) {
                    facts.has_pool = true;
                    let since = |now: &[u64; MAX_POOLS], before: &[u64; MAX_POOLS]| {
                        now[pool].saturating_sub(before[pool])
                    };
                    facts.read_bytes += since(&totals.read_bytes, &self.totals.read_bytes);
                    facts.written_bytes += since(&totals.written_bytes, &self.totals.written_bytes);
                }
                facts.busy_ns = cpu_times.busy_since_ns(&self.cpu_times, node);
                facts
            });
        nodes.collect()
    }

    /// Room in each node's pools, and the requests to them, if they are measured.
    fn media(
        &self,
        totals: &Counters,
        dram_bytes: Option<&DramBytes>,
        duration_ns: u64,
    ) -> Vec<MediumFacts> {
        let measures = self.volume.measures_admission();
        if !measures && !self.watches_files {
            return Vec::new();
        }
        let admission = self.volume.admission(measures);
        let seconds = duration_ns.max(1) as f64 / 1e9;
        let medium = |(position, node): (usize, &Node)| {
            let on_node = |pool: &usize| self.volume.node_position(*pool) == position;
            let pools: Vec<usize> = (0..admission.len()).filter(on_node).collect();
            let mut asked = AskedOfPool::default();
            let (mut demand, mut moved_bytes) = (0, 0);
            for pool in &pools {
                asked.add(totals.asked[*pool].since(self.totals.asked[*pool]));
                demand += admission[*pool].max_demand;
                let moved = |counters: &Counters| {
                    counters.read_bytes[*pool].saturating_add(counters.written_bytes[*pool])
                };
                moved_bytes += moved(totals).saturating_sub(moved(&self.totals));
            }
            let measured = Measured {
                mix: mix(asked),
                demand,
                pm_bytes_s: moved_bytes as f64 / seconds,
                dram_bytes_s: dram_bytes
                    .zip(self.dram_bytes.as_ref())
                    .and_then(|(now, before)| now.since(before, position, moved_bytes))
                    .map(|moved| moved as f64 / seconds),
            };
            let is_measured = measures && self.machine.has_bounded_medium(node);
            let is_medium = !pools.is_empty() && (is_measured || self.watches_files);
            let free = pools.iter().map(|pool| self.free_bytes(*pool));
            is_medium.then(|| MediumFacts {
                node: node.id,
                measured: if is_measured {
                    measured
                } else {
                    Measured::default()
                },
                free_bytes: Some(free.fold(0, u64::saturating_add)),
                striped_files: Some(self.volume.has_striped_files()),
            })
        };
        let nodes = self.machine.nodes.iter().enumerate();
        nodes.filter_map(medium).collect()
    }

    /// Room for more data in a pool.
    fn free_bytes(&self, pool: usize) -> u64 {
        let pool = u8::try_from(pool).ok();
        let blocks = pool.map_or(0, |pool| self.volume.space(Some(pool)).available_blocks);
        blocks.saturating_mul(BLOCK_BYTES)
    }

    /// A thread seen for the first time; `None` if it must not be watched.
    fn meet(&self, report: &ThreadReport, asked: &mut Asked) -> Option<Known> {
        let (mut process_id, mut thread_id) = (report.process_id, report.thread_id);
        if report.pid_namespace != self.members.pid_namespace {
            // A container's ids name other threads here.
            let ids = (report.pid_namespace, process_id, thread_id);
            (process_id, thread_id) = task::ids_here(ids)?;
        }
        let is_own = process_id == std::process::id();
        if is_own || report.on_behalf || !self.scope.holds(process_id) {
            return None;
        }
        // A process that may write to the session may have written any number there.
        if !asked.holds(&self.members, process_id, thread_id) {
            return None;
        }
        let key = ThreadKey {
            process_id,
            thread_id,
            start_ticks: task::start_ticks(process_id, thread_id)?,
        };
        let is_looked_at = !self.is_part;
        if is_looked_at {
            let now = task::affinity(thread_id).ok()?;
            self.masks.lock().meet(key, &now);
        }
        let name = is_looked_at.then(|| task::name(process_id, thread_id));
        Some(Known {
            key,
            name: name.unwrap_or_default(),
            node: self.machine.nodes[0].id,
            cpu: is_looked_at.then(|| CpuUse::begin(process_id, thread_id)),
            // Its counts before that belong to no window.
            before: ThreadReport {
                read_bytes: [0; MAX_POOLS],
                written_bytes: [0; MAX_POOLS],
                emulated_busy_ns: 0,
                ..report.clone()
            },
        })
    }

    fn facts(&self, mut known: Known, report: ThreadReport) -> Option<(Known, ThreadFacts)> {
        let nodes = self.machine.nodes.len();
        let original = if self.is_part {
            CpuSet::empty()
        } else {
            self.masks.lock().original(known.key)?.clone()
        };
        let mut facts = ThreadFacts::idle(known.key, known.node, nodes, original);
        let before = &known.before;
        add_since(
            &mut facts,
            &self.volume,
            [&report.read_bytes, &report.written_bytes],
            [&before.read_bytes, &before.written_bytes],
        );
        facts.busy_ns = if self.machine.is_emulated() {
            let busy_ns = report.emulated_busy_ns;
            busy_ns.saturating_sub(known.before.emulated_busy_ns)
        } else if facts.moved_total() == 0 {
            // Threads that move no data are not looked at: thousands of idle threads should cost nothing.
            0
        } else {
            known.cpu.as_mut().map_or(0, CpuUse::since_last_ns)
        };
        // Each thread in turn; an actuator that moves the thread reads its affinity again.
        let is_turn = self.number % AFFINITY_TURNS == u64::from(report.slot) % AFFINITY_TURNS;
        if is_turn && !self.is_part {
            let now = task::affinity(known.key.thread_id).ok()?;
            facts.allowed_cpus = self.masks.lock().meet(known.key, &now);
        }
        known.node = self.node_of(&report).unwrap_or(known.node);
        facts.node = known.node;
        facts.pinned = report.is_delegate || self.masks.lock().is_pinned(known.key);
        facts.name = known.name.clone();
        facts.is_shared = report.is_shared;
        facts.files = files_of(&report, self.file_system);
        known.before = report;
        Some((known, facts))
    }

    /// The window that ends now, of those threads that another source looked at, which knows their nodes.
    pub fn next_part(&mut self, nodes: &HashMap<ThreadKey, NodeId>) -> Facts {
        let mut window = self.take();
        window.threads.retain_mut(|thread| {
            let node = nodes.get(&thread.key);
            thread.node = node.copied().unwrap_or(thread.node);
            node.is_some()
        });
        self.with_files(window)
    }

    fn with_files(&mut self, window: Window) -> Facts {
        let mut facts = Facts::of(window);
        facts.media = std::mem::take(&mut self.media);
        if self.watches_files {
            facts.files = files::of_window(&self.volume, &self.machine, &facts.window);
        }
        // A process that maps the session may write any counter into it.
        match facts.validate(&self.machine) {
            Ok(()) => facts,
            Err(_) => Facts::of(Window {
                threads: Vec::new(),
                nodes: Window::empty(&self.machine, 0, 0, 0).nodes,
                ..facts.window
            }),
        }
    }

    fn node_of(&self, report: &ThreadReport) -> Option<NodeId> {
        if self.machine.is_emulated() {
            let node = self.machine.nodes.get(report.emulated_node?)?;
            return Some(node.id);
        }
        self.machine.node_of_cpu(egeria_machine::CpuId(report.cpu?))
    }
}

impl FactSource for SessionSource {
    type Error = Infallible;

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, Infallible> {
        let window = self.take();
        Ok(Some(self.with_files(window)))
    }
}

impl LiveSource for SessionSource {
    fn dilation(&self) -> f64 {
        SessionSource::dilation(self)
    }

    fn start_over(&mut self) {
        self.forget_time();
    }

    fn masks(&self) -> SharedMasks {
        self.masks.clone()
    }

    fn members(&self) -> Arc<dyn Membership> {
        self.members.clone()
    }
}

impl Drop for SessionSource {
    fn drop(&mut self) {
        self.volume.end_windows();
    }
}

/// The mean values, valid for any content of the session.
fn mix(asked: AskedOfPool) -> Mix {
    let requests = asked.requests.max(1) as f64;
    Mix {
        requests: asked.requests,
        mean_bytes: asked.bytes as f64 / requests,
        write_share: (asked.writes as f64 / requests).min(1.0),
    }
}

/// On an emulated machine the CPUs are the threads' virtual ones.
fn busy_of_threads(window: &mut Window) {
    for node in &mut window.nodes {
        let here = window
            .threads
            .iter()
            .filter(|thread| thread.node == node.node);
        // A wait that ends in the next window was counted in this one.
        let within = |thread: &ThreadFacts| thread.busy_ns.min(window.duration_ns);
        node.busy_ns = here.map(within).sum();
    }
}

fn files_of(report: &ThreadReport, file_system: u32) -> Vec<FileUse> {
    let mut files: Vec<FileUse> = (report.files.iter())
        .map(|file| FileUse {
            file: FileKey {
                volume: file_system,
                inode: file.ino,
            },
            read_bytes: file.read_bytes,
            written_bytes: file.written_bytes,
        })
        .collect();
    files.sort_by_key(|file| {
        let moved = file.read_bytes.saturating_add(file.written_bytes);
        (std::cmp::Reverse(moved), file.file)
    });
    files.truncate(MAX_FILES);
    files
}
