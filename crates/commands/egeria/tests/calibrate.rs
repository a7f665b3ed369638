//! `egeria machine calibrate` in next to no time: what it prints and writes has the right shape, and it leaves nothing.

mod common;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Running, Sandbox, egeria, finish, kill, run};
use rustix::process::{Pid, Signal};
use serde_json::Value;

const QUICK: [&str; 6] = ["machine", "calibrate", "--seconds", "0.05", "--rounds", "1"];

fn entries(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = names
        .map(|entry| name(entry).into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Asserts that the reference page names every field of a document, or of what is in it.
#[track_caller]
fn fields_are_described(document: &Value) {
    let page = include_str!("../../../../docs/reference/output.md");
    let (_, section) = page
        .split_once("## `egeria machine calibrate --json`")
        .unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_named = |begin| {
                    let mut ends = ["`", "["].iter();
                    ends.any(|end| section.contains(&format!("{begin}{name}{end}")))
                };
                assert!(["`", "."].into_iter().any(is_named), "{name}");
                fields_are_described(value);
            }
        }
        Value::Array(all) => all.iter().for_each(fields_are_described),
        _ => {}
    }
}

#[test]
fn what_was_measured_is_a_machine_that_other_commands_read() {
    let sandbox = Sandbox::new();
    let (file, pool) = (sandbox.path("here.toml"), sandbox.path("pool"));
    let pool = format!("0:{}", pool.display());
    let more = [
        "--pool",
        &pool,
        "--output",
        file.to_str().unwrap(),
        "--json",
    ];
    let document: Value = run(QUICK.iter().chain(&more)).ok().json();
    let weights = document["weights"].as_array().unwrap();
    assert!(
        weights
            .iter()
            .all(|each| each["weight"].as_u64() >= Some(1))
    );
    let text = std::fs::read_to_string(&file).unwrap();
    let is_said = text.contains("# Weights by bandwidth (`egeria weights`): node");
    assert_eq!(is_said, !weights.is_empty());
    assert_eq!(document["machine_file"], file.to_str().unwrap());
    fields_are_described(&document);
    let memories = document["memories"].as_array().unwrap();
    let kinds: Vec<&str> = memories
        .iter()
        .map(|m| m["kind"].as_str().unwrap())
        .collect();
    assert!(
        kinds.contains(&"dram") && kinds.contains(&"persistent"),
        "{kinds:?}"
    );
    for stream in document["streams"].as_array().unwrap() {
        for figure in ["read", "write", "nontemporal_write", "mixed"] {
            let bytes_s = stream[format!("{figure}_bytes_s")].as_f64().unwrap();
            assert!(bytes_s > 0.0, "{stream}");
        }
    }
    // The pool is gone, and the file is all that was added.
    assert_eq!(entries(&sandbox.root), ["here.toml"]);

    let machine = run(["machine", "--json", "--machine", file.to_str().unwrap()])
        .ok()
        .json();
    assert_eq!(machine["name"], "here");
    let described = machine["nodes"][0]["hardware"]["memories"]
        .as_array()
        .unwrap();
    let of_node = memories
        .iter()
        .filter(|memory| memory["node"] == machine["nodes"][0]["id"]);
    assert_eq!(described.len(), of_node.count());
    let picture = run(["machine", "--machine", file.to_str().unwrap()])
        .ok()
        .stdout;
    assert!(
        picture.contains("DRAM") && picture.contains("PM"),
        "{picture}"
    );

    let workload = sandbox.file(
        "load.toml",
        include_str!("../../../model/sim/workloads/fio-4-rw80.toml"),
    );
    let (machine, workload) = (file.to_str().unwrap(), workload.to_str().unwrap());
    let sim = [
        "sim",
        "--machine",
        machine,
        "--workload",
        workload,
        "--compare",
        "off",
        "--json",
    ];
    let prediction = run(sim).ok().json();
    assert!(
        prediction["runs"][0]["operations_s"].as_f64().unwrap() > 0.0,
        "{prediction}"
    );
}

#[test]
fn people_get_tables_of_every_pair() {
    let text = run(QUICK).ok().stdout;
    for words in [
        "from node",
        "threads",
        "non-temporal",
        "a load",
        "node 0 DRAM",
        "GB/s",
        " ns",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    assert!(!text.contains("written to"), "{text}");
}

/// On one CPU of several, all figures are of one thread, and it is told.
#[test]
fn only_the_cpus_it_may_use_are_used() {
    let nodes = run(["machine", "--json"]).ok().json();
    let cpus = nodes["nodes"][0]["cpus"].as_array().unwrap();
    let mut bound = Command::new("taskset");
    bound.args([
        "--cpu-list",
        &cpus[0].to_string(),
        env!("CARGO_BIN_EXE_egeria"),
    ]);
    bound.args(QUICK).arg("--json");
    let document = finish(bound).ok().json();
    let streams = document["streams"].as_array().unwrap();
    assert!(streams.iter().all(|stream| stream["threads"] == 1));
    assert!(
        streams
            .iter()
            .all(|stream| stream["cpu_node"] == nodes["nodes"][0]["id"])
    );
    let told = document["warnings"].as_array().unwrap().iter();
    let of_cpus = told.filter(|line| line.as_str().unwrap().contains("CPUs of node"));
    assert_eq!(of_cpus.count() > 0, cpus.len() > 1);
}

/// Names of files that a process has open or mapped, where programs keep what others may find.
fn open_files(process: u32) -> Vec<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| line.split_once('/'));
    let mut files: Vec<PathBuf> = mapped.map(|(_, path)| format!("/{path}").into()).collect();
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd"));
    let descriptors = descriptors.into_iter().flatten().flatten();
    files.extend(descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok()));
    let places = ["/dev/shm", "/tmp", "/run", "/var"];
    files.retain(|file| places.iter().any(|place| file.starts_with(place)));
    files
}

/// Of the real machine and of an emulated one, before anything is measured and in the middle of it: 600 s are left then.
#[test]
fn a_stop_is_told_in_one_line_and_leaves_nothing() {
    let real = |sandbox: &Sandbox| ["--pool".into(), format!("0:{}", sandbox.root.display())];
    let emulated = |_: &Sandbox| ["--machine".into(), "optane-1s".into()];
    let subjects: [fn(&Sandbox) -> [String; 2]; 2] = [real, emulated];
    // With its own thread, that for signals and that for progress: one that measures.
    for (subject, threads) in subjects.into_iter().flat_map(|one| [(one, 1), (one, 4)]) {
        let sandbox = Sandbox::new();
        let mut command = egeria(["machine", "calibrate", "--seconds", "600"]);
        command.args(subject(&sandbox));
        for (option, file) in [("--output", "here.toml"), ("--report", "page.html")] {
            command.arg(option).arg(sandbox.path(file));
        }
        command
            .current_dir(&sandbox.root)
            .env("TMPDIR", &sandbox.root);
        command.process_group(0);
        let mut running = Running::start(command);
        let process = running.id();
        let tasks = || {
            let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
            tasks.map_or(0, Iterator::count)
        };
        // The files to be are there before anything is measured.
        running.wait_until("it has begun", || {
            entries(&sandbox.root).len() == 2 && tasks() >= threads
        });
        let files = open_files(process);
        kill(process, Signal::INT);
        let ended = running.finish();
        ended.refused(130, &["stopped before all was measured", "run it again"]);
        assert_eq!(entries(&sandbox.root), [""; 0]);
        // The directory that the files would be in is held open, too.
        let is_left = |file: &&PathBuf| file.exists() && **file != sandbox.root;
        let left: Vec<&PathBuf> = files.iter().filter(is_left).collect();
        assert!(left.is_empty(), "{left:?}");
        let group = Pid::from_raw(process as i32).unwrap();
        assert!(rustix::process::test_kill_process_group(group).is_err());
    }
}

#[test]
fn senseless_options_are_refused_before_measuring() {
    let sandbox = Sandbox::new();
    let precious = sandbox.file("precious", "data");
    let refused = |more: &[&str], status: i32, words: &[&str]| {
        let long = ["machine", "calibrate", "--seconds", "600"];
        run(long.iter().chain(more)).refused(status, words);
    };
    for seconds in ["0", "-1", "nan", "inf", "soon", "1e9"] {
        let argument = format!("--seconds={seconds}");
        run(["machine", "calibrate", &argument]).refused(2, &["is no time"]);
    }
    refused(&["--rounds", "0"], 2, &["--rounds"]);
    refused(&["--buffer", "huge"], 2, &["64M"]);
    refused(&["--pool", "/mnt"], 2, &["NODE:PATH"]);
    refused(&["--pool", "x:/mnt"], 2, &["no node number"]);
    refused(&["--pool", "0:"], 2, &["the path is empty"]);
    refused(&["--machine", "no-such"], 1, &["no-such"]);
    refused(
        &["--report", "/no/such/page.html"],
        1,
        &["/no/such/page.html"],
    );
    let both = ["--machine", "optane-2s", "--pool", "0:/dev/shm/pool"];
    refused(&both, 2, &["--pool", "--machine"]);
    refused(
        &["--buffer", "4K"],
        1,
        &["a buffer of 4.00 KiB", "caches", "use at least", "MiB"],
    );
    refused(&["--buffer", "1000T"], 1, &["smaller buffer"]);
    refused(&["--pool", "60000:/dev/shm"], 1, &["no node 60000"]);
    refused(&["--pool", "0:/dev/zero"], 1, &["/dev/zero", "device-DAX"]);
    let pool = format!("0:{}", precious.display());
    refused(&["--pool", &pool], 1, &["overwrite"]);
    refused(&["--pool", &pool, "--overwrite"], 1, &["overwrite"]);
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "data");
    refused(
        &["--output", "/nonexistent/x.toml"],
        1,
        &["/nonexistent/x.toml"],
    );
    refused(&["--output", "/dev/null"], 1, &["/dev/null", "not a file"]);
    refused(&["--output", "/"], 1, &["not a file"]);
    run(["machine", "--machine", "optane-2s", "calibrate"]).refused(2, &["calibrate"]);
}

#[test]
fn a_machine_file_replaces_the_one_before() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    let file = sandbox.file("here.toml", "# of yesterday");
    let plain = sandbox.file("plain", "");
    run(QUICK
        .iter()
        .map(AsRef::as_ref)
        .chain(["--output".as_ref(), file.as_os_str()]))
    .ok();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&file), mode(&plain));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("# Measured by `egeria machine calibrate`"),
        "{text}"
    );
    assert!(!text.contains("yesterday"));
}

/// The first of four alike nodes.
const UNEQUAL: &str = r#"
name = "unequal"
[[nodes]]
id = 0
cpus = "0-1"
memory_bytes = 1_000_000_000
[[nodes.memories]]
kind = "dram"
read_bytes_s = 16e9
write_bytes_s = 12e9
read_stream_bytes_s = 10e9
write_stream_bytes_s = 8e9
read_latency_ns = 90.0
write_latency_ns = 80.0
"#;

/// Links that go round, three of them one way only, and one across: from 0 to 3 data goes over 1 and 2, from 3 to 1 over 0.
fn unequal() -> String {
    let first = UNEQUAL.split_once("[[nodes]]").unwrap();
    let mut text = first.0.to_owned();
    for id in 0..4 {
        let node = first.1.replace("id = 0", &format!("id = {id}"));
        let node = node.replace("0-1", &format!("{}-{}", 2 * id, 2 * id + 1));
        text.push_str(&format!("[[nodes]]{node}"));
    }
    for (from, to, bytes_s, back_bytes_s, latency_ns) in [
        (0, 1, 6e9, None, 40.0),
        (1, 2, 4e9, None, 40.0),
        (2, 3, 6e9, Some(3e9), 60.0),
        (3, 0, 4e9, None, 40.0),
        (2, 0, 5e9, Some(2e9), 30.0),
    ] {
        let back = back_bytes_s.map_or(String::new(), |back: f64| {
            format!("back_bytes_s = {back:e}\n")
        });
        text.push_str(&format!(
            "[[links]]\nfrom = {from}\nto = {to}\nbytes_s = {bytes_s:e}\n{back}latency_ns = {latency_ns}\n"
        ));
    }
    text
}

/// Links that differ, carry one way only and are shared: what is measured of the emulated machine is what its file says, and
/// AsymSched decides the same with either.
#[test]
fn an_emulated_machine_is_found_as_its_file_says() {
    let sandbox = Sandbox::new();
    let machine = sandbox.file("unequal.toml", &unequal());
    let (found, report) = (sandbox.path("found.toml"), sandbox.path("report.html"));
    let document = run([
        "machine",
        "calibrate",
        "--machine",
        machine.to_str().unwrap(),
        "--seconds",
        "12",
        "--rounds",
        "2",
        "--output",
        found.to_str().unwrap(),
        "--report",
        report.to_str().unwrap(),
        "--json",
    ])
    .ok()
    .json();
    fields_are_described(&document);
    let against = &document["against"];
    assert_eq!(document["rounds"], 2, "{}", document["warnings"]);
    let warnings = document["warnings"].to_string();
    // Where others take the CPUs for too long, that is said, and figures may be off.
    if !warnings.contains("other programs had the CPUs") {
        let worst = against["worst"].as_f64().unwrap();
        assert!(worst < 0.1, "{}", against["figures"]);
        let placements = &against["placements"];
        assert_eq!(placements["same"], placements["windows"], "{placements}");
        assert!(!warnings.contains("share something"), "{warnings}");
    }
    let page = std::fs::read_to_string(&report).unwrap();
    for words in [
        "Ways between nodes",
        "node 3 DRAM",
        "Compared with the file",
        "<svg",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let again = run(["machine", "--machine", found.to_str().unwrap(), "--json"])
        .ok()
        .json();
    assert_eq!(again["nodes"][3]["cpus"].as_array().unwrap().len(), 2);
    assert_eq!(again["emulated"], Value::Null);
}

/// A machine that would take hours is refused at once.
#[test]
fn a_machine_that_is_too_slow_is_refused() {
    let sandbox = Sandbox::new();
    for (from, to) in [
        ("bytes_s = 4e9\n", "bytes_s = 1.0\n"),
        ("read_bytes_s = 16e9", "read_bytes_s = 1.0"),
        ("read_latency_ns = 90.0", "read_latency_ns = 1e9"),
    ] {
        let text = unequal();
        assert!(text.contains(from), "{from}");
        let text = text.replace(from, to);
        let text = if to.starts_with("read_bytes_s") {
            text.replace("read_stream_bytes_s = 10e9", "read_stream_bytes_s = 1.0")
        } else {
            text
        };
        let machine = sandbox.file("slow.toml", &text);
        let calibrate = [
            "machine",
            "calibrate",
            "--machine",
            machine.to_str().unwrap(),
        ];
        run(calibrate).refused(1, &["longer than 0.1 s", "unequal"]);
    }
}
