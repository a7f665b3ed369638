//! `egeria doctor --report`: what it says, what it keeps to itself, and what other people do with its recording.

use crate::common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{
    Background, Sandbox, as_nobody, egeria, eventually, finish, is_root, kill, run, wait,
};
use egeria_facts::Facts;
use egeria_harness::testing::{has_numa_maps, has_two_cpus, skip};
use egeria_trace::Reader;
use rustix::process::Signal;
use serde_json::Value;

/// Every name of a program, thread, file or machine in these tests begins with it.
const SECRET: &str = "Geheim";
/// A user without a part in any sentence of the report.
const USER: u32 = 5;

/// This machine as two nodes. The kernel has all memory on node 0.
const TWO_NODES: &str =
    "name = \"Geheimrechner\"\n[[nodes]]\nid = 0\ncpus = \"0\"\n[[nodes]]\nid = 1\ncpus = \"1\"\n";

/// A program on CPU 1 that writes its heap and reads a file all the time, with names of its own everywhere.
struct Named {
    program: Background,
    file: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

/// Such programs would take each other's CPU.
static ALONE: Mutex<()> = Mutex::new(());

impl Named {
    fn start(sandbox: &Sandbox) -> Named {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&sandbox.root, open.clone()).unwrap();
        let binary = sandbox.path("Geheimprogramm");
        let perl = fs::canonicalize("/usr/bin/perl").unwrap();
        fs::copy(perl, &binary).unwrap();
        fs::set_permissions(&binary, open).unwrap();
        let file = sandbox.file("Geheimdatei", &"x".repeat(1 << 20));
        let script = "my $heap = 'x' x (64 << 20); open(my $file, '<', $ARGV[0]) or die; \
            for (my $turn = 0; ; $turn++) { \
            for (my $at = 0; $at < length($heap); $at += 4096) { substr($heap, $at, 1) = chr($turn & 127) } \
            sysseek($file, 0, 0); sysread($file, my $data, 1 << 16); }";
        let script = sandbox.file("Geheimskript", script);
        let mut command = Command::new("setpriv");
        command
            .args([
                &format!("--reuid={USER}"),
                "--clear-groups",
                "taskset",
                "-c",
                "1",
            ])
            .arg(&binary)
            .arg(script)
            .arg(&file)
            .arg("Geheimargument");
        let program = Background::start(&mut command);
        let name = format!("/proc/{}/comm", program.id());
        eventually("the program", || {
            fs::read_to_string(&name).is_ok_and(|name| name.starts_with("Geheim"))
        });
        Named {
            program,
            file,
            _alone: alone,
        }
    }
}

fn can_look() -> bool {
    if !is_root() {
        skip("only root sees what programs access");
        return false;
    }
    has_two_cpus() && has_numa_maps()
}

/// A report about this machine as two nodes: the report, and the recording.
fn report(sandbox: &Sandbox, options: &[&str]) -> (String, PathBuf) {
    let machine = sandbox.file("Geheimrechner.toml", TWO_NODES);
    let file = sandbox.path("Geheimbericht.txt");
    let mut command = egeria(["doctor", "--observe", "2s", "--report"]);
    command
        .arg(&file)
        .arg("--machine")
        .arg(machine)
        .args(options);
    finish(command).ok();
    (
        fs::read_to_string(&file).unwrap(),
        file.with_extension("trace"),
    )
}

/// All that a recording has, as text.
fn contents(trace: &Path) -> String {
    let mut reader = Reader::open(trace).unwrap();
    let windows: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    // On a busy host windows are longer.
    assert!((1..=2).contains(&windows.len()));
    assert_eq!(reader.header().policy, "off");
    format!("{:?} {:?} {windows:?}", reader.header(), reader.machine())
}

/// The name of a user, as the user database has it.
fn name_of(user: u32) -> Option<String> {
    let text = fs::read_to_string("/etc/passwd").ok()?;
    let entry = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut entry = entry.filter(|fields| fields.get(2) == Some(&user.to_string().as_str()));
    Some(entry.next()?[0].to_owned())
}

/// The entry of a program in what `diagnose` says of a recording.
fn found(trace: &Path, process: u32) -> Value {
    let ended = run(["diagnose", "--json", "--trace", trace.to_str().unwrap()]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let programs = document["programs"].as_array().unwrap().clone();
    let mut own = programs.into_iter();
    own.find(|program| program["process_id"] == process)
        .unwrap_or_else(|| panic!("{document}"))
}

#[test]
fn neither_file_has_a_name_unless_asked_for() {
    if !can_look() {
        return;
    }
    let sandbox = Sandbox::new();
    let named = Named::start(&sandbox);
    let (text, trace) = report(&sandbox, &[]);
    let recorded = contents(&trace);
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let mut names = vec![SECRET.to_owned(), host];
    names.extend(name_of(USER));
    for name in names.iter().filter(|name| name.len() > 3) {
        assert!(!text.contains(name.as_str()), "{name} in {text}");
        assert!(!recorded.contains(name.as_str()), "{name} in {recorded}");
    }
    let bytes = fs::read(&trace).unwrap();
    let holds = bytes
        .windows(SECRET.len())
        .any(|part| part == SECRET.as_bytes());
    assert!(!holds);

    // The same looks find what is there when it is asked for; the recording has stand-ins all the same.
    let (text, trace) = report(&sandbox, &["--names"]);
    let user = name_of(USER).unwrap_or_else(|| "uid 5".to_owned());
    let file = named.file.file_name().unwrap().to_str().unwrap();
    for name in ["Geheimprogramm", "Geheimargument", &user, file] {
        assert!(text.contains(name), "no {name} in {text}");
    }
    assert!(!contents(&trace).contains(SECRET));
}

/// A report in which the program is apart from its memory: the report, the recording, and what is found in this of the program.
#[track_caller]
fn misplaced(sandbox: &Sandbox, named: &Named) -> (String, PathBuf, Value) {
    /// On a busy host a program may do too little while it is observed.
    const TRIES: u32 = 10;
    let mut last = Value::Null;
    for _ in 0..TRIES {
        let (text, trace) = report(sandbox, &[]);
        last = found(&trace, named.program.id());
        if last["verdict"] == "apart" {
            return (text, trace, last);
        }
    }
    panic!("never apart: {last}");
}

#[test]
fn the_recording_says_what_the_report_says() {
    if !can_look() {
        return;
    }
    let sandbox = Sandbox::new();
    let named = Named::start(&sandbox);
    let (text, trace, found) = misplaced(&sandbox, &named);
    let process = named.program.id();
    assert_eq!(found["is_fault"], true);
    assert!(found["gain"].as_f64().unwrap() > 0.01, "{found}");
    assert!(found["windows"]["busy"].as_u64().unwrap() >= 1);
    let name = found["name"].as_str().unwrap();
    assert!(name.starts_with("program-"), "{found}");
    let line = format!("{process} ({name}): WRONG");
    assert!(text.contains(&line), "{line}: {text}");
    let said = run(["diagnose", "--trace", trace.to_str().unwrap()]);
    assert_eq!(said.status, 1);
    assert!(said.stdout.contains(&line), "{}", said.stdout);
    let repaired = format!("sudo egeria move --pid {process} --node 1");
    assert!(text.contains(&repaired), "{text}");
}

#[test]
fn replay_and_the_model_take_the_recording() {
    if !can_look() {
        return;
    }
    let sandbox = Sandbox::new();
    let named = Named::start(&sandbox);
    let (_, trace, _) = misplaced(&sandbox, &named);
    let trace = trace.to_str().unwrap();
    let replayed = run(["replay", trace, "--policy", "all"]).ok().stdout;
    let action = format!(
        "memory of process {} goes to the threads",
        named.program.id()
    );
    assert!(replayed.contains(&action), "{replayed}");
    if let Err(error) = egeria_bpf::check() {
        skip(format_args!(
            "the kernel does not count reads of files here: {error}"
        ));
        return;
    }
    let simulated = run(["sim", "--machine", "optane-2s", "--trace", trace, "--json"]);
    let simulated = simulated.ok().json();
    assert!(simulated["runs"][0]["operations_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_steward_without_a_policy_records_as_much() {
    if !can_look() {
        return;
    }
    let sandbox = Sandbox::new();
    let named = Named::start(&sandbox);
    let (trace, machine) = (
        sandbox.path("trace"),
        sandbox.file("machine.toml", TWO_NODES),
    );
    let process = named.program.id();
    let mut steward = egeria(["steward", "--policy", "off", "--window", "500"]);
    steward
        .args(["--pid", &process.to_string()])
        .arg("--machine")
        .arg(&machine)
        .arg("--record")
        .arg(&trace)
        .env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    let mut steward = Background::start(&mut steward);
    let counts_files = egeria_bpf::check().is_ok();
    let sees = |what: fn(&Facts) -> bool| {
        let of_windows = Reader::open(&trace).ok().into_iter().flatten();
        let mut facts = of_windows.map_while(Result::ok);
        facts.any(|facts| what(&facts))
    };
    let accesses = |facts: &Facts| {
        let nodes = facts.accesses.processes.iter();
        let mut nodes = nodes.flat_map(|process| &process.nodes);
        nodes.any(|node| node.rate_to(0) > 0.0)
    };
    eventually("accesses to memory", || sees(accesses));
    eventually("reads of files", || {
        !counts_files || sees(|facts| facts.window.read_total() > 0)
    });
    kill(steward.id(), Signal::INT);
    assert_eq!(wait(&mut steward.0), 0);
    let found = found(&trace, process);
    assert!(found["remote_share"].as_f64().unwrap() > 0.9, "{found}");
    assert!(
        found["name"].as_str().unwrap().starts_with(SECRET),
        "{found}"
    );
    if counts_files {
        assert!(found["read_bytes_s"].as_f64().unwrap() > 0.0, "{found}");
    }
}

#[test]
fn one_node_is_one_line_and_a_recording() {
    let sandbox = Sandbox::new();
    let text = "name = \"one\"\n[[nodes]]\nid = 0\ncpus = \"0\"\n";
    let (machine, file) = (sandbox.file("one.toml", text), sandbox.path("report"));
    let mut command = egeria(["doctor", "--bench", "--observe", "200ms", "--report"]);
    command.arg(&file).arg("--machine").arg(machine);
    let said = finish(command).ok().stdout;
    assert!(
        said.starts_with("This machine has one node: there is nothing to place"),
        "{said}"
    );
    let text = fs::read_to_string(&file).unwrap();
    let lines = text
        .lines()
        .filter(|line| line.contains("nothing to place here"));
    assert_eq!(lines.count(), 1, "{text}");
    assert!(
        text.contains("egeria-lab bench: it needs a machine with two nodes"),
        "{text}"
    );
    let mut reader = Reader::open(&file.with_extension("trace")).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 1);
    let trace = file.with_extension("trace");
    let found = run(["diagnose", "--trace", trace.to_str().unwrap()])
        .ok()
        .stdout;
    assert!(found.starts_with("This machine has one node"), "{found}");
}

#[test]
fn without_rights_it_says_what_is_missing() {
    if !is_root() || !has_two_cpus() {
        return;
    }
    let sandbox = Sandbox::new();
    let machine = sandbox.file("machine.toml", TWO_NODES);
    let place = sandbox.directory("place");
    chown(&place, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&sandbox.root, fs::Permissions::from_mode(0o755)).unwrap();
    let file = place.join("report.txt");
    let [machine, path] = [&machine, &file].map(|path| path.to_str().unwrap());
    let with = [
        "doctor",
        "--observe",
        "1s",
        "--machine",
        machine,
        "--report",
        path,
    ];
    let said = finish(as_nobody(with)).ok().stdout;
    assert!(said.contains(path), "{said}");
    let text = fs::read_to_string(&file).unwrap();
    let missing = text.split("What is missing").nth(1).unwrap();
    for words in ["run as root", "only processes of this user"] {
        assert!(missing.contains(words), "no {words}: {text}");
    }
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o077, 0);
}

#[test]
fn a_steward_at_work_is_named_and_left_alone() {
    let sandbox = Sandbox::new();
    let own = std::process::id().to_string();
    let mut steward = egeria(["steward", "--policy", "off", "--pid", &own]);
    steward.env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    let mut steward = Background::start(&mut steward);
    let journal = sandbox.path("runtime/processes.journal.jsonl");
    eventually("a steward", || journal.exists());
    let file = sandbox.path("report.txt");
    let mut command = egeria(["doctor", "--observe", "100ms", "--report"]);
    command
        .arg(&file)
        .env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    finish(command).ok();
    let text = fs::read_to_string(&file).unwrap();
    let said = format!("another steward works (process {})", steward.id());
    assert!(text.contains(&said), "{text}");
    assert!(steward.0.try_wait().unwrap().is_none() && journal.exists());
}

#[test]
fn an_interrupted_report_leaves_what_was_there() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("report.txt", "of yesterday");
    let mut command = egeria(["doctor", "--observe", "1h", "--report"]);
    command.arg(&file);
    let mut running = Background::start(&mut command);
    let trace = file.with_extension("trace");
    eventually("a recording", || trace.exists());
    kill(running.id(), Signal::INT);
    assert_eq!(wait(&mut running.0), 130);
    assert!(!trace.exists());
    assert_eq!(fs::read_to_string(&file).unwrap(), "of yesterday");
    assert_eq!(fs::read_dir(&sandbox.root).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_written_is_refused_at_once() {
    let sandbox = Sandbox::new();
    let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    run(["doctor", "--report", &path("a.trace")]).refused(2, &["cannot end in .trace"]);
    run(["doctor", "--report", "/no/such/place/a.txt"]).refused(1, &["/no/such/place"]);
    run(["doctor", "--names"]).refused(2, &["--report"]);
    run(["doctor", "--report", &path("a"), "--observe", "soon"]).refused(2, &["no time"]);
    sandbox.file("b.trace", "something else");
    run(["doctor", "--report", &path("b.txt")]).refused(1, &["b.trace", "no trace"]);
    assert!(!sandbox.path("b.txt").exists());
    run(["diagnose", "--trace", &path("none")]).refused(1, &["none"]);
}
