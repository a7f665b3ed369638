//! Processes that live shorter than a window, seen through the process that begins them.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use egeria_bpf::{FileCounter, Pace};
use egeria_facts::{Facts, KindFacts};
use egeria_harness::testing::skip;
use egeria_machine::Machine;
use egeria_pages::file_counts::{CountedFiles, Recorded};
use egeria_proc::LiveSource;
use egeria_proc::Scope;
use egeria_proc::processes::ProcessSource;
use rustix::process::{Pid, Signal, kill_process_group};

const PATIENCE: Duration = Duration::from_secs(60);

/// A shell that begins one process after the other.
struct Shell(Child);

impl Shell {
    /// `$0` is the argument.
    fn running(script: &str, argument: &std::path::Path) -> Shell {
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).arg(argument).process_group(0);
        Shell(shell.stdout(Stdio::null()).spawn().unwrap())
    }

    fn processes(&self) -> ProcessSource {
        ProcessSource::begin(Machine::detect().unwrap(), Scope::Tree(self.0.id()))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // What it began is of its group.
        if let Some(group) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Windows of 100 ms until one is as wanted.
fn wait_for(source: &mut dyn LiveSource, wanted: impl Fn(&Facts) -> bool) -> Facts {
    let machine = Machine::detect().unwrap();
    let begun = Instant::now();
    let mut last = None;
    while begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
        let facts = match source.next_facts() {
            Ok(facts) => facts.unwrap(),
            Err(never) => match never {},
        };
        facts.validate(&machine).unwrap();
        if wanted(&facts) {
            return facts;
        }
        last = Some(facts);
    }
    panic!("no such window: {last:?}");
}

fn kind_of(facts: &Facts, shell: &Shell) -> Option<KindFacts> {
    let mut kinds = facts.kinds.iter();
    kinds
        .find(|kind| kind.parent.process_id == shell.0.id())
        .cloned()
}

#[test]
fn time_of_ended_children_is_counted_without_rights() {
    let script = "while :; do head -c 3000000 /dev/zero | cksum; done";
    let shell = Shell::running(script, std::path::Path::new("sh"));
    let mut source = shell.processes();
    let facts = wait_for(&mut source, |facts| {
        kind_of(facts, &shell).is_some_and(|kind| kind.is_often() && kind.busy_ns > 0)
    });
    let kind = kind_of(&facts, &shell).unwrap();
    let cpus = Machine::detect().unwrap();
    let cpus: usize = cpus.nodes.iter().map(|node| node.cpus.len()).sum();
    assert!(kind.busy_ns <= facts.window.duration_ns * cpus as u64);
    let parent = facts.window.thread(kind.parent).unwrap();
    assert_eq!(parent.name, "sh");
    assert!(facts.credited().window.thread(kind.parent).unwrap().busy_ns >= kind.busy_ns);
}

#[test]
fn a_long_lived_child_is_no_kind() {
    let shell = Shell::running("sleep 1000; true", std::path::Path::new("sh"));
    let mut source = CountedFiles::new(shell.processes(), Recorded::default());
    let facts = wait_for(&mut source, |facts| facts.window.threads.len() == 2);
    assert!(kind_of(&facts, &shell).is_none_or(|kind| !kind.is_often()));
    let facts = wait_for(&mut source, |facts| facts.kinds.is_empty());
    assert_eq!(facts.window.threads.len(), 2);
}

/// The readers are below a shell that ends with them.
#[test]
fn files_of_ended_grandchildren_are_counted() {
    let counter = match FileCounter::with(Pace::always()) {
        Ok(counter) => counter,
        Err(error) => return skip(error),
    };
    let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    std::fs::write(file.path(), vec![1; 4 << 20]).unwrap();
    let inner = r#"cat "$0" >/dev/null; sleep 0.02; cat "$0" >/dev/null; true"#;
    let script = format!("while :; do sh -c '{inner}' \"$0\"; done");
    let shell = Shell::running(&script, file.path());
    let mut source = CountedFiles::new(shell.processes(), counter);
    let facts = wait_for(&mut source, |facts| {
        let kind = kind_of(facts, &shell);
        kind.is_some_and(|kind| kind.is_often() && kind.moved_total() >= 4 << 20)
    });
    let kind = kind_of(&facts, &shell).unwrap();
    assert_eq!(kind.command, "cat");
    assert!(kind.seen > 0);
    let [most, ..] = &kind.files[..] else {
        panic!("{kind:?}");
    };
    let of_file = facts.files.iter().find(|each| each.file == most.file);
    assert_eq!(of_file.unwrap().bytes, 4 << 20);
    let others: u64 = facts
        .window
        .threads
        .iter()
        .map(|thread| thread.read_total())
        .sum();
    assert!(others < kind.moved_total(), "{others} of {kind:?}");
    if Machine::detect().unwrap().nodes.len() == 1 {
        assert_eq!(
            (kind.node, kind.local_share()),
            (Some(facts.window.nodes[0].node), Some(1.0))
        );
    }
}

/// Each reader has the file open for a moment. It is found through whichever has it open now.
#[test]
fn a_file_is_opened_through_readers_that_come_and_go() {
    let counter = match FileCounter::with(Pace::always()) {
        Ok(counter) => counter,
        Err(error) => return skip(error),
    };
    let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    std::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
    let inner = r#"cat <&7 >/dev/null; sleep 0.05; true"#;
    let script = format!("while :; do sh -c '{inner}' 7<\"$0\"; done");
    let shell = Shell::running(&script, file.path());
    let mut source = CountedFiles::new(shell.processes(), counter);
    let files = source.files();
    let is_read = |facts: &Facts| facts.files.first().map(|each| each.file);
    let facts = wait_for(&mut source, |facts| is_read(facts).is_some());
    let key = is_read(&facts).unwrap();
    assert_eq!(files.path(key).as_deref(), Some(file.path()));
    // Without another look at processes: the readers of then have ended.
    let begun = Instant::now();
    let mut opened = 0;
    while opened < 3 {
        assert!(begun.elapsed() < PATIENCE, "opened {opened} times");
        std::thread::sleep(Duration::from_millis(130));
        opened += u32::from(files.open(key).is_ok());
    }
    drop(shell);
    let until = Instant::now() + PATIENCE;
    while files.open(key).is_ok() {
        assert!(Instant::now() < until, "none has it open any more");
    }
}
