//! New data lands on the node of the thread that writes it: two declared nodes of one CPU each, and
//! writers bound to one of them.

mod common;

use egeria_harness::testing::has_two_cpus;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Sandbox, can_mount, egeria, finish, run};
use serde_json::Value;

/// Data of each writer.
const BYTES: u64 = 4 << 20;

/// CPUs this process may use.
fn cpus() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap()
        .trim()
        .to_owned();
    let bounds = |part: &str| {
        part.split_once('-')
            .map_or((part.parse(), part.parse()), |(from, to)| {
                (from.parse(), to.parse())
            })
    };
    list.split(',')
        .map(bounds)
        .flat_map(|(from, to)| from.unwrap()..=to.unwrap())
        .collect()
}

/// A machine of two nodes, each on one of two CPUs; fast, for it is where data goes that counts.
fn machine_file(sandbox: &Sandbox, cpus: &[usize]) -> PathBuf {
    let node = |id: usize| {
        format!(
            "[[nodes]]\nid = {id}\ncpus = \"{}\"\n[nodes.emulated]\ncores = 1\ndimms = 1\n\
             read_bytes_s = 1e11\nwrite_bytes_s = 1e11\nread_stream_bytes_s = 1e11\nwrite_stream_bytes_s = 1e11\n\
             read_latency_ns = 10.0\nwrite_latency_ns = 10.0\nremote_latency_factor = 1.5\n\
             remote_read_bandwidth_factor = 0.7\nremote_write_bandwidth_factor = 0.7\n\
             read_curve = [[1, 1.0]]\nwrite_curve = [[1, 1.0]]\n",
            cpus[id]
        )
    };
    let head = "name = \"two-cpus\"\n[emulation]\ndilation = 1.0\ntiming = false\n";
    sandbox.file("machine.toml", &format!("{head}{}{}", node(0), node(1)))
}

/// Bytes of a file on each of the two nodes.
fn held(file: &Path) -> [u64; 2] {
    let document = run(["stat", "--json", file.to_str().unwrap()]).ok().json();
    let on = |node: u64| -> u64 {
        let nodes = document["nodes"].as_array().unwrap();
        nodes
            .iter()
            .filter(|share| share["node"] == node)
            .map(|share| share["bytes"].as_u64().unwrap())
            .sum()
    };
    [on(0), on(1)]
}

/// Writes a file with a process bound to one CPU.
fn write_on(cpu: usize, file: &Path, preload: Option<&Path>) {
    let mut writer = Command::new("taskset");
    writer.args([
        "--cpu-list",
        &cpu.to_string(),
        "dd",
        "if=/dev/urandom",
        "bs=64k",
        "status=none",
    ]);
    writer
        .arg(format!("count={}", BYTES >> 16))
        .arg(format!("of={}", file.display()));
    if let Some(library) = preload {
        writer.env("LD_PRELOAD", library);
    }
    assert!(writer.status().unwrap().success());
}

/// Two CPUs, when mounting works and there are two; says loudly when not.
fn two_cpus() -> Option<Vec<usize>> {
    let cpus = cpus();
    (has_two_cpus() && can_mount()).then_some(cpus)
}

#[test]
fn data_lands_on_the_writers_node() {
    let Some(cpus) = two_cpus() else { return };
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let machine = machine_file(&sandbox, &cpus);
    let mount = |more: &[&str]| {
        let fixed = [
            "mount",
            pool.to_str().unwrap(),
            directory.to_str().unwrap(),
            "--machine",
            machine.to_str().unwrap(),
        ];
        run(fixed.iter().chain(more)).ok();
    };
    let umount = || run(["umount", directory.to_str().unwrap()]).ok();

    mount(&[]);
    for (node, &cpu) in cpus.iter().take(2).enumerate() {
        for (way, preload) in [("direct", Some(common::preload_library())), ("mount", None)] {
            let file = directory.join(format!("{way}{node}"));
            write_on(cpu, &file, preload);
            let mut expected = [0, 0];
            expected[node] = BYTES;
            assert_eq!(held(&file), expected, "{way}, a writer on node {node}");
        }
    }
    umount();

    mount(&["--alloc", "node=1"]);
    let file = directory.join("bound");
    write_on(cpus[0], &file, Some(common::preload_library()));
    assert_eq!(held(&file), [0, BYTES], "--alloc node=1");
    umount();

    mount(&["--alloc", "random"]);
    let file = directory.join("random");
    write_on(cpus[0], &file, Some(common::preload_library()));
    let [first, second] = held(&file);
    assert!(
        first > 0 && second > 0 && first + second == BYTES,
        "--alloc random: {first} and {second}"
    );
    umount();
    run(["check", pool.to_str().unwrap()]).ok();
}

#[test]
fn local_and_remote_bytes_are_told_apart() {
    let Some(cpus) = two_cpus() else { return };
    let sandbox = Sandbox::new();
    let machine = machine_file(&sandbox, &cpus);
    let report_of = |name: &str, alloc: &str| -> Value {
        let report = sandbox.path(name);
        let body = format!(
            "taskset -c {} dd if=/dev/zero of=$EGERIA_MOUNT/f bs=64k count=64 status=none",
            cpus[0]
        );
        let mut command = egeria(["run", "--scratch", "64M", "--alloc", alloc]);
        command
            .arg("--machine")
            .arg(&machine)
            .arg("--report")
            .arg(&report)
            .args(["--", "sh", "-c", &body]);
        command.env("EGERIA_PRELOAD_LIB", common::preload_library());
        let ended = finish(command);
        assert_eq!(ended.status, 0, "{ended:?}");
        serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap()
    };
    let near = report_of("near", "node=0");
    assert!(
        near["local_bytes"].as_u64().unwrap() >= BYTES && near["remote_bytes"] == 0,
        "{near}"
    );
    let far = report_of("far", "node=1");
    assert!(far["remote_bytes"].as_u64().unwrap() >= BYTES, "{far}");
}
