//! `egeria diagnose`: misplaced programs on this machine, described as two nodes of one CPU each.

use crate::common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{
    Background, Ended, Group, Sandbox, as_nobody, egeria, eventually, finish, is_root, run,
};
use egeria_harness::testing::{has_numa_maps, has_two_cpus, skip};
use serde_json::Value;

/// Memory that a program goes through again and again.
const HEAP_MIB: u64 = 64;

/// This machine as two nodes. The kernel has all memory on node 0.
fn two_nodes(sandbox: &Sandbox) -> PathBuf {
    let text =
        "name = \"split\"\n[[nodes]]\nid = 0\ncpus = \"0\"\n[[nodes]]\nid = 1\ncpus = \"1\"\n";
    sandbox.file("machine.toml", text)
}

/// A program on this CPU that writes its heap all the time.
fn writer(sandbox: &Sandbox, cpu: u16) -> Background {
    let ready = sandbox.path(&format!("ready-{cpu}"));
    let script = "my $heap = 'x' x ($ARGV[0] << 20); open(my $ready, '>', $ARGV[1]); close($ready); \
        for (my $turn = 0; ; $turn++) { for (my $at = 0; $at < length($heap); $at += 4096) { substr($heap, $at, 1) = chr($turn & 127) } }";
    let mut command = Command::new("taskset");
    command
        .args(["--cpu-list", &cpu.to_string(), "perl", "-e", script])
        .arg(HEAP_MIB.to_string())
        .arg(&ready);
    let program = Background::start(&mut command);
    eventually("a heap", || ready.exists());
    program
}

fn diagnose(machine: &Path, more: &[&str]) -> Ended {
    let mut command = egeria(["diagnose", "--observe", "500", "--machine"]);
    command.arg(machine).args(more);
    finish(command)
}

/// What is found of one program: the status, and its entry.
fn found(machine: &Path, program: &Background) -> (i32, Value) {
    let ended = diagnose(machine, &["--json", &program.id().to_string()]);
    let document: Value = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ended.stdout, ended.stderr));
    assert_eq!(document["nodes"], 2);
    let programs = document["programs"].as_array().unwrap();
    assert_eq!(programs.len(), 1, "{document}");
    (ended.status, programs[0].clone())
}

fn can_look() -> bool {
    if !is_root() {
        skip("only root sees what programs access");
        return false;
    }
    has_two_cpus() && has_numa_maps()
}

#[test]
fn a_misplaced_program_is_found_with_its_repair() {
    if !can_look() {
        return;
    }
    let sandbox = Sandbox::new();
    let machine = two_nodes(&sandbox);
    let program = writer(&sandbox, 1);
    let (status, found) = found(&machine, &program);
    assert_eq!((status, &found["verdict"]), (1, &"apart".into()), "{found}");
    assert_eq!(found["is_fault"], true);
    assert!(found["remote_share"].as_f64().unwrap() > 0.9, "{found}");
    assert!(found["gain"].as_f64().unwrap() > 0.01, "{found}");
    assert!(found["heap"]["bytes"].as_u64().unwrap() >= HEAP_MIB << 20);
    assert_eq!(found["heap"]["local_share"], 0.0);
    assert_eq!(found["would_do"][0]["action"]["kind"], "migrate_memory");
    let line = format!("sudo egeria move --pid {} --node 1", program.id());
    assert_eq!(found["repairs"][0]["line"], line);
    assert_eq!(found["repairs"][0]["when"], "now");
    let next = found["repairs"][1]["line"].as_str().unwrap();
    assert!(!next.contains("numactl") || next.contains("perl"), "{next}");
    let text = diagnose(&machine, &[&program.id().to_string()]).stdout;
    assert!(text.contains("WRONG") && text.contains(&line), "{text}");
    assert!(text.contains("One program is misplaced."), "{text}");
}

#[test]
fn memory_that_others_have_mapped_gets_a_line_that_moves_it() {
    if !can_look() {
        return;
    }
    let sandbox = Sandbox::new();
    let machine = two_nodes(&sandbox);
    let ready = sandbox.path("ready");
    // A second process has all of it mapped, and sleeps.
    let script = "use IPC::SysV qw(IPC_PRIVATE IPC_RMID memwrite shmat); my $bytes = $ARGV[0] << 20; my $own = $$; \
        my $id = shmget(IPC_PRIVATE, $bytes, 0600); my $heap = shmat($id, undef, 0); shmctl($id, IPC_RMID, 0); \
        my $sleeps = !fork; my $turn = 0; do { $turn++; \
        for (my $at = 0; $at < $bytes; $at += 4096) { memwrite($heap, chr($turn & 127), $at, 1) } \
        if ($sleeps) { open(my $ready, '>', $ARGV[1]); close($ready); sleep 1 while getppid() == $own; exit } } while (1)";
    let mut command = Command::new("taskset");
    command
        .args(["--cpu-list", "1", "perl", "-e", script])
        .arg(HEAP_MIB.to_string())
        .arg(&ready);
    let program = Background::start(&mut command);
    eventually("a shared heap", || ready.exists());
    let (status, found) = found(&machine, &program);
    assert_eq!((status, &found["verdict"]), (1, &"apart".into()), "{found}");
    let line = format!("sudo egeria move --pid {} --node 1 --mapped", program.id());
    assert_eq!(found["repairs"][0]["line"], line);
}

/// A program on CPU 1 that reads a file of 4 MiB in a `chroot`, 8 MB/s: so little that its own memory does not matter, even if
/// others disturb each read.
fn slow_reader(sandbox: &Sandbox) -> (Background, PathBuf) {
    let file = sandbox.file("data", &"x".repeat(4 << 20));
    let ready = sandbox.path("ready-reader");
    let script = "open(my $file, '<', $ARGV[0]); chroot($ARGV[1]) && chdir('/') or die; \
        open(my $ready, '>', '/ready-reader'); close($ready); \
        for (;;) { sysseek($file, 0, 0); while (sysread($file, my $data, 65536)) { select(undef, undef, undef, 0.008) } }";
    let mut command = Command::new("taskset");
    command
        .args(["--cpu-list", "1", "perl", "-e", script])
        .arg(&file)
        .arg(sandbox.path(""));
    let program = Background::start(&mut command);
    eventually("a reader", || ready.exists());
    (program, file)
}

#[test]
fn slow_reads_of_another_node_are_told_also_in_a_chroot() {
    if !can_look() {
        return;
    }
    let sandbox = Sandbox::new();
    let machine = two_nodes(&sandbox);
    let (program, file) = slow_reader(&sandbox);
    let program_id = program.id().to_string();
    if found(&machine, &program).1["read_bytes_s"].is_null() {
        skip("what is read of files is not counted here");
        return;
    }
    // Where the host keeps the reader from its CPU, its own memory may matter more than the file in one look.
    let look = |more: &[&str], wanted: &str| {
        for looks in 1.. {
            let ended = diagnose(&machine, more);
            if ended.status == 0 && ended.stdout.contains(wanted) {
                return ended;
            }
            assert!(looks < 20, "{ended:?}");
        }
        unreachable!("a look is wanted or the last")
    };
    let document = look(&["--json", &program_id], "\"moved_bytes_s\"").json();
    let found = &document["programs"][0];
    assert!(
        found["page_cache"]["bytes"].as_u64().unwrap() >= 4 << 20,
        "{found}"
    );
    assert_eq!(found["is_fault"], false, "{found}");
    let elsewhere = &found["files_elsewhere"];
    assert!(
        elsewhere["moved_bytes_s"].as_f64().unwrap() > 1e6,
        "{found}"
    );
    assert!(
        elsewhere["cached_bytes"].as_u64().unwrap() >= 4 << 20,
        "{found}"
    );
    let line = format!("sudo egeria warm {} --node 1", file.display());
    assert_eq!(elsewhere["lines"][0], line, "{found}");
    look(&[&program_id], "too little to call it misplaced");
}

#[test]
fn a_local_program_is_in_order() {
    if !can_look() {
        return;
    }
    let sandbox = Sandbox::new();
    let machine = two_nodes(&sandbox);
    let program = writer(&sandbox, 0);
    let (status, found) = found(&machine, &program);
    assert_eq!((status, &found["verdict"]), (0, &"local".into()), "{found}");
    assert_eq!(found["heap"]["local_share"], 1.0);
    assert_eq!(found["repairs"].as_array().unwrap().len(), 0);
    let text = diagnose(&machine, &[&program.id().to_string()]).ok().stdout;
    assert!(text.contains("Nothing is wrong"), "{text}");
}

#[test]
fn the_heaviest_programs_are_shown_without_an_argument() {
    if !can_look() {
        return;
    }
    let sandbox = Sandbox::new();
    let machine = two_nodes(&sandbox);
    let program = writer(&sandbox, 1);
    let ended = diagnose(&machine, &["--json"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let programs = document["programs"].as_array().unwrap();
    let own = programs
        .iter()
        .find(|found| found["process_id"] == program.id());
    assert_eq!(own.expect("it works most")["verdict"], "apart");
    assert!(document["faults"].as_u64().unwrap() >= 1);
    assert_eq!(ended.status, 1);
}

#[test]
fn the_programs_of_a_unit_are_found_by_its_name() {
    if !can_look() {
        return;
    }
    let sandbox = Sandbox::new();
    let machine = two_nodes(&sandbox);
    let Some(mut group) = Group::make(".service", || writer(&sandbox, 1)) else {
        return;
    };
    let name = group.name.clone();
    let asked = [
        ["--unit", &name],
        ["--unit", name.trim_end_matches(".service")],
        ["--cgroup", group.directory.to_str().unwrap()],
    ];
    let documents = asked.map(|asked| diagnose(&machine, &[&asked[..], &["--json"]].concat()));
    group.remove();
    for ended in documents {
        let document = ended.json();
        let programs = document["programs"].as_array().unwrap();
        assert_eq!(programs.len(), 1, "{document}");
        assert_eq!(programs[0]["unit"], *name);
        let next = programs[0]["repairs"][1]["line"].as_str().unwrap();
        assert!(
            next.contains(&format!("/etc/systemd/system/{name}.d")),
            "{next}"
        );
    }
}

#[test]
fn a_machine_of_one_node_gets_one_line() {
    let sandbox = Sandbox::new();
    let one = sandbox.file(
        "one.toml",
        "name = \"one\"\n[[nodes]]\nid = 0\ncpus = \"0\"\n",
    );
    let text = diagnose(&one, &[]).ok().stdout;
    assert!(text.starts_with("This machine has one node"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let document = diagnose(&one, &["--json"]).ok().json();
    assert_eq!(
        (&document["nodes"], &document["faults"]),
        (&1.into(), &0.into())
    );
    assert!(document["nothing_because"].is_string());
}

#[test]
fn what_cannot_be_looked_at_is_refused_in_a_line() {
    let sandbox = Sandbox::new();
    let machine = two_nodes(&sandbox);
    diagnose(&machine, &["4194303"]).refused(1, &["no process 4194303"]);
    diagnose(&machine, &["0"]).refused(2, &["\"0\" is no process id", "ps"]);
    diagnose(&machine, &["-1"]).refused(2, &["\"-1\" is no process id", "ps"]);
    diagnose(&machine, &["--unit", "egeria-no-such"])
        .refused(1, &["egeria-no-such.service", "systemctl"]);
    diagnose(&machine, &["--observe", "1"]).refused(2, &["observe"]);
    diagnose(Path::new("optane-2s"), &[]).refused(1, &["emulated"]);
    if is_root() {
        let own = std::process::id().to_string();
        let machine = machine.to_str().unwrap();
        let refused = finish(as_nobody(["diagnose", &own, "--machine", machine]));
        refused.refused(1, &["another user", "egeria diagnose"]);
    }
}

#[test]
fn without_rights_reads_of_files_are_unknown() {
    if !can_look() {
        return;
    }
    let sandbox = Sandbox::new();
    let machine = two_nodes(&sandbox);
    let script =
        "for (;;) { open(my $file, '<', '/proc/self/exe'); sysread($file, my $data, 4096); }";
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "perl",
        "-e",
        script,
    ]);
    let program = Background::start(&mut command);
    let id = program.id().to_string();
    eventually("another user", || {
        std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "perl\n")
    });
    let (machine, id) = (machine.to_str().unwrap(), id.as_str());
    let ended = finish(as_nobody(["diagnose", "--json", id, "--machine", machine]));
    let document = ended.json();
    assert!(
        document["programs"][0]["read_bytes_s"].is_null(),
        "{document}"
    );
    let unseen = document["unseen"].as_array().unwrap();
    assert!(
        unseen
            .iter()
            .any(|line| line.as_str().unwrap().contains("run as root")),
        "{unseen:?}"
    );
    let root = run(["diagnose", "--json", id, "--machine", machine]).json();
    assert!(
        root["programs"][0]["read_bytes_s"].is_number()
            || root["unseen"] != Value::Array(Vec::new())
    );
}

#[test]
fn a_process_id_that_is_none_is_refused_everywhere() {
    for command in ["steward", "top", "move"] {
        run([command, "--pid", "-1"]).refused(2, &["\"-1\" is no process id", "ps"]);
    }
}
