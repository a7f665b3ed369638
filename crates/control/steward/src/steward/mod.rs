//! The loop, on a thread of its own.

mod report;

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem::Discriminant;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use egeria_actuators::{Departures, GatherProgress, Journal, MemoryMigration, ThreadAffinity};
use egeria_facts::{Facts, ThreadKey};
use egeria_pages::found_files::FoundFiles;
use egeria_policy::KeptBecause;
use egeria_policy::control::{Actuator, ControlLoop, Turn};
use egeria_policy::mba::UnboundBecause;
use egeria_policy::planner::{Place, System};
use egeria_proc::LiveSource;
use egeria_trace::Writer;

use crate::error::{Result, StewardError};
use crate::files::{begin_trace, of_journal, open_log, unix_ns};
use crate::idle::{self, IdlePools};
use crate::kept::KeptProcesses;
use crate::kinds::{KindLine, KnownKinds};
use crate::log::*;
use crate::memories;
use crate::mounts::MountWatch;
use crate::options::StewardOptions;
use crate::pace::{self, Pace};
use crate::place;
use crate::pulse::Pulse;
use crate::sign::SignOfLife;
use crate::summary::Summary;
use crate::target::Target;

const MIN_WINDOW_NS: u64 = 1_000_000;
const MAX_WINDOW_NS: u64 = 3_600_000_000_000;
/// A running steward, on a thread of its own. Dropping it stops it like [`Steward::stop`].
pub struct Steward {
    orders: Sender<Order>,
    thread: Option<JoinHandle<Summary>>,
    summary: Arc<Mutex<Summary>>,
    pulse: Pulse,
}

enum Order {
    Stop,
    StartOver(Sender<()>),
}

impl Steward {
    /// Begins to watch threads. First undoes what a killed steward left.
    ///
    /// # Errors
    /// When another steward works on the volume, or a file cannot be written.
    pub fn start(target: Target, options: StewardOptions) -> Result<Steward> {
        let work = Work::begin(&target, options)?;
        let (summary, pulse) = (work.summary.clone(), work.pulse.clone());
        let (orders, inbox) = channel();
        let thread = std::thread::Builder::new()
            .name("egeria-steward".to_owned())
            .spawn(move || work.run(&inbox))
            .map_err(StewardError::Thread)?;
        Ok(Steward {
            orders,
            thread: Some(thread),
            summary,
            pulse,
        })
    }

    /// What it did so far.
    pub fn summary(&self) -> Summary {
        lock(&self.summary).clone()
    }

    /// The summary of its work so far, updated while it runs, for callers that look from time to time.
    pub fn shared_summary(&self) -> Arc<Mutex<Summary>> {
        Arc::clone(&self.summary)
    }

    /// Says, whenever it is called, whether the steward still looks: false once a look is long overdue.
    pub fn pulse(&self) -> impl Fn() -> bool + Send + 'static {
        let pulse = self.pulse.clone();
        move || pulse.beats_at(Instant::now())
    }

    /// Drops the windows so far and begins a new one now, for example after a preparation. Threads stay where they
    /// are.
    pub fn start_over(&self) {
        let (done, wait) = channel();
        if self.orders.send(Order::StartOver(done)).is_ok() {
            let _ = wait.recv();
        }
    }

    /// Stops, and gives every thread the CPUs that its owner allowed.
    pub fn stop(mut self) -> Summary {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<Summary> {
        let _ = self.orders.send(Order::Stop);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Steward {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

struct Work {
    source: Box<dyn LiveSource>,
    /// When the last look ended, and the CPU time that it took.
    looked: (Instant, Duration),
    affinity: ThreadAffinity,
    memory: Option<MemoryMigration>,
    /// Actuators of the volume, or of files.
    of_data: Vec<Box<dyn Actuator + Send>>,
    /// Files outside of volumes that are in use, for their names.
    files: Option<FoundFiles>,
    control: ControlLoop,
    /// Measures pools while the volume is idle.
    idle_pools: Option<IdlePools>,
    /// It watches processes instead of a volume.
    is_of_processes: bool,
    options: StewardOptions,
    log: LogWriter,
    trace: Option<Writer>,
    /// The facts of the window before, with short-lived processes counted at their parents.
    before: Option<Facts>,
    moved: HashMap<ThreadKey, u64>,
    done: u64,
    /// The last decision about clusters, if they are considered.
    placement: Option<String>,
    /// Why threads stayed: how often, and the last time in words, by kind.
    kept: HashMap<Discriminant<KeptBecause>, (u64, String)>,
    /// Processes left as they are in the last window.
    kept_processes: KeptProcesses,
    /// Short-lived processes of the last window.
    known_kinds: KnownKinds,
    /// Why programs that overload a memory were not bounded in the last window.
    unbound: Option<UnboundBecause>,
    mounts: MountWatch,
    sign: SignOfLife,
    summary: Arc<Mutex<Summary>>,
    pulse: Pulse,
}

impl Work {
    fn begin(target: &Target, mut options: StewardOptions) -> Result<Work> {
        if !(MIN_WINDOW_NS..=MAX_WINDOW_NS).contains(&options.window_ns) {
            return Err(StewardError::Window(options.window_ns));
        }
        let policy: System = options.policy.parse()?;
        target.check(&options.machine)?;
        let idle_pools = IdlePools::begin(target, &options);
        for (node, found) in idle_pools.iter().flat_map(IdlePools::remembered) {
            options.machine.set_pool_bandwidth(node, found);
        }
        let volume = target.volume();
        let path = options.decision_log.clone();
        let path = path.unwrap_or_else(|| place::decision_log_path(volume));
        let journal = place::make_runtime_directory()?.join(place::journal_name(volume));
        let (journal, restored) = Journal::open(&journal, &path).map_err(of_journal)?;
        let trace = options.record.as_deref();
        let trace = trace.map(|path| begin_trace(path, volume, &options));
        // The recording first: if it cannot be begun, the log of the last steward must stay.
        let files = trace
            .transpose()
            .and_then(|trace| Ok((open_log(&path)?, trace)));
        let (mut log, trace) = match files {
            Ok(files) => files,
            Err(error) => {
                // A journal that stays would say that a steward runs.
                journal.remove();
                return Err(error);
            }
        };
        let mut unseen = Vec::new();
        let source = target.source(&options, (&path, Some(&journal)), &mut unseen);
        let of_files = source.actuators(&options);
        let (mut source, accesses, files) = (source.facts, source.accesses, source.files);
        let machine = &options.machine;
        let mut sources = Vec::new();
        let stages = &options.settings.stages;
        let counts = options.settings.nthread.stages.pm || stages.mba || options.only_records();
        if counts && !machine.is_emulated() {
            source = memories::counted(source, machine, (&mut sources, &mut unseen));
        }
        let bounds = target.bounds(&options, source.members(), &journal);
        let mut affinity = ThreadAffinity::new(machine, source.masks(), source.members(), journal);
        let mut memory = None;
        sources.extend(accesses.iter().map(|accesses| accesses.description.clone()));
        if let Some(accesses) = accesses.filter(|_| stages.clusters) {
            let departures = Departures::default();
            affinity = affinity.with_processes(departures.clone());
            memory = Some(accesses.actuator(&options, source.as_ref(), departures));
        }
        let mut of_data = target.actuators(&options);
        of_data.extend(of_files);
        let no_bounds = bounds
            .map(|bounds| of_data.extend(bounds.map(|bounds| Box::new(bounds) as _)))
            .err();
        let mut kinds = affinity.kinds().to_vec();
        kinds.extend(memory.iter().flat_map(Actuator::kinds));
        kinds.extend(of_data.iter().flat_map(|actuator| actuator.kinds()));
        let mut settings = options.settings.clone();
        // Neither volumes nor the page cache keep copies of files.
        settings.relocation.replicas = false;
        let control = ControlLoop::new(machine, policy.make(), settings.clone(), &kinds);
        let unavailable = control.unavailable();
        let off = unavailable.iter();
        let off: Vec<String> = off
            .map(|off| target.why_off(off, &options, no_bounds.as_deref()))
            .collect();
        let acting = settings.without(unavailable);
        let idle = |name: &String| acting.check_acts(name, Place::Live).err();
        if let Some(setting) = options.given.iter().find_map(idle) {
            // A journal that stays would say that a steward runs.
            drop(source);
            affinity.undo();
            return Err(StewardError::Idle { setting, off });
        }
        let summary = Summary {
            restored_at_start: restored as u64,
            unavailable: off,
            unseen,
            sources,
            ..Summary::default()
        };
        let _ = log.write(&Record::Start {
            steward: std::process::id(),
            volume: volume.map(|volume| volume.to_string()),
            machine: machine.name.clone(),
            emulated: machine.is_emulated(),
            policy: options.policy.clone(),
            unavailable: unavailable.to_vec(),
            off: summary.unavailable.clone(),
            sources: summary.sources.clone(),
            settings: Box::new(options.settings.clone()),
            window_ns: options.window_ns,
            time_unix_ns: unix_ns(),
        });
        Ok(Work {
            affinity,
            memory,
            of_data,
            files,
            control,
            idle_pools,
            is_of_processes: volume.is_none(),
            log,
            trace,
            source,
            looked: (Instant::now(), Duration::ZERO),
            options,
            before: None,
            moved: HashMap::new(),
            done: 0,
            placement: None,
            kept: HashMap::new(),
            kept_processes: KeptProcesses::default(),
            known_kinds: KnownKinds::default(),
            unbound: None,
            mounts: target.mounts(),
            sign: SignOfLife::default(),
            summary: Arc::new(Mutex::new(summary)),
            pulse: Pulse::new(Instant::now()),
        })
    }

    fn run(mut self, inbox: &Receiver<Order>) -> Summary {
        let host_ns = self.options.window_ns as f64 * self.source.dilation();
        let length = Duration::from_nanos(host_ns as u64);
        let mut pace = Pace::begin(length, Instant::now());
        loop {
            self.pulse.due(pace.next);
            let wait = pace.next.saturating_duration_since(Instant::now());
            match inbox.recv_timeout(wait) {
                Ok(Order::StartOver(done)) => {
                    self.start_over();
                    pace = Pace::begin(length, Instant::now());
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look();
                    pace.looked(Instant::now(), self.looked);
                }
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
        }
    }

    fn facts(&mut self) -> Option<Facts> {
        let before = pace::cpu_time();
        let facts = match self.source.next_facts() {
            Ok(facts) => facts,
            Err(never) => match never {},
        };
        let looked = pace::cpu_time().saturating_sub(before);
        tracing::debug!(looked_ns = looked.as_nanos() as u64, "looked");
        self.looked = (Instant::now(), looked);
        facts
    }

    /// The last window: observed and recorded, but not acted upon.
    fn look_last(&mut self) {
        let Some(facts) = self.facts() else { return };
        if facts.window.duration_ns < MIN_WINDOW_NS {
            return;
        }
        self.record(&facts);
        self.count(&facts, None);
    }

    /// A full disk loses windows of the recording, but does not stop the work; there may be room again.
    fn record(&mut self, facts: &Facts) {
        if let Some(trace) = &mut self.trace {
            let _ = trace.append(facts);
        }
    }

    fn start_over(&mut self) {
        self.source.start_over();
        self.before = None;
        self.control.start_over();
        self.moved.clear();
        self.done = 0;
        self.kept.clear();
        self.kept_processes = KeptProcesses::default();
        self.known_kinds = KnownKinds::default();
        self.sign = SignOfLife::default();
        let mut summary = lock(&self.summary);
        *summary = Summary {
            restored_at_start: summary.restored_at_start,
            unavailable: std::mem::take(&mut summary.unavailable),
            unseen: std::mem::take(&mut summary.unseen),
            sources: std::mem::take(&mut summary.sources),
            ..Summary::default()
        };
    }

    /// One turn: facts, decision, actions, log.
    fn look(&mut self) {
        let Some(facts) = self.facts() else { return };
        self.record(&facts);
        let mut actuators: Vec<&mut dyn Actuator> = vec![&mut self.affinity];
        let memory = self.memory.as_mut();
        actuators.extend(memory.map(|memory| memory as &mut dyn Actuator));
        for actuator in &mut self.of_data {
            actuators.push(actuator.as_mut());
        }
        let turn = self.control.turn(&facts, &mut actuators);
        self.look_at_idle_pools(&facts, &turn);
        if self.memory.is_some() {
            self.placement = Some(turn.decision.placement.decision.to_string());
        }
        for record in &turn.actions {
            tracing::debug!(outcome = ?record.outcome, "{}", record.action);
        }
        for result in turn.results.iter().filter(|result| result.missed) {
            tracing::info!(
                "brought less than half of what was expected: {}",
                result.action
            );
        }
        self.mounts.pass();
        self.count(&facts, Some(&turn));
        let is_idle = facts.moved_total() == 0;
        let is_quiet = turn.actions.is_empty() && turn.results.is_empty() && is_idle;
        let machine = self.control.machine();
        let kinds = KindLine::of_window(machine, &facts, Some(&turn.decision));
        let unbound = turn.decision.mba.unmet();
        let are_news = [
            self.kept_processes.is_news(&turn.decision.placement.kept),
            self.known_kinds.is_news(&kinds),
            unbound.is_some() != self.unbound.is_some(),
            self.sign.is_due(machine, &facts.window),
        ];
        self.unbound = unbound;
        if !is_quiet || are_news.contains(&true) || !self.arriving().is_empty() {
            self.sign.logged(&facts.window);
            let record = WindowRecord {
                kinds,
                ..self.window_record(&facts, turn)
            };
            let _ = self.log.write(&Record::Window(Box::new(record)));
        }
        self.before = Some(match facts.credited() {
            Cow::Owned(credited) => credited,
            Cow::Borrowed(_) => facts,
        });
    }

    /// Memory of processes that went on in this window.
    fn arriving(&self) -> &[GatherProgress] {
        let memory = self.memory.as_ref();
        memory.map_or(&[], MemoryMigration::progress)
    }

    /// Measures pools of unknown speed while the volume is idle, and takes the results.
    fn look_at_idle_pools(&mut self, facts: &Facts, turn: &Turn) {
        let Some(pools) = &mut self.idle_pools else {
            return;
        };
        let unknown = turn
            .decision
            .threads
            .notes
            .iter()
            .filter_map(idle::unknown_of);
        let Some(outcome) = pools.look(facts, unknown) else {
            return;
        };
        if let Ok(found) = &outcome.found {
            self.control.set_pool_bandwidth(outcome.node, found.clone());
        }
        tracing::info!("{outcome}");
        lock(&self.summary).add_note(outcome.to_string());
    }

    fn finish(mut self) -> Summary {
        self.look_last();
        if let Some(trace) = self.trace.take() {
            let _ = trace.finish();
        }
        let mut summary = lock(&self.summary).clone();
        summary.no_moves_because = self.no_moves_because(&summary);
        let windows = summary.windows;
        let Work {
            source,
            of_data,
            mut affinity,
            mut log,
            done,
            ..
        } = self;
        // Sources and actuators undo their changes; the last removes the journal.
        drop(source);
        drop(of_data);
        summary.restored = affinity.undo() as u64;
        let _ = log.write(&Record::Stop {
            restored: summary.restored,
            windows,
            actions: done,
        });
        summary
    }
}
