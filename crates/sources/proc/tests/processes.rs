//! Threads of processes: those that hardly run are looked at less closely, and lose nothing by it.

use egeria_harness::testing::has_two_cpus;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use egeria_facts::{CpuSet, FactSource, ThreadFacts};
use egeria_machine::Machine;
use egeria_proc::processes::ProcessSource;
use egeria_proc::{Scope, task};

const HELPER: &str = "EGERIA_PROCESSES_HELPER";
/// In so many windows even an idle thread is looked at closely once.
const MAX_WINDOWS: usize = 16;

/// A process whose threads begin, run and end when asked to.
struct Helper {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Helper {
    fn start() -> Helper {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper", "--nocapture"])
            .env(HELPER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Helper {
            child,
            orders,
            answers,
        }
    }

    /// Says what to do, and waits until it is done; answers with a number.
    fn ask(&mut self, order: &str) -> u32 {
        writeln!(self.orders, "{order}").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.answers.read_line(&mut line).unwrap(), 0, "it ended");
            // The test runner prints as well, perhaps on the same line.
            if let Some((_, number)) = line.trim().rsplit_once("helper: ") {
                return number.parse().unwrap();
            }
        }
    }

    fn source(&self) -> ProcessSource {
        ProcessSource::begin(Machine::detect().unwrap(), Scope::Tree(self.child.id()))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// No test: what the others look at.
#[test]
fn helper() {
    if std::env::var_os(HELPER).is_none() {
        return;
    }
    let mut threads: Vec<(Sender<u64>, std::thread::JoinHandle<()>)> = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        let word = words.next().unwrap();
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        let answer = match word {
            "begin" => {
                let (send, receive) = channel::<u64>();
                let (answer, answers) = channel();
                let thread = std::thread::spawn(move || {
                    answer
                        .send(rustix::thread::gettid().as_raw_pid() as u32)
                        .unwrap();
                    for run_ms in receive {
                        let begin = Instant::now();
                        while begin.elapsed() < Duration::from_millis(run_ms) {}
                        answer.send(0).unwrap();
                    }
                });
                let id = answers.recv().unwrap();
                // Its answers come in the order of its orders.
                std::thread::spawn(move || for _ in answers {});
                threads.push((send, thread));
                id
            }
            "run" => {
                let (at, run_ms) = (number(), number());
                threads[at as usize].0.send(run_ms).unwrap();
                std::thread::sleep(Duration::from_millis(run_ms));
                0
            }
            _ => {
                let (send, thread) = threads.pop().unwrap();
                drop(send);
                thread.join().unwrap();
                0
            }
        };
        println!("helper: {answer}");
    }
}

fn next(source: &mut ProcessSource) -> Vec<ThreadFacts> {
    std::thread::sleep(Duration::from_millis(5));
    source.next_facts().unwrap().unwrap().window.threads
}

fn find(threads: &[ThreadFacts], id: u32) -> Option<&ThreadFacts> {
    threads.iter().find(|thread| thread.key.thread_id == id)
}

#[test]
fn threads_are_seen_from_begin_to_end_and_counted_once() {
    let mut helper = Helper::start();
    let first = helper.ask("begin");
    let mut source = helper.source();
    for _ in 0..MAX_WINDOWS * 2 {
        let threads = next(&mut source);
        let thread = find(&threads, first).expect("idle, and there");
        assert_eq!(
            thread.key.start_ticks,
            task::start_ticks(thread.key.process_id, first).unwrap()
        );
        assert!(thread.busy_ns < 1_000_000_000);
    }
    let second = helper.ask("begin");
    helper.ask("run 0 300");
    let threads = next(&mut source);
    let ran_ns = find(&threads, first).unwrap().busy_ns;
    assert!(ran_ns > 10_000_000, "{ran_ns}");
    assert!(find(&threads, second).is_some());
    assert!(task::threads(threads[0].key.process_id).contains(&second));
    helper.ask("end");
    let threads = next(&mut source);
    assert!(find(&threads, second).is_none());
    // What is left of the time it ran, and nothing of it again.
    next(&mut source);
    let ran_ns = find(&next(&mut source), first).unwrap().busy_ns;
    assert!(ran_ns < 10_000_000, "{ran_ns}");
}

#[test]
fn new_cpus_of_running_threads_are_seen_at_once() {
    let mut helper = Helper::start();
    let ids = [helper.ask("begin"), helper.ask("begin")];
    let mut source = helper.source();
    let before = next(&mut source);
    let all = find(&before, ids[0]).unwrap().allowed_cpus.clone();
    let one: CpuSet = all.iter().take(1).collect();
    if !has_two_cpus() {
        return;
    }
    for id in ids {
        task::set_affinity(id, &one).unwrap();
    }
    helper.ask("run 1 200");
    let threads = next(&mut source);
    assert_eq!(find(&threads, ids[1]).unwrap().allowed_cpus, one);
    let mut windows = 1;
    let mut threads = threads;
    while find(&threads, ids[0]).unwrap().allowed_cpus != one {
        windows += 1;
        assert!(windows <= MAX_WINDOWS, "never");
        threads = next(&mut source);
    }
}

#[test]
fn running_and_new_threads_are_seen_among_many_idle_ones() {
    const SOON: usize = 5;
    let mut helper = Helper::start();
    let ids: Vec<u32> = (0..100).map(|_| helper.ask("begin")).collect();
    let mut source = helper.source();
    for _ in 0..MAX_WINDOWS {
        let threads = next(&mut source);
        assert!(ids.iter().all(|id| find(&threads, *id).is_some()));
    }
    helper.ask("run 7 300");
    let ran =
        (0..SOON).map(|_| find(&next(&mut source), ids[7]).map_or(0, |thread| thread.busy_ns));
    let ran: Vec<u64> = ran.collect();
    // Counted once, as of all windows since it was asked last: there are four at most.
    assert!(ran.iter().sum::<u64>() > 2_500_000, "{ran:?}");
    helper.ask("end");
    let new = helper.ask("begin");
    let is_seen = |source: &mut ProcessSource| {
        let threads = next(source);
        find(&threads, new).is_some() && find(&threads, ids[99]).is_none()
    };
    assert!((0..SOON).any(|_| is_seen(&mut source)), "never");
}

#[test]
fn a_thread_that_executes_another_program_has_its_name() {
    let mut child = Command::new("sh")
        .args(["-c", "read order; exec sleep 1000"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let scope = Scope::Tree(child.id());
    let mut source = ProcessSource::begin(Machine::detect().unwrap(), scope);
    let name = |source: &mut ProcessSource| {
        let threads = next(source);
        threads.first().map(|thread| thread.name.clone())
    };
    let mut becomes = |wanted: &str| {
        let is = |name: Option<String>| name.as_deref() == Some(wanted);
        let mut windows = 0..MAX_WINDOWS * 100;
        windows.any(|_| is(name(&mut source)))
    };
    // It may not have executed the shell yet.
    let (is_shell, mut is_sleep) = (becomes("sh"), false);
    if is_shell {
        writeln!(child.stdin.take().unwrap(), "go").unwrap();
        is_sleep = becomes("sleep");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((is_shell, is_sleep), (true, true));
}
