//! Workers are stopped, and it is measured how long the others wait.

use super::calls::{Call, Observation};
use super::options::StopOptions;
use super::pause::PauseClock;
use super::report::{Notes, StackRow};
use super::stack;
use super::status_page::{StatusPage, copies_of, look_of, threads_of};
use crate::kill::processes::{AccessPath, Paths, Role, WorkerProcess};
use egeria_harness::process::check_cancel;
use egeria_harness::{Error, Result};
use egeria_stats::rng::Rng;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a worker may take to begin its calls.
const FIRST: Duration = Duration::from_millis(2);
/// How long the kernel may take to stop one.
const ORDER: Duration = Duration::from_secs(5);
/// How long anybody may take to end what he began once nobody is stopped any more.
const PATIENCE: Duration = Duration::from_secs(30);
/// Parts of the names of functions in which one waits for an inode, or for what a kernel knows of it.
const WAITING: [&str; 3] = ["lock", "forget_", "recall"];
/// How often is looked.
const TICK: Duration = Duration::from_millis(2);
/// Once in so many times nobody is stopped, to know what waits are the machine's.
const UNDISTURBED: u64 = 5;
/// How long everybody works before the first stop.
const WARM_UP: Duration = Duration::from_millis(300);

struct Observers {
    access_path: AccessPath,
    first: usize,
    process: WorkerProcess,
}

/// Everybody at work.
pub struct StopRun<'a> {
    stops: &'a StopOptions<'a>,
    page: &'a StatusPage,
    workers: Vec<WorkerProcess>,
    observers: Vec<Observers>,
    rng: Rng,
    pauses: PauseClock,
    notes: Notes,
}

impl<'a> StopRun<'a> {
    pub fn start(
        stops: &'a StopOptions<'a>,
        paths: &Paths,
        page: &'a StatusPage,
        path: &Path,
        ways: &[AccessPath],
    ) -> Result<StopRun<'a>> {
        let workers = ways.iter().enumerate().map(|(index, access_path)| {
            let arguments = arguments("stop-worker", *access_path, path, index, paths);
            WorkerProcess::play(Role::Work(*access_path), &arguments, paths)
        });
        let workers = workers.collect::<Result<_>>()?;
        let (mut observers, mut first) = (Vec::new(), 0);
        for access_path in ways.iter().copied() {
            let part = match access_path {
                AccessPath::Mount => "stop-observers-mount",
                _ => "stop-observers-direct",
            };
            let arguments = arguments(part, access_path, path, first, paths);
            let process = WorkerProcess::play(Role::Work(access_path), &arguments, paths)?;
            observers.push(Observers {
                access_path,
                first,
                process,
            });
            first += threads_of(access_path);
        }
        Ok(StopRun {
            stops,
            page,
            workers,
            observers,
            rng: Rng::of(&[stops.seed, 1]),
            pauses: PauseClock::start(),
            notes: Notes::default(),
        })
    }

    /// Stops workers one after the other.
    pub fn run(&mut self, tell: &dyn Fn(u64)) -> Result<()> {
        std::thread::sleep(WARM_UP);
        let (mut turn, mut stopped) = (0, 0);
        let deadline = self.stops.deadline;
        while stopped < self.stops.stops && deadline.is_none_or(|end| Instant::now() < end) {
            check_cancel(self.stops.cancel)?;
            turn += 1;
            match turn % UNDISTURBED {
                0 => self.let_go_on(),
                _ => stopped += u64::from(self.stop_one()?),
            }
            self.all_go_on()?;
            tell(stopped);
        }
        Ok(())
    }

    fn hold(&mut self) -> Duration {
        let (least, most) = (self.stops.hold_ms.start(), self.stops.hold_ms.end());
        Duration::from_millis(least + self.rng.below(most - least + 1))
    }

    /// Stop a worker in a call; whether it was in the middle of one that holds anything.
    fn stop_one(&mut self) -> Result<bool> {
        // The one on the mount is stopped less often: the kernel stops it behind its call.
        let count = self.workers.len() as u64;
        let mut index = self.rng.below(count) as usize;
        if self.workers[index].role.access_path() == AccessPath::Mount && self.rng.below(3) > 0 {
            index = 0;
        }
        let hold = self.hold();
        let page = self.page.worker(index);
        page.order(true);
        std::thread::sleep(FIRST + Duration::from_micros(self.rng.below(1000)));
        let process = self.workers[index].member.id();
        self.workers[index].member.signal(Signal::STOP);
        if !self.is_stopped_within(index, ORDER)? {
            let access_path = self.workers[index].role.access_path();
            let fault = format!("a worker ({access_path:?}) is not stopped within {ORDER:?}");
            self.notes.faults.push(fault);
        }
        page.order(false);
        let access_path = self.workers[index].role.access_path();
        let call = page.call().filter(|_| access_path != AccessPath::Mount);
        if let Some(call) = call {
            self.reset();
            let found = self.watch(process, call, hold);
            let waiting = self.note(access_path, call);
            if !waiting.is_empty() {
                self.note_place(found, waiting);
            }
        } else {
            self.notes.elsewhere += 1;
        }
        self.workers[index].member.signal(Signal::CONT);
        Ok(call.is_some())
    }

    /// Waits until a worker is stopped; false when it is not in time.
    fn is_stopped_within(&mut self, index: usize, limit: Duration) -> Result<bool> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Some(status) = self.workers[index].member.ended(Duration::ZERO)? {
                return Err(Error::failed(format!(
                    "a worker ended: {status}; see its message above"
                )));
            }
            if self.workers[index].member.is_stopped() {
                return Ok(true);
            }
            std::thread::sleep(TICK);
        }
        Ok(false)
    }

    /// Leave a worker stopped; where it and others are as soon as one waits longer than he should.
    fn watch(&mut self, process: u32, call: Call, hold: Duration) -> Option<StackRow> {
        let end = Instant::now() + hold;
        let mut found = None;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return found;
            }
            std::thread::sleep(if self.stops.stacks {
                rest.min(TICK)
            } else {
                rest
            });
            if self.stops.stacks && found.is_none() && !self.waiting(call).is_empty() {
                found = Some(self.place(process));
            }
        }
    }

    fn place(&mut self, process: u32) -> StackRow {
        // The last observers use the engine, where it is used: they wait themselves, and not in the mount.
        let observers = self
            .observers
            .last_mut()
            .map(|last| last.process.member.id());
        let servers = [self.stops.mount, observers].into_iter().flatten();
        let server_stacks = servers.flat_map(stack::of_process).filter(|stack| {
            let is_of_waiting = |name: &String| WAITING.iter().any(|part| name.contains(part));
            stack.iter().any(is_of_waiting)
        });
        StackRow {
            stack: stack::of_process(process).pop().unwrap_or_default(),
            server_stacks: server_stacks.collect(),
            ..StackRow::default()
        }
    }

    /// Threads of observers, each with its access path, its look and its number.
    fn threads(&self) -> impl Iterator<Item = (AccessPath, Observation, usize)> {
        self.observers.iter().flat_map(|observers| {
            let (access_path, first) = (observers.access_path, observers.first);
            (0..threads_of(access_path)).map(move |index| {
                (
                    access_path,
                    look_of(copies_of(access_path), index),
                    first + index,
                )
            })
        })
    }

    fn reset(&self) {
        for (_, _, number) in self.threads() {
            self.page.observer(number).time.reset();
        }
        self.pauses.reset();
    }

    /// Who waits longer than he should.
    fn waiting(&self, call: Call) -> Vec<(AccessPath, Observation)> {
        let wanted_ns = (self.stops.wanted_wait_ms() * 1e6) as u64 + self.pauses.longest_ns();
        let waits = |number| self.page.observer(number).time.longest_ns() > wanted_ns;
        let all = self
            .threads()
            .filter(|(access_path, look, _)| !look.may_wait_for(*access_path, call));
        all.filter(|(_, _, number)| waits(*number))
            .map(|(access_path, look, _)| (access_path, look))
            .collect()
    }

    /// What everybody saw of a stop; who waited longer than he should.
    fn note(&mut self, access_path: AccessPath, call: Call) -> Vec<(AccessPath, Observation)> {
        let mut waiting = self.waiting(call);
        waiting.sort_unstable();
        waiting.dedup();
        self.notes.pause_ns = self.notes.pause_ns.max(self.pauses.longest_ns());
        let counts = self.notes.stops.entry((access_path, call)).or_default();
        counts.0 += 1;
        counts.1 += u64::from(!waiting.is_empty());
        let threads: Vec<_> = self.threads().collect();
        for (access_path, look, number) in threads {
            let longest_ns = self.page.observer(number).time.longest_ns();
            let seen = self.notes.seen.entry((access_path, look)).or_default();
            if look.may_wait_for(access_path, call) {
                seen.allowed_ns = seen.allowed_ns.max(Some(longest_ns));
            } else {
                seen.wait_ns = seen.wait_ns.max(longest_ns);
            }
        }
        for who in &waiting {
            self.notes.seen.entry(*who).or_default().waits += 1;
        }
        waiting
    }

    /// Where a stopped process is that others wait for.
    fn note_place(&mut self, found: Option<StackRow>, waiting: Vec<(AccessPath, Observation)>) {
        let found = found.unwrap_or_default();
        let paths = self.notes.stacks.entry(found.stack.clone());
        let paths = paths.or_insert(found);
        paths.stops += 1;
        for (access_path, look) in waiting {
            let who = format!("{} ({})", look.name(), access_path.name());
            if !paths.waiting_calls.contains(&who) {
                paths.waiting_calls.push(who);
            }
        }
    }

    /// As long as a stop, but nobody is stopped.
    fn let_go_on(&mut self) {
        self.reset();
        std::thread::sleep(self.hold());
        let threads: Vec<_> = self.threads().collect();
        for (access_path, look, number) in threads {
            let longest_ns = self.page.observer(number).time.longest_ns();
            let seen = self.notes.seen.entry((access_path, look)).or_default();
            seen.undisturbed_ns = seen.undisturbed_ns.max(longest_ns);
        }
    }

    /// Waits until everybody has ended the call that was under way.
    fn all_go_on(&mut self) -> Result<()> {
        let before: Vec<_> = self
            .threads()
            .map(|(access_path, look, number)| {
                (
                    access_path,
                    look,
                    number,
                    self.page.observer(number).time.begun_ns(),
                )
            })
            .collect();
        let deadline = Instant::now() + PATIENCE;
        for (access_path, look, number, begun_ns) in before {
            let time = &self.page.observer(number).time;
            while begun_ns != 0 && time.begun_ns() == begun_ns {
                check_cancel(self.stops.cancel)?;
                if Instant::now() > deadline {
                    return Err(Error::failed(format!(
                        "{} ({access_path:?}) still waits {PATIENCE:?} after nobody is stopped any more",
                        look.name()
                    )));
                }
                std::thread::sleep(TICK);
            }
        }
        Ok(())
    }

    /// Everybody ends; what was noted.
    pub fn end(mut self) -> Result<Notes> {
        let observers = self
            .observers
            .iter_mut()
            .map(|observers| &mut observers.process);
        for process in self.workers.iter_mut().chain(observers) {
            process.member.signal(Signal::CONT);
            match process.member.ended(PATIENCE)? {
                Some(status) => self.notes.faults.extend(process.fault(status)),
                None => self
                    .notes
                    .faults
                    .push(format!("a process ({:?}) does not end", process.role)),
            }
        }
        let mut failed: u64 = (0..self.workers.len())
            .map(|index| self.page.worker(index).faults.load(Ordering::Relaxed))
            .sum();
        let threads: Vec<_> = self.threads().collect();
        for (access_path, look, number) in threads {
            let page = self.page.observer(number);
            failed += page.faults.load(Ordering::Relaxed);
            let seen = self.notes.seen.entry((access_path, look)).or_default();
            seen.calls += page.calls.load(Ordering::Relaxed);
        }
        if failed > 0 {
            self.notes
                .faults
                .push(format!("{failed} calls failed; see their lines above"));
        }
        Ok(self.notes)
    }
}

/// Command line of a part: its name, the status page, a number, and the pool for who has it attached.
fn arguments(
    part: &str,
    access_path: AccessPath,
    page: &Path,
    number: usize,
    paths: &Paths,
) -> Vec<PathBuf> {
    let first = [part.into(), page.to_owned(), number.to_string().into()];
    let pool = paths
        .pool
        .clone()
        .filter(|_| access_path == AccessPath::Engine);
    first.into_iter().chain(pool).collect()
}
