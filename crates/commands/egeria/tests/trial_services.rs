//! `egeria trial` of services: by their unit or control group, and what a killed trial leaves of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common;
use crate::trial::{HAS_STEWARD, journals, runtime};

use common::{Background, Ended, Group, Sandbox, egeria, eventually, finish, is_root, kill, wait};
use egeria_facts::CpuSet;
use egeria_harness::testing::{has_two_cpus, skip};
use egeria_proc::task;
use rustix::process::Signal;

/// A trial of a service with stewards of its own.
fn trial(sandbox: &Sandbox, service: &[&str], options: &[&str]) -> Command {
    let mut command = egeria(["trial", "--even-so"].iter().chain(service).chain(options));
    command.env("EGERIA_RUNTIME_DIR", runtime(sandbox));
    command
}

/// A trial in short blocks, of which those with a steward have a metric twice as high.
#[track_caller]
fn helped(sandbox: &Sandbox, service: &[&str]) -> Ended {
    let blocks = ["--rest", "10ms", "--block", "100ms", "--pairs", "20"];
    let metric = ["--metric", HAS_STEWARD, "--higher-is-better", "--json"];
    let ended = finish(trial(sandbox, service, &[&blocks[..], &metric].concat()));
    assert_eq!(ended.status, 0, "{ended:?}");
    ended
}

fn busy() -> Background {
    Background::start(Command::new("dd").args(["if=/dev/zero", "of=/dev/null", "bs=64k"]))
}

#[test]
fn a_service_is_tried_by_its_unit_or_group() {
    let Some(group) = Group::make(".service", busy) else {
        return;
    };
    let sandbox = Sandbox::new();
    let directory = group.directory.to_str().unwrap();
    for (option, named, subject) in [
        ("--unit", group.name.as_str(), "unit"),
        ("--unit", group.name.trim_end_matches(".service"), "unit"),
        ("--cgroup", group.name.as_str(), "control group"),
        ("--cgroup", directory, "control group"),
    ] {
        let report = helped(&sandbox, &[option, named]).json();
        assert!(
            report["subject"].as_str().unwrap().starts_with(subject),
            "{report}"
        );
        let keep = report["keep"].as_str().unwrap();
        let line = format!("egeria steward --policy all --cgroup /{}\n", group.name);
        assert!(keep.starts_with(&line), "{keep}");
        let configured = format!("[steward]\ncgroup = \"/{}\"\n", group.name);
        assert!(keep.contains(&configured), "{keep}");
    }
    assert_eq!(journals(&sandbox), 0);
}

#[test]
fn a_group_that_ends_during_a_trial_is_one_line() {
    let short = || Background::start(Command::new("sleep").arg("1"));
    let Some(group) = Group::make(".service", short) else {
        return;
    };
    let sandbox = Sandbox::new();
    let constant = [
        "--compare",
        "off,off",
        "--metric",
        "echo 1",
        "--pairs",
        "500",
    ];
    let blocks = ["--rest", "10ms", "--block", "300ms"];
    let options = [&constant[..], &blocks].concat();
    let ended = finish(trial(&sandbox, &["--unit", &group.name], &options));
    ended.refused(1, &["unit", &group.name, "again"]);
}

/// A unit that systemd runs; stopped when dropped.
struct Unit(String);

impl Unit {
    fn start() -> Option<Unit> {
        if !Path::new("/run/systemd/system").exists() || !is_root() {
            skip("systemd does not run here");
            return None;
        }
        let name = format!("egeria-test-{}", std::process::id());
        let mut started = Command::new("systemd-run");
        started.args(["--quiet", "--collect", "--unit", &name]);
        started.args(["dd", "if=/dev/zero", "of=/dev/null", "bs=64k"]);
        finish(started).ok();
        Some(Unit(name))
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let _ = Command::new("systemctl").args(["stop", &self.0]).status();
    }
}

#[test]
fn a_unit_of_systemd_is_tried_by_its_name() {
    let Some(unit) = Unit::start() else { return };
    let sandbox = Sandbox::new();
    let report = helped(&sandbox, &["--unit", &unit.0]).json();
    assert_eq!(report["subject"], format!("unit {}", unit.0));
    let keep = report["keep"].as_str().unwrap();
    assert!(keep.contains(&format!("/{}.service\n", unit.0)), "{keep}");
}

/// This machine as two nodes. The kernel has all page cache on node 0.
fn two_nodes(sandbox: &Sandbox) -> PathBuf {
    let text =
        "name = \"split\"\n[[nodes]]\nid = 0\ncpus = \"0\"\n[[nodes]]\nid = 1\ncpus = \"1\"\n";
    sandbox.file("machine.toml", text)
}

/// Two processes that read a cached file all the time: the kernel runs them on both CPUs, and one is far from the file.
fn readers(sandbox: &Sandbox) -> Background {
    let file = sandbox.file("file", &"x".repeat(1 << 20));
    let script = "my $first = $$; fork(); open(my $file, '<', $ARGV[0]) or die; \
        for (;;) { sysseek($file, 0, 0); for (1 .. 256) { sysread($file, my $data, 4096) } exit if $$ != $first && getppid() != $first }";
    Background::start(Command::new("perl").args(["-e", script]).arg(file))
}

fn masks(processes: &[u32]) -> Vec<CpuSet> {
    let masks = processes.iter().map(|process| task::affinity(*process));
    masks.map(Result::unwrap).collect()
}

/// A trial whose blocks with a steward are long, killed in one that has bound a process of the group.
fn killed_while_bound(sandbox: &Sandbox, group: &Group, machine: &Path) {
    /// A block may end between the look and the kill.
    const TRIES: u32 = 10;
    let processes = group.processes();
    let given = masks(&processes);
    let long = [
        "--rest", "10ms", "--block", "3s", "--window", "50", "--seed", "1",
    ];
    let sides = ["--compare", "off,rl", "--metric", "echo 1"];
    let machine = ["--machine", machine.to_str().unwrap()];
    let options = [&long[..], &sides, &machine].concat();
    for _ in 0..TRIES {
        let mut command = trial(sandbox, &["--unit", &group.name], &options);
        let mut running = Background::start(&mut command);
        eventually("a bound process", || masks(&processes) != given);
        kill(running.id(), Signal::KILL);
        wait(&mut running.0);
        if masks(&processes) != given {
            return;
        }
    }
    panic!("no trial was killed while a process was bound");
}

#[test]
fn after_a_killed_trial_of_a_service_all_is_restored() {
    if !is_root() || !has_two_cpus() {
        return;
    }
    if let Err(error) = egeria_bpf::check() {
        skip(format_args!(
            "the kernel does not count reads of files here: {error}"
        ));
        return;
    }
    let sandbox = Sandbox::new();
    let machine = two_nodes(&sandbox);
    let outside = readers(&sandbox);
    let Some(group) = Group::make(".service", || readers(&sandbox)) else {
        return;
    };
    // The one that it forks may have begun outside.
    let members = group.directory.join("cgroup.procs");
    for process in egeria_proc::task::processes() {
        if task::parent(process) == Some(group.program.id()) {
            std::fs::write(&members, process.to_string()).unwrap();
        }
    }
    eventually("two readers", || group.processes().len() == 2);
    let processes = group.processes();
    let (given, others) = (masks(&processes), [outside.id()]);
    let same = ["--compare", "off,rl", "--metric", "echo 1", "--pairs", "8"];
    let blocks = ["--rest", "10ms", "--block", "100ms"];
    let unit = ["--unit", group.name.as_str()];
    let next_trial = trial(&sandbox, &unit, &[&same[..], &blocks].concat());
    let mut next_steward = egeria(["steward", "--policy", "off", "--cgroup", &group.name]);
    next_steward.env("EGERIA_RUNTIME_DIR", runtime(&sandbox));
    for next in [next_trial, next_steward] {
        let given_outside = masks(&others);
        killed_while_bound(&sandbox, &group, &machine);
        assert_eq!(journals(&sandbox), 1);
        assert_eq!(
            masks(&others),
            given_outside,
            "it is no part of the service"
        );
        let said = sandbox.path("said");
        let mut next = next;
        next.stderr(std::fs::File::create(&said).unwrap());
        let mut next = Background(next.stdout(std::process::Stdio::null()).spawn().unwrap());
        let said = || std::fs::read_to_string(&said).unwrap();
        eventually("a line", || said().contains("have their CPUs back"));
        assert!(said().contains("a steward was killed here"), "{}", said());
        assert_eq!(masks(&processes), given);
        kill(next.id(), Signal::INT);
        wait(&mut next.0);
        assert_eq!(masks(&processes), given);
        assert_eq!(journals(&sandbox), 0);
    }
}
