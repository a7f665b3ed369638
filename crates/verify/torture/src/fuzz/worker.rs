//! The worker: tries case after case, and dies of the first in which something is wrong.

use super::status_page::{MAX_STEPS, StatusPage};
use super::subject::{Case, Observations, Subject};
use super::target::Target;
use super::{case, heap};
use egeria_stats::rng::{Rng, mix_all};
use egeria_stats::text::message_of;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// How a worker ends that found something.
pub(super) const FOUND: u8 = 101;
/// Names a [`InjectedFault`] in the environment.
pub(super) const FAULT: &str = "EGERIA_FUZZ_FAULT";
/// The case in which it happens, by number.
const FAULT_AT: u64 = 20;
const USAGE: &str =
    "usage: egeria-fuzz-worker TARGET SEED RUNS | show FILE; `egeria-torture fuzz` starts it";
/// Most cases in a corpus.
const MAX_CORPUS: usize = 2048;

static STATUS_PAGE: OnceLock<Arc<StatusPage>> = OnceLock::new();

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

/// A panic, wherever it is caught, is something wrong: it is left on the status page and ends the process.
fn die_of_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = message_of(panic.payload());
        let place = panic.location().map(ToString::to_string);
        let text = format!("panicked at {}: {message}", place.unwrap_or_default());
        match STATUS_PAGE.get() {
            Some(page) => page.leave(&text),
            None => eprintln!("{text}"),
        }
        end_at_once();
    }));
}

/// End the process, whatever the other threads do.
fn end_at_once() -> ! {
    // SAFETY: no memory is passed, and nothing goes on.
    unsafe { libc::_exit(i32::from(FOUND)) }
}

fn work(target: &str, seed: &str, runs: &str) -> Result<ExitCode, String> {
    let target = Target::ALL.into_iter().find(|each| each.name() == target);
    let (Some(target), Ok(seed), Ok(runs)) = (target, seed.parse(), runs.parse()) else {
        return Err(USAGE.to_owned());
    };
    let page = std::io::stdin().as_fd().try_clone_to_owned();
    let page = page.and_then(|page| StatusPage::over(File::from(page)));
    let page = Arc::new(page.map_err(|error| format!("no page at stdin ({error}); {USAGE}"))?);
    let page = Arc::clone(STATUS_PAGE.get_or_init(|| page));
    die_of_panics();
    let mut subject = target.subject()?;
    let mut choice = Corpus::new(seed, subject.samples());
    heap::limit(target.heap_bytes());
    let fault = InjectedFault::asked_for();
    for number in 1..=runs {
        if page.words().stop.load(Ordering::Relaxed) != 0 {
            break;
        }
        let case = choice.next();
        let fault = fault.filter(|_| number == FAULT_AT);
        if let Err(wrong) = attempt(&page, subject.as_mut(), &case, fault, &mut choice) {
            page.leave(&wrong);
            return Ok(ExitCode::from(FOUND));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn attempt(
    page: &StatusPage,
    subject: &mut dyn Subject,
    case: &Case,
    fault: Option<InjectedFault>,
    choice: &mut Corpus,
) -> Result<(), String> {
    let mut observed = Observations::default();
    page.begin(case, cpu_ns());
    if let Some(fault) = fault {
        fault.happen();
    }
    subject.attempt(case, &mut observed)?;
    page.end(cpu_ns());
    choice.learn(case, &mut observed);
    let words = page.words();
    words.heap_bytes.store(heap::most(), Ordering::Relaxed);
    words.corpus.store(choice.corpus_total, Ordering::Relaxed);
    Ok(())
}

/// A way to go wrong, for tests of who watches.
#[derive(Clone, Copy)]
enum InjectedFault {
    Panic,
    Segfault,
    Abort,
    Memory,
    Hang,
    Exit,
}

impl InjectedFault {
    fn asked_for() -> Option<InjectedFault> {
        Some(match std::env::var(FAULT).ok()?.as_str() {
            "panic" => InjectedFault::Panic,
            "segfault" => InjectedFault::Segfault,
            "abort" => InjectedFault::Abort,
            "memory" => InjectedFault::Memory,
            "hang" => InjectedFault::Hang,
            "exit" => InjectedFault::Exit,
            _ => return None,
        })
    }

    fn happen(self) {
        match self {
            InjectedFault::Panic => panic!("by order"),
            // Twice: the first is caught by who looks for full stacks.
            InjectedFault::Segfault => (0..2).for_each(|_| {
                let _ = kill_process(getpid(), Signal::SEGV);
            }),
            InjectedFault::Abort => std::process::abort(),
            InjectedFault::Memory => drop(std::hint::black_box(vec![1u8; 1 << 40])),
            InjectedFault::Hang => loop {
                std::hint::spin_loop();
            },
            InjectedFault::Exit => std::process::exit(0),
        }
    }
}

/// CPU time of this process.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Which case is next: a fresh one, or more of one in which something new happened.
struct Corpus {
    rng: Rng,
    samples: usize,
    seen: HashSet<u64>,
    corpus: Vec<Case>,
    corpus_total: u64,
}

impl Corpus {
    fn new(seed: u64, samples: usize) -> Corpus {
        Corpus {
            rng: Rng::new(mix_all(&[seed, 0xF0_22])),
            samples,
            seen: HashSet::new(),
            corpus: Vec::new(),
            corpus_total: 0,
        }
    }

    fn next(&mut self) -> Case {
        let rng = &mut self.rng;
        let known = if rng.one_in(2) {
            rng.choose(&self.corpus).cloned()
        } else {
            None
        };
        let mut case = known.unwrap_or_else(|| Case {
            sample: rng.below(self.samples as u64),
            ..Case::default()
        });
        if case.mutation_seeds.is_empty() || rng.one_in(2) {
            case.use_seed = rng.next_u64();
        }
        if !case.mutation_seeds.is_empty() && rng.one_in(3) {
            let place = rng.index(case.mutation_seeds.len());
            case.mutation_seeds.remove(place);
        }
        // Mostly few: each change should be looked at, not hide behind another.
        for _ in 0..=rng.below(3) * rng.below(3) {
            let place = rng.index(case.mutation_seeds.len() + 1);
            case.mutation_seeds.insert(place, rng.next_u64());
        }
        case.mutation_seeds.truncate(MAX_STEPS);
        case
    }

    fn learn(&mut self, case: &Case, observed: &mut Observations) {
        let mut is_new = false;
        for kind in observed.take_kinds() {
            is_new |= self.seen.insert(kind);
        }
        if !is_new {
            return;
        }
        self.corpus_total += 1;
        if self.corpus.len() < MAX_CORPUS {
            self.corpus.push(case.clone());
        } else {
            let place = self.rng.index(MAX_CORPUS);
            self.corpus[place] = case.clone();
        }
    }
}

/// A case that hangs is shown no longer than this.
fn end_after_cpu_seconds() {
    const SECONDS: u64 = 10;
    let limit = Rlimit {
        current: Some(SECONDS),
        maximum: Some(SECONDS),
    };
    let _ = setrlimit(Resource::Cpu, limit);
}

/// Try a saved case, and tell what happens.
fn show(file: &str) -> Result<ExitCode, String> {
    let saved = case::load(file.as_ref()).map_err(|error| error.to_string())?;
    end_after_cpu_seconds();
    let mut subject = saved.target.subject()?;
    heap::limit(saved.target.heap_bytes());
    let mut observed = Observations::default();
    observed.verbose = true;
    std::panic::set_hook(Box::new(|panic| {
        println!("{panic}");
        end_at_once();
    }));
    match subject.attempt(&saved.case, &mut observed) {
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
