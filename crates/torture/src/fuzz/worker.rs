//! The worker: tries case after case, and dies of the first in which something is wrong.

use super::board::{Board, MOST_STEPS};
use super::dice::{Dice, mix_all};
use super::target::{Case, Subject, Target, Told};
use super::{case, heap};
use egeria_harness::text::message_of;
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// How a worker ends that found something.
pub(super) const FOUND: u8 = 101;
/// Names a [`Fault`] in the environment.
pub(super) const FAULT: &str = "EGERIA_FUZZ_FAULT";
/// The case in which it happens, by number.
const FAULT_AT: u64 = 20;
const USAGE: &str =
    "usage: egeria-fuzz-worker TARGET SEED RUNS | show FILE; `egeria-torture fuzz` starts it";
/// Most cases kept to go on from.
const MOST_KEPT: usize = 2048;

static BOARD: OnceLock<Arc<Board>> = OnceLock::new();

/// The program `egeria-fuzz-worker`.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["show", file] => show(file),
        [target, seed, runs] => work(target, seed, runs),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(status) => status,
        Err(fault) => {
            eprintln!("egeria-fuzz-worker: {fault}");
            ExitCode::from(2)
        }
    }
}

/// A panic, wherever it is caught, is something wrong: it is left on the board and ends the process.
fn die_of_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = message_of(panic.payload());
        let place = panic.location().map(ToString::to_string);
        let text = format!("panicked at {}: {message}", place.unwrap_or_default());
        match BOARD.get() {
            Some(board) => board.leave(&text),
            None => eprintln!("{text}"),
        }
        // SAFETY: ends the process, whatever the other threads do.
        unsafe { libc::_exit(i32::from(FOUND)) };
    }));
}

fn work(target: &str, seed: &str, runs: &str) -> Result<ExitCode, String> {
    let target = Target::ALL.into_iter().find(|each| each.name() == target);
    let (Some(target), Ok(seed), Ok(runs)) = (target, seed.parse(), runs.parse()) else {
        return Err(USAGE.to_owned());
    };
    let board = std::io::stdin().as_fd().try_clone_to_owned();
    let board = board.and_then(|board| Board::over(File::from(board)));
    let board = Arc::new(board.map_err(|error| format!("no board at stdin ({error}); {USAGE}"))?);
    let board = Arc::clone(BOARD.get_or_init(|| board));
    die_of_panics();
    let mut subject = target.subject()?;
    let mut choice = Choice::new(seed, subject.samples());
    heap::limit(target.heap_bytes());
    let fault = Fault::asked_for();
    for number in 1..=runs {
        if board.words().stop.load(Ordering::Relaxed) != 0 {
            break;
        }
        let case = choice.next();
        let fault = fault.filter(|_| number == FAULT_AT);
        if let Err(wrong) = attempt(&board, subject.as_mut(), &case, fault, &mut choice) {
            board.leave(&wrong);
            return Ok(ExitCode::from(FOUND));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn attempt(
    board: &Board,
    subject: &mut dyn Subject,
    case: &Case,
    fault: Option<Fault>,
    choice: &mut Choice,
) -> Result<(), String> {
    let mut told = Told::default();
    board.begin(case, cpu_ns());
    if let Some(fault) = fault {
        fault.happen();
    }
    subject.attempt(case, &mut told)?;
    board.end(cpu_ns());
    choice.learn(case, &mut told);
    let words = board.words();
    words.heap_bytes.store(heap::most(), Ordering::Relaxed);
    words.kept.store(choice.learnt, Ordering::Relaxed);
    Ok(())
}

/// A way to go wrong, for tests of who watches.
#[derive(Clone, Copy)]
enum Fault {
    Panic,
    Segfault,
    Abort,
    Memory,
    Hang,
    Exit,
}

impl Fault {
    fn asked_for() -> Option<Fault> {
        Some(match std::env::var(FAULT).ok()?.as_str() {
            "panic" => Fault::Panic,
            "segfault" => Fault::Segfault,
            "abort" => Fault::Abort,
            "memory" => Fault::Memory,
            "hang" => Fault::Hang,
            "exit" => Fault::Exit,
            _ => return None,
        })
    }

    fn happen(self) {
        match self {
            Fault::Panic => panic!("by order"),
            // SAFETY: a plain call. The first is caught by who looks for full stacks.
            Fault::Segfault => (0..2).for_each(|_| _ = unsafe { libc::raise(libc::SIGSEGV) }),
            Fault::Abort => std::process::abort(),
            Fault::Memory => drop(std::hint::black_box(vec![1u8; 1 << 40])),
            Fault::Hang => loop {
                std::hint::spin_loop();
            },
            Fault::Exit => std::process::exit(0),
        }
    }
}

/// CPU time of this process.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Which case is next: a fresh one, or more of one in which something new happened.
struct Choice {
    dice: Dice,
    samples: usize,
    seen: HashSet<u64>,
    kept: Vec<Case>,
    learnt: u64,
}

impl Choice {
    fn new(seed: u64, samples: usize) -> Choice {
        Choice {
            dice: Dice::new(mix_all(&[seed, 0xF0_22])),
            samples,
            seen: HashSet::new(),
            kept: Vec::new(),
            learnt: 0,
        }
    }

    fn next(&mut self) -> Case {
        let dice = &mut self.dice;
        let known = match dice.one_in(2) {
            true => dice.one_of(&self.kept).cloned(),
            false => None,
        };
        let mut case = known.unwrap_or_else(|| Case {
            sample: dice.below(self.samples as u64),
            ..Case::default()
        });
        if case.steps.is_empty() || dice.one_in(2) {
            case.how = dice.word();
        }
        if !case.steps.is_empty() && dice.one_in(3) {
            let place = dice.place(case.steps.len());
            case.steps.remove(place);
        }
        // Mostly few: each change should be looked at, not hide behind another.
        for _ in 0..=dice.below(3) * dice.below(3) {
            let place = dice.place(case.steps.len() + 1);
            case.steps.insert(place, dice.word());
        }
        case.steps.truncate(MOST_STEPS);
        case
    }

    fn learn(&mut self, case: &Case, told: &mut Told) {
        let mut is_new = false;
        for kind in told.take_kinds() {
            is_new |= self.seen.insert(kind);
        }
        if !is_new {
            return;
        }
        self.learnt += 1;
        if self.kept.len() < MOST_KEPT {
            self.kept.push(case.clone());
        } else {
            let place = self.dice.place(MOST_KEPT);
            self.kept[place] = case.clone();
        }
    }
}

/// A case that hangs is shown no longer than this.
fn end_after_cpu_seconds() {
    const SECONDS: u64 = 10;
    let limit = libc::rlimit {
        rlim_cur: SECONDS,
        rlim_max: SECONDS,
    };
    // SAFETY: a valid structure.
    unsafe { libc::setrlimit(libc::RLIMIT_CPU, &limit) };
}

/// Try a saved case, and tell what happens.
fn show(file: &str) -> Result<ExitCode, String> {
    let saved = case::load(file.as_ref()).map_err(|error| error.to_string())?;
    end_after_cpu_seconds();
    let mut subject = saved.target.subject()?;
    heap::limit(saved.target.heap_bytes());
    let mut told = Told::default();
    told.aloud = true;
    std::panic::set_hook(Box::new(|panic| {
        println!("{panic}");
        // SAFETY: ends the process, whatever the other threads do.
        unsafe { libc::_exit(i32::from(FOUND)) };
    }));
    match subject.attempt(&saved.case, &mut told) {
        Ok(()) => {
            println!("nothing is wrong");
            Ok(ExitCode::SUCCESS)
        }
        Err(wrong) => {
            println!("{wrong}");
            Ok(ExitCode::from(FOUND))
        }
    }
}
