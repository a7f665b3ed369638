//! Who stops the workers, and looks how long the others wait.

use super::board::{Board, copies_of, look_of, threads_of};
use super::calls::{Call, Look};
use super::report::{Notes, PlaceRow, WANTED_WAIT_MS};
use super::stack;
use super::{Stops, arguments};
use crate::kill::crew::{Crew, Place, Way};
use crate::kill::plan::Dice;
use egeria_harness::process::check_cancel;
use egeria_harness::{Error, Result};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a worker may take to begin its calls.
const FIRST: Duration = Duration::from_millis(2);
/// How long the kernel may take to stop one.
const ORDER: Duration = Duration::from_secs(5);
/// How long anybody may take to end what he began once nobody is stopped any more.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often is looked.
const TICK: Duration = Duration::from_millis(2);
/// Once in so many times nobody is stopped, to know what waits are the machine's.
const UNDISTURBED: u64 = 5;
/// How long everybody works before the first stop.
const WARM_UP: Duration = Duration::from_millis(300);
const WANTED_NS: u64 = (WANTED_WAIT_MS * 1e6) as u64;

struct Observers {
    way: Way,
    first: usize,
    crew: Crew,
}

/// Everybody at work.
pub struct Watch<'a> {
    stops: &'a Stops<'a>,
    board: &'a Board,
    workers: Vec<Crew>,
    observers: Vec<Observers>,
    dice: Dice,
    notes: Notes,
}

impl<'a> Watch<'a> {
    pub fn start(
        stops: &'a Stops<'a>,
        place: &Place,
        board: &'a Board,
        path: &Path,
        ways: &[Way],
    ) -> Result<Watch<'a>> {
        let workers = ways.iter().enumerate().map(|(index, way)| {
            let arguments = arguments("stop-worker", *way, path, index, place);
            Crew::play(*way, &arguments, place)
        });
        let workers = workers.collect::<Result<_>>()?;
        let (mut observers, mut first) = (Vec::new(), 0);
        for way in ways.iter().copied() {
            let part = match way {
                Way::Mount => "stop-observers-mount",
                _ => "stop-observers-direct",
            };
            let arguments = arguments(part, way, path, first, place);
            let crew = Crew::play(way, &arguments, place)?;
            observers.push(Observers { way, first, crew });
            first += threads_of(way);
        }
        Ok(Watch {
            stops,
            board,
            workers,
            observers,
            dice: Dice(stops.seed, 1 << 40),
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
        Duration::from_millis(least + self.dice.below(most - least + 1))
    }

    /// Stop a worker in a call; whether it was in the middle of one that holds anything.
    fn stop_one(&mut self) -> Result<bool> {
        // The one on the mount is stopped less often: the kernel stops it behind its call.
        let count = self.workers.len() as u64;
        let mut index = self.dice.below(count) as usize;
        if self.workers[index].way == Way::Mount && self.dice.below(3) > 0 {
            index = 0;
        }
        let hold = self.hold();
        let page = self.board.worker(index);
        page.order(true);
        std::thread::sleep(FIRST + Duration::from_micros(self.dice.below(1000)));
        let process = self.workers[index].id();
        signal(process, libc::SIGSTOP);
        if !self.is_stopped_within(index, ORDER)? {
            let way = self.workers[index].way;
            let fault = format!("a worker ({way:?}) is not stopped within {ORDER:?}");
            self.notes.faults.push(fault);
        }
        page.order(false);
        let way = self.workers[index].way;
        let call = page.call().filter(|_| way != Way::Mount);
        if let Some(call) = call {
            self.reset();
            std::thread::sleep(hold);
            let waiting = self.note(way, call);
            if !waiting.is_empty() {
                self.note_place(process, waiting);
            }
        } else {
            self.notes.elsewhere += 1;
        }
        signal(process, libc::SIGCONT);
        Ok(call.is_some())
    }

    /// Waits until a worker is stopped; false when it is not in time.
    fn is_stopped_within(&mut self, index: usize, limit: Duration) -> Result<bool> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Some(status) = self.workers[index].ended(Duration::ZERO)? {
                return Err(Error::failed(format!(
                    "a worker ended: {status}; see its message above"
                )));
            }
            if is_stopped(self.workers[index].id()) {
                return Ok(true);
            }
            std::thread::sleep(TICK);
        }
        Ok(false)
    }

    fn place(&self, process: u32) -> PlaceRow {
        if !self.stops.stacks {
            return PlaceRow::default();
        }
        let serving = self.stops.mount.map(stack::of_process);
        let waits = |place: &stack::Place| {
            let mut names = place.iter();
            names.any(|name| name.contains("lock"))
                && place.iter().any(|name| name.contains("volume::Volume"))
        };
        PlaceRow {
            stack: stack::of_process(process).pop().unwrap_or_default(),
            serving: serving.into_iter().flatten().filter(waits).collect(),
            ..PlaceRow::default()
        }
    }

    /// Threads of observers, each with its way, its look and its number.
    fn threads(&self) -> impl Iterator<Item = (Way, Look, usize)> {
        self.observers.iter().flat_map(|observers| {
            let (way, first) = (observers.way, observers.first);
            (0..threads_of(way))
                .map(move |index| (way, look_of(copies_of(way), index), first + index))
        })
    }

    fn reset(&self) {
        for (_, _, number) in self.threads() {
            self.board.observer(number).reset();
        }
    }

    /// Who waits longer than he should.
    fn waiting(&self, call: Call) -> Vec<(Way, Look)> {
        let waits = |number| self.board.observer(number).longest_ns() > WANTED_NS;
        let all = self
            .threads()
            .filter(|(way, look, _)| !look.may_wait_for(*way, call));
        all.filter(|(_, _, number)| waits(*number))
            .map(|(way, look, _)| (way, look))
            .collect()
    }

    /// What everybody saw of a stop; who waited longer than he should.
    fn note(&mut self, way: Way, call: Call) -> Vec<(Way, Look)> {
        let mut waiting = self.waiting(call);
        waiting.sort_unstable();
        waiting.dedup();
        let counts = self.notes.stops.entry((way, call)).or_default();
        counts.0 += 1;
        counts.1 += u64::from(!waiting.is_empty());
        let threads: Vec<_> = self.threads().collect();
        for (way, look, number) in threads {
            let longest_ns = self.board.observer(number).longest_ns();
            let seen = self.notes.seen.entry((way, look)).or_default();
            if look.may_wait_for(way, call) {
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
    fn note_place(&mut self, process: u32, waiting: Vec<(Way, Look)>) {
        let found = self.place(process);
        let place = self.notes.places.entry(found.stack.clone());
        let place = place.or_insert(found);
        place.stops += 1;
        for (way, look) in waiting {
            let way = format!("{way:?}").to_lowercase();
            let who = format!("{} ({way})", look.name());
            if !place.waited.contains(&who) {
                place.waited.push(who);
            }
        }
    }

    /// As long as a stop, but nobody is stopped.
    fn let_go_on(&mut self) {
        self.reset();
        std::thread::sleep(self.hold());
        let threads: Vec<_> = self.threads().collect();
        for (way, look, number) in threads {
            let longest_ns = self.board.observer(number).longest_ns();
            let seen = self.notes.seen.entry((way, look)).or_default();
            seen.undisturbed_ns = seen.undisturbed_ns.max(longest_ns);
        }
    }

    /// Waits until everybody has ended the call that was under way.
    fn all_go_on(&mut self) -> Result<()> {
        let before: Vec<_> = self
            .threads()
            .map(|(way, look, number)| (way, look, number, self.board.observer(number).begun_ns()))
            .collect();
        let deadline = Instant::now() + PATIENCE;
        for (way, look, number, begun_ns) in before {
            let page = self.board.observer(number);
            while begun_ns != 0 && page.begun_ns() == begun_ns {
                check_cancel(self.stops.cancel)?;
                if Instant::now() > deadline {
                    return Err(Error::failed(format!(
                        "{} ({way:?}) still waits {PATIENCE:?} after nobody is stopped any more",
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
            .map(|observers| &mut observers.crew);
        for crew in self.workers.iter_mut().chain(observers) {
            signal(crew.id(), libc::SIGCONT);
            match crew.ended(PATIENCE)? {
                Some(status) => self.notes.faults.extend(crew.fault(status)),
                None => self
                    .notes
                    .faults
                    .push(format!("a process ({:?}) does not end", crew.way)),
            }
        }
        let mut failed: u64 = (0..self.workers.len())
            .map(|index| self.board.worker(index).faults.load(Ordering::Relaxed))
            .sum();
        let threads: Vec<_> = self.threads().collect();
        for (way, look, number) in threads {
            let page = self.board.observer(number);
            failed += page.faults.load(Ordering::Relaxed);
            let seen = self.notes.seen.entry((way, look)).or_default();
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

fn signal(process: u32, signal: i32) {
    // SAFETY: a plain system call, on a child that is not waited for yet.
    unsafe { libc::kill(process as libc::pid_t, signal) };
}

/// Whether all of a process is stopped.
fn is_stopped(process: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let mut stats = tasks.into_iter().flatten().flatten().map(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat"));
        stat.unwrap_or_default()
    });
    let is_stopped = |stat: String| {
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    let mut any = false;
    stats.all(|stat| {
        any = true;
        is_stopped(stat)
    }) && any
}
