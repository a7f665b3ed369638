//! Lines that repair, for facts of a machine with two nodes.

use std::path::PathBuf;

use egeria_facts::{
    CpuSet, Facts, FileFacts, FileKey, FileUse, NodeAccesses, ProcessAccesses, ProcessKey,
    ThreadFacts, ThreadKey, Window,
};
use egeria_machine::{CpuId, Machine, NodeId};
use egeria_policy::ActionKind;
use egeria_policy::diagnosis::{Finding, Look, Verdict, diagnose};
use egeria_policy::planner::System;

use super::super::programs::ProgramRow;
use super::program::{Surroundings, program};
use super::recorded::All;
use super::repair::{Repair, Repairs, When};
use super::subject::Subject;

const SECOND_NS: u64 = 1_000_000_000;
const GB: u64 = 1_000_000_000;
const FILE: FileKey = FileKey {
    volume: 0,
    inode: 9,
};

/// Two nodes of 4 CPUs with 8 GB each.
fn machine() -> Machine {
    let text =
        "name = \"two\"\n[[nodes]]\nid = 0\ncpus = \"0-3\"\n[[nodes]]\nid = 1\ncpus = \"4-7\"\n";
    let mut machine = Machine::from_toml(text, "two.toml".as_ref()).unwrap();
    for node in &mut machine.nodes {
        node.memory_bytes = 8 * GB;
    }
    machine
}

/// Two busy threads of process 7 on node 1, whose memory of 1 GB is on node 0.
fn apart(machine: &Machine, allowed: std::ops::Range<u16>) -> Facts {
    let mut facts = Facts::of(Window::empty(machine, 0, 0, SECOND_NS));
    let allowed: CpuSet = allowed.map(CpuId).collect();
    for thread_id in [7, 8] {
        let key = ThreadKey {
            process_id: 7,
            thread_id,
            start_ticks: 1,
        };
        facts.window.threads.push(ThreadFacts {
            busy_ns: SECOND_NS,
            pinned: allowed.len() < 8,
            ..ThreadFacts::idle(key, NodeId(1), 2, allowed.clone())
        });
    }
    facts.window.nodes[1].busy_ns = 2 * SECOND_NS;
    let node = |node, threads, accesses_s: [f64; 2], resident_bytes| NodeAccesses {
        node: NodeId(node),
        threads,
        pinned: threads > 0 && allowed.len() < 8,
        accesses_s: accesses_s.to_vec(),
        resident_bytes,
    };
    facts.accesses.free_bytes = vec![6 * GB; 2];
    facts.accesses.processes.push(ProcessAccesses {
        process: ProcessKey {
            process_id: 7,
            start_ticks: 1,
        },
        running_ns: 1_000_000 * SECOND_NS,
        accessors_known: true,
        nodes: vec![node(0, 0, [0.0; 2], GB), node(1, 2, [1e7, 0.0], 0)],
        ..ProcessAccesses::default()
    });
    facts
}

/// The same threads read a file that the page cache has on node 0, and no memory.
fn reading(machine: &Machine, allowed: std::ops::Range<u16>) -> Facts {
    let mut facts = apart(machine, allowed);
    facts.accesses.processes.clear();
    for thread in &mut facts.window.threads {
        thread.read_bytes = vec![GB, 0];
        thread.files = vec![FileUse {
            file: FILE,
            read_bytes: GB,
            written_bytes: 0,
        }];
    }
    facts.window.nodes[0].read_bytes = 2 * GB;
    facts
}

fn finding(machine: &Machine, facts: &Facts) -> Finding {
    let kinds = [
        ActionKind::ThreadMigration,
        ActionKind::ProcessMigration,
        ActionKind::MemoryMigration,
        ActionKind::Relocation,
    ];
    let mut found = diagnose(&Look {
        machine,
        make: System::All.make(),
        settings: &System::All.settings(),
        kinds: &kinds,
        facts,
    });
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn subject(unit: Option<&str>) -> Subject {
    Subject {
        process_id: 7,
        unit: unit.map(str::to_owned),
        command: "./server --fast".to_owned(),
        group_cpus: None,
    }
}

fn lines(machine: &Machine, subject: &Subject, finding: &Finding) -> Vec<(When, String)> {
    lines_with(machine, subject, finding, (false, false))
}

fn lines_with(
    machine: &Machine,
    subject: &Subject,
    finding: &Finding,
    (has_weights, is_shared): (bool, bool),
) -> Vec<(When, String)> {
    let repairs = Repairs {
        machine,
        subject,
        finding,
        path: &|file| (file == FILE).then(|| PathBuf::from("/srv/my data.db")),
        has_weights,
        as_root: true,
        is_shared_outside: &|_| is_shared,
    };
    let lines = repairs.lines().into_iter();
    lines.map(|Repair { when, line }| (when, line)).collect()
}

#[track_caller]
fn check(found: &[(When, String)], expected: &[(When, &str)]) {
    let found: Vec<(When, &str)> = found.iter().map(|(when, line)| (*when, &**line)).collect();
    assert_eq!(found, expected);
}

#[test]
fn threads_that_may_move_are_a_stewards() {
    let machine = machine();
    let finding = finding(&machine, &apart(&machine, 0..8));
    assert_eq!(finding.verdict, Verdict::Apart);
    check(
        &lines(&machine, &subject(None), &finding),
        &[
            (When::Now, "sudo egeria steward --pid 7"),
            (
                When::NextStart,
                "numactl --cpunodebind=0 --preferred=0 ./server --fast",
            ),
        ],
    );
}

#[test]
fn memory_of_bound_threads_is_moved_to_them() {
    let machine = machine();
    let finding = finding(&machine, &apart(&machine, 4..8));
    check(
        &lines(&machine, &subject(Some("db.service")), &finding),
        &[
            (When::Now, "sudo egeria move --pid 7 --node 1"),
            (
                When::NextStart,
                "sudo mkdir -p /etc/systemd/system/db.service.d && printf '[Service]\\nCPUAffinity=4-7\\nNUMAPolicy=preferred\\nNUMAMask=1\\n' | sudo tee /etc/systemd/system/db.service.d/placement.conf && sudo systemctl daemon-reload",
            ),
        ],
    );
}

#[test]
fn shared_memory_of_bound_threads_is_moved_with_its_users() {
    let machine = machine();
    let finding = finding(&machine, &apart(&machine, 4..8));
    let lines = lines_with(&machine, &subject(None), &finding, (false, true));
    assert_eq!(lines[0].1, "sudo egeria move --pid 7 --node 1 --mapped");
    let mut facts = apart(&machine, 4..8);
    facts.accesses.free_bytes = vec![6 * GB, 100 << 20];
    let finding = self::finding(&machine, &facts);
    let lines = lines_with(&machine, &subject(None), &finding, (false, true));
    let line = "sudo egeria move --pid 7 --node 1 --mapped --max 100MiB";
    assert_eq!(lines[0].1, line);
}

#[test]
fn slow_reads_of_other_nodes_are_shown_without_a_fault() {
    let machine = machine();
    let mut facts = reading(&machine, 0..8);
    for thread in &mut facts.window.threads {
        thread.read_bytes = vec![20_000_000, 1_000_000];
    }
    facts.window.nodes[0].read_bytes = 40_000_000;
    facts.window.nodes[1].read_bytes = 2_000_000;
    facts.files.push(FileFacts {
        file: FILE,
        bytes: 100_000_000,
        bytes_on: vec![100_000_000, 0],
        read_bytes: vec![vec![1_000_000, 0], vec![40_000_000, 2_000_000]],
        written_bytes: 0,
        replicas: Vec::new(),
    });
    let finding = finding(&machine, &facts);
    assert_eq!(finding.verdict, Verdict::Quiet, "{finding:?}");
    let of = |facts: &Facts| {
        let with = Surroundings {
            machine: &machine,
            facts,
            subject: subject(None),
            path: &|file| (file == FILE).then(|| PathBuf::from("/srv/my data.db")),
            has_weights: false,
            as_root: true,
            is_shared_outside: &|_| false,
        };
        let row = ProgramRow::recorded(&machine, facts, 7);
        program(&with, row, &finding).files_elsewhere
    };
    let found = of(&facts).expect("40 MB/s");
    assert_eq!(found.moved_bytes_s, 40e6);
    assert_eq!(found.lines, ["sudo egeria warm '/srv/my data.db' --node 1"]);
    // Threads of both nodes read it: it can be local to one of them only.
    facts.files[0].read_bytes[0][0] = 30_000_000;
    let found = of(&facts).expect("40 MB/s");
    assert_eq!(found.lines, [""; 0]);
    for thread in &mut facts.window.threads {
        thread.read_bytes = vec![100_000, 100_000];
    }
    assert_eq!(of(&facts), None, "0.2 MB/s");
}

#[test]
fn a_file_in_another_nodes_page_cache_is_warmed() {
    let machine = machine();
    let mut facts = reading(&machine, 4..8);
    facts.files.push(FileFacts {
        file: FILE,
        bytes: 100_000_000,
        bytes_on: vec![100_000_000, 0],
        read_bytes: vec![vec![0, 0], vec![2 * GB, 0]],
        written_bytes: 0,
        replicas: Vec::new(),
    });
    let finding = finding(&machine, &facts);
    assert_eq!(finding.verdict, Verdict::PageCacheElsewhere);
    check(
        &lines(&machine, &subject(None), &finding),
        &[(When::Now, "sudo egeria warm '/srv/my data.db' --node 1")],
    );
}

#[test]
fn a_bound_program_gets_the_cpus_of_its_files() {
    let machine = machine();
    let finding = finding(&machine, &reading(&machine, 4..8));
    assert_eq!(finding.verdict, Verdict::Bound);
    check(
        &lines(&machine, &subject(None), &finding),
        &[(When::Now, "sudo taskset --all-tasks --cpu-list --pid 0-3 7")],
    );
    let mut shut_in = subject(Some("db.service"));
    shut_in.group_cpus = "4-7".parse().ok();
    check(
        &lines(&machine, &shut_in, &finding),
        &[(
            When::Now,
            "sudo systemctl set-property db.service AllowedCPUs=0-3",
        )],
    );
}

#[test]
fn without_room_as_much_goes_as_fits() {
    let machine = machine();
    let mut facts = apart(&machine, 4..8);
    facts.accesses.free_bytes = vec![6 * GB, 100 << 20];
    let finding = finding(&machine, &facts);
    assert_eq!(finding.verdict, Verdict::NoRoom);
    check(
        &lines(&machine, &subject(None), &finding),
        &[
            (When::Now, "sudo egeria move --pid 7 --node 1 --max 100MiB"),
            (When::NextStart, "numactl --interleave=0,1 ./server --fast"),
        ],
    );
}

#[test]
fn outgrown_memory_is_spread() {
    let machine = machine();
    let mut facts = apart(&machine, 4..8);
    facts.accesses.free_bytes = vec![1 << 20, 1 << 20];
    let nodes = &mut facts.accesses.processes[0].nodes;
    nodes[0].resident_bytes = 3 * GB;
    nodes[1].resident_bytes = 7 * GB;
    nodes[1].accesses_s = vec![3e6, 7e6];
    let finding = finding(&machine, &facts);
    assert_eq!(finding.verdict, Verdict::Outgrown);
    check(
        &lines(&machine, &subject(None), &finding),
        &[
            (When::Now, "sudo egeria move --pid 7 --spread"),
            (When::NextStart, "numactl --interleave=0,1 ./server --fast"),
        ],
    );
    let weighted = lines_with(&machine, &subject(None), &finding, (true, false));
    let line = "sudo egeria weights set && numactl --weighted-interleave=0,1 ./server --fast";
    assert_eq!(weighted[1].1, line);
}

#[test]
fn a_program_in_order_needs_no_line() {
    let machine = machine();
    let mut facts = apart(&machine, 0..8);
    facts.accesses.processes[0].nodes[1].accesses_s = vec![0.0, 1e7];
    facts.accesses.processes[0].nodes[0].resident_bytes = 0;
    facts.accesses.processes[0].nodes[1].resident_bytes = GB;
    let finding = finding(&machine, &facts);
    assert_eq!(finding.verdict, Verdict::Local);
    check(&lines(&machine, &subject(None), &finding), &[]);
}

/// The program of facts with all its memory on the node of its threads.
fn local(machine: &Machine) -> Facts {
    let mut facts = apart(machine, 0..8);
    let nodes = &mut facts.accesses.processes[0].nodes;
    nodes[1].accesses_s = vec![0.0, 1e7];
    (nodes[0].resident_bytes, nodes[1].resident_bytes) = (0, GB);
    facts
}

/// The one program of these windows: its verdict, in how many of how many busy windows, and its gain.
fn of_windows(windows: &[&Facts]) -> (Verdict, Option<(u64, u64)>, Option<f64>) {
    let machine = machine();
    let mut all = All::default();
    for facts in windows {
        all.add(&machine, facts);
    }
    let document = all.document(&machine, None);
    assert_eq!(document.windows, Some(windows.len() as u64));
    assert_eq!(document.observed_ns, windows.len() as u64 * SECOND_NS);
    let [program] = &document.programs[..] else {
        panic!("{} programs", document.programs.len());
    };
    let counted = program
        .windows
        .map(|windows| (windows.with_verdict, windows.busy));
    (program.verdict, counted, program.gain)
}

#[test]
fn most_windows_of_a_recording_decide() {
    let machine = machine();
    let (apart, local) = (apart(&machine, 0..8), local(&machine));
    let mut quiet = local.clone();
    quiet.accesses.processes.clear();
    let gain = finding(&machine, &apart).gain;
    assert!(gain.is_some_and(|gain| gain > 0.01), "{gain:?}");
    let verdict = of_windows(&[&apart, &local, &apart]);
    assert_eq!(verdict, (Verdict::Apart, Some((2, 3)), gain));
    let verdict = of_windows(&[&local, &apart, &local]);
    assert_eq!((verdict.0, verdict.1), (Verdict::Local, Some((2, 3))));
    // Of two as frequent the fault, and windows in which it does little do not count.
    let verdict = of_windows(&[&quiet, &quiet, &local, &apart, &quiet]);
    assert_eq!((verdict.0, verdict.1), (Verdict::Apart, Some((1, 2))));
    assert_eq!(of_windows(&[&quiet]), (Verdict::Quiet, None, None));
}
