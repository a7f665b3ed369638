//! The loop.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use egeria_fs::Volume;
use egeria_machine::Machine;
use egeria_policy::nthread::{self, Configuration, Settings};
use egeria_policy::{Move, Plan};
use egeria_watch::live::{LiveWatch, Scope};
use egeria_watch::trace::{TraceHeader, Writer};
use egeria_window::{ThreadFacts, ThreadKey, Window};

use crate::error::{Result, StewardError};
use crate::grants::Grants;
use crate::hands::Hands;
use crate::log::*;
use crate::place;
use crate::seen;
use crate::summary::{MOST_WINDOWS, NodeRates, Summary, WindowSummary};

const LEAST_WINDOW_NS: u64 = 1_000_000;
const MOST_WINDOW_NS: u64 = 3_600_000_000_000;

/// How a steward works.
#[derive(Clone, Debug)]
pub struct StewardOptions {
    /// Which features are on.
    pub configuration: Configuration,
    /// The policy's settings.
    pub settings: Settings,
    /// ns of machine time between two looks.
    pub window_ns: u64,
    /// The machine.
    pub machine: Machine,
    /// Whose threads.
    pub scope: Scope,
    /// Record the windows into this file.
    pub record: Option<PathBuf>,
    /// Where decisions are written; `None`: where `explain` and `top` look.
    pub decision_log: Option<PathBuf>,
}

/// A steward at work in a thread of its own. Dropped, it stops as with [`Steward::stop`].
pub struct Steward {
    orders: Sender<Order>,
    thread: Option<JoinHandle<Summary>>,
    summary: Arc<Mutex<Summary>>,
}

enum Order {
    Stop,
    StartOver(Sender<()>),
}

impl Steward {
    /// Begin to look after a volume's threads. Puts back first what a steward that was killed had done.
    ///
    /// # Errors
    /// When another one works on the volume, or a file cannot be written.
    pub fn start(volume: Arc<Volume>, options: StewardOptions) -> Result<Steward> {
        let work = Work::begin(volume, options)?;
        let summary = work.summary.clone();
        let (orders, inbox) = channel();
        let thread = std::thread::Builder::new()
            .name("egeria-steward".to_owned())
            .spawn(move || work.run(&inbox))
            .map_err(StewardError::Thread)?;
        Ok(Steward {
            orders,
            thread: Some(thread),
            summary,
        })
    }

    /// What it did so far.
    pub fn summary(&self) -> Summary {
        lock(&self.summary).clone()
    }

    /// Forget the windows so far and begin a new one now, as when a preparation is over. Threads stay
    /// where they are.
    pub fn start_over(&self) {
        let (done, wait) = channel();
        if self.orders.send(Order::StartOver(done)).is_ok() {
            let _ = wait.recv();
        }
    }

    /// Stop, and give every thread the CPUs its owner gave it.
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
    watch: LiveWatch,
    hands: Hands,
    options: StewardOptions,
    log: LogWriter,
    trace: Option<Writer>,
    plan: Plan,
    before: Option<(Window, Vec<MoveRecord>)>,
    moved: HashMap<ThreadKey, u64>,
    summary: Arc<Mutex<Summary>>,
}

impl Work {
    fn begin(volume: Arc<Volume>, options: StewardOptions) -> Result<Work> {
        if !(LEAST_WINDOW_NS..=MOST_WINDOW_NS).contains(&options.window_ns) {
            return Err(StewardError::Window(options.window_ns));
        }
        let session = volume.emulation().node_count();
        let given = options.machine.nodes.len();
        if options.machine.is_emulated() != volume.emulation().is_configured()
            || (options.machine.is_emulated() && session != given)
        {
            return Err(StewardError::OtherMachine { session, given });
        }
        let path = options.decision_log.clone();
        let path = path.unwrap_or_else(|| place::decision_log_path(volume.uuid()));
        let (grants, restored) = Grants::take(volume.uuid(), &path)?;
        let (log, trace) = match begin_files(&path, &volume, &options) {
            Ok(files) => files,
            Err(error) => {
                // It says that somebody works.
                grants.remove();
                return Err(error);
            }
        };
        Ok(Work {
            hands: Hands::new(grants),
            log,
            trace,
            watch: LiveWatch::begin(volume, options.machine.clone(), options.scope),
            options,
            plan: Plan::default(),
            before: None,
            moved: HashMap::new(),
            summary: Arc::new(Mutex::new(Summary {
                restored_at_start: restored as u64,
                ..Summary::default()
            })),
        })
    }

    fn run(mut self, inbox: &Receiver<Order>) -> Summary {
        let host_ns = self.options.window_ns as f64 * self.watch.dilation();
        let length = Duration::from_nanos(host_ns as u64);
        let mut next = Instant::now() + length;
        loop {
            let wait = next.saturating_duration_since(Instant::now());
            match inbox.recv_timeout(wait) {
                Ok(Order::StartOver(done)) => {
                    self.start_over();
                    next = Instant::now() + length;
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look();
                    // A window that came late shifts the others: none is ever cut short.
                    next = (next + length).max(Instant::now() + length / 2);
                }
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
        }
    }

    /// What happened since the last look: seen and recorded, but nothing is done about it.
    fn look_last(&mut self) {
        let window = self.watch.take();
        if window.duration_ns < LEAST_WINDOW_NS {
            return;
        }
        if let Some(trace) = &mut self.trace {
            let _ = trace.append(&window);
        }
        self.count(&window, &Plan::default(), &[]);
    }

    fn start_over(&mut self) {
        self.watch.forget_time();
        self.before = None;
        self.plan = Plan::default();
        self.moved.clear();
        let mut summary = lock(&self.summary);
        *summary = Summary {
            restored_at_start: summary.restored_at_start,
            ..Summary::default()
        };
    }

    /// One turn: window, plan, act, say.
    fn look(&mut self) {
        let mut window = self.watch.take();
        self.plan.carry_to(&mut window);
        if let Some(trace) = &mut self.trace {
            // A full disk costs windows of the recording, not the work; there may be room again.
            let _ = trace.append(&window);
        }
        let plan = match self.options.configuration {
            Configuration::Off => Plan::default(),
            _ => nthread::plan(self.watch.machine(), &window, &self.options.settings),
        };
        let moves = self.act(&window, &plan);
        self.hands.forget_gone(&self.watch);
        self.count(&window, &plan, &moves);
        let results = self.results(&window);
        let quiet = moves.is_empty()
            && results.is_empty()
            && window.read_total() + window.written_total() == 0;
        if !quiet {
            let decision = self.decision(&window, &plan, &moves, results);
            let _ = self.log.write(&Record::Window(Box::new(decision)));
        }
        self.before = Some((window, moves));
        self.plan = plan;
    }

    fn act(&mut self, window: &Window, plan: &Plan) -> Vec<MoveRecord> {
        let moves = plan.moves.iter().map(|each| {
            let outcome = self.hands.bring(&mut self.watch, each.thread, each.to);
            let facts = window.thread(each.thread);
            MoveRecord {
                thread: each.thread,
                name: facts.map_or_else(String::new, |facts| facts.name.clone()),
                from: each.from,
                to: each.to,
                because: each.reason.to_string(),
                reason: each.reason.clone(),
                expected_local_share: facts
                    .and_then(|facts| expected_local_share(&self.options.machine, facts, each)),
                outcome,
            }
        });
        moves.collect()
    }

    fn count(&mut self, window: &Window, plan: &Plan, moves: &[MoveRecord]) {
        let mut summary = lock(&self.summary);
        summary.windows += 1;
        let done = || moves.iter().filter(|each| each.outcome == Outcome::Done);
        summary.moves += done().count() as u64;
        summary.moves_failed += (moves.len() - done().count()) as u64;
        for each in done() {
            *self.moved.entry(each.thread).or_default() += 1;
            let name = reason_name(&each.reason);
            match summary.reasons.iter_mut().find(|(known, _)| known == name) {
                Some((_, count)) => *count += 1,
                None => summary.reasons.push((name.to_owned(), 1)),
            }
        }
        summary.moved_threads = self.moved.len() as u64;
        summary.moves_per_thread_most = self.moved.values().copied().max().unwrap_or(0);
        if summary.series.len() >= MOST_WINDOWS {
            summary.series.remove(0);
        }
        let nodes = seen::nodes(&self.options.machine, window, plan);
        summary.series.push(WindowSummary {
            start_ns: window.start_ns,
            duration_ns: window.duration_ns,
            moves: done().count() as u32,
            local_share: window.local_share(&self.options.machine),
            nodes: nodes
                .iter()
                .map(|node| NodeRates {
                    node: node.node,
                    read_bytes_s: node.read_bytes_s,
                    written_bytes_s: node.written_bytes_s,
                    cpu_share: node.cpu_share,
                })
                .collect(),
        });
    }

    fn results(&self, window: &Window) -> Vec<ResultRecord> {
        let Some((before, moves)) = &self.before else {
            return Vec::new();
        };
        let machine = &self.options.machine;
        let done = moves.iter().filter(|each| each.outcome == Outcome::Done);
        let results = done.map(|each| {
            let then = before.thread(each.thread);
            let now = window.thread(each.thread);
            let bytes_s = |window: &Window, facts: Option<&ThreadFacts>| {
                facts.map_or(0.0, |facts| window.rate_bytes_s(facts.moved_total()))
            };
            ResultRecord {
                thread: each.thread,
                to: each.to,
                node: now.map(|facts| facts.node),
                bytes_s_before: bytes_s(before, then),
                bytes_s_after: bytes_s(window, now),
                local_share_before: then.and_then(|facts| facts.local_share(machine)),
                local_share_after: now.and_then(|facts| facts.local_share(machine)),
                expected_local_share: each.expected_local_share,
            }
        });
        results.collect()
    }

    fn decision(
        &self,
        window: &Window,
        plan: &Plan,
        moves: &[MoveRecord],
        results: Vec<ResultRecord>,
    ) -> Decision {
        Decision {
            time_unix_ns: unix_ns(),
            moves: moves.to_vec(),
            results,
            ..Decision::seen(&self.options.machine, window, plan)
        }
    }

    fn finish(mut self) -> Summary {
        self.look_last();
        if let Some(trace) = self.trace.take() {
            let _ = trace.finish();
        }
        let restored = self.hands.undo(&mut self.watch) as u64;
        let mut summary = lock(&self.summary).clone();
        summary.restored = restored;
        let _ = self.log.write(&Record::Stop {
            restored,
            windows: summary.windows,
            moves: summary.moves,
        });
        summary
    }
}

/// The recording first: what cannot be begun must not replace the log of the last steward.
fn begin_files(
    log: &Path,
    volume: &Volume,
    options: &StewardOptions,
) -> Result<(LogWriter, Option<Writer>)> {
    let trace = options
        .record
        .as_deref()
        .map(|path| begin_trace(path, volume, options))
        .transpose()?;
    let mut log = open_log(log)?;
    let _ = log.write(&start_record(volume, options));
    Ok((log, trace))
}

fn open_log(path: &Path) -> Result<LogWriter> {
    LogWriter::create(path).map_err(|error| StewardError::File {
        what: "write the decision log",
        path: path.to_owned(),
        error,
        mend: "choose a file you may write to",
    })
}

fn begin_trace(path: &Path, volume: &Volume, options: &StewardOptions) -> Result<Writer> {
    let header = TraceHeader {
        volume: Some(volume.uuid()),
        command: Vec::new(),
        configuration: options.configuration.to_string(),
        started_unix_ns: unix_ns(),
    };
    Writer::create(path, &options.machine, &header)
        .map_err(|error| StewardError::Record(error.to_string()))
}

fn start_record(volume: &Volume, options: &StewardOptions) -> Record {
    Record::Start {
        steward: std::process::id(),
        volume: volume.uuid().to_string(),
        machine: options.machine.name.clone(),
        emulated: options.machine.is_emulated(),
        configuration: options.configuration.to_string(),
        settings: options.settings.clone(),
        window_ns: options.window_ns,
        time_unix_ns: unix_ns(),
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// What of the thread's bytes is local on its new node: what it reads from there, and all it writes.
fn expected_local_share(machine: &Machine, facts: &ThreadFacts, each: &Move) -> Option<f64> {
    let read = *facts.read_bytes.get(machine.index_of(each.to)?)?;
    let all = facts.moved_total();
    (all > 0).then(|| (read as f64 + facts.written_total() as f64) / all as f64)
}

fn reason_name(reason: &egeria_policy::Reason) -> &'static str {
    use egeria_policy::Reason;
    match reason {
        Reason::RemoteReads { .. } => "remote_reads",
        Reason::ContentionOver { .. } => "contention_over",
        Reason::PmContention { .. } => "pm_contention",
        Reason::CpuContention { .. } => "cpu_contention",
    }
}
