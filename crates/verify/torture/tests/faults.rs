//! One test for each crash fault that other persistent-memory file systems had, under the name it is
//! known by. Each explores the crash images of the sequence that triggered it. The other faults known have
//! tests of their names elsewhere.

use egeria_torture::crash::{self, CrashOptions, InitialState, Workload};

/// Crash everywhere in a sequence, on one pool and on two. Each operation must change something there,
/// else it would show nothing.
fn explore_on(state: InitialState, images: usize, texts: &[&str]) {
    let operations: Vec<_> = texts
        .iter()
        .map(|text| text.parse().expect("an operation"))
        .collect();
    for (pools, loaded) in [(1, true), (1, false), (2, false)] {
        for until in 1..=operations.len() {
            let operations = operations[..until].to_vec();
            let workload = Workload::Sequence { operations, loaded };
            let (states, wrong) =
                crash::explore_one(state, pools, &workload, images).expect("explore");
            assert_eq!(wrong, None, "{workload} on {pools} pools");
            assert!(states > 1, "{workload} changes nothing on {pools} pools");
        }
    }
}

fn explore(texts: &[&str]) {
    explore_on(InitialState::Tree, 8, texts);
}

#[test]
fn rename_over_existing() {
    explore(&["rename big small"]);
    explore(&["rename d/x big"]);
}

#[test]
fn rename_replay_twice() {
    // A journal kept too long would move the file there once more.
    explore(&["rename d/x e/x", "rename e/x d/x"]);
    explore(&["rename d/x e/x", "chmod e/x 600"]);
}

#[test]
fn rename_directory() {
    explore(&["rename d renamed"]);
    explore(&["rename d e/d", "write e/d/sub/deep 0 11"]);
}

#[test]
fn link_count_pairs() {
    explore(&["rename small d/moved", "link d/moved e/fourth"]);
    explore(&["link small d/fourth", "unlink twin"]);
    explore(&["rename d/x twin"]);
}

#[test]
fn tail_before_entry() {
    explore_on(InitialState::Tree, 32, &["chmod big 600"]);
    explore_on(InitialState::Tree, 32, &["setxattr big user.long 900"]);
}

#[test]
fn mkdir_unflushed_head() {
    explore(&["mkdir new", "create new/child"]);
    explore(&["mkdir d/a", "mkdir d/a/b"]);
}

#[test]
fn replica_out_of_step() {
    use crash::Damage::{FirstSuperblocks, SecondSuperblocks};
    for damage in [FirstSuperblocks, SecondSuperblocks] {
        for pools in [1, 2] {
            let state = InitialState::Damaged(damage);
            let (states, wrong) =
                crash::explore_one(state, pools, &Workload::Repair, 64).expect("explore");
            assert_eq!(wrong, None, "{damage:?} on {pools} pools");
            assert!(states > 50, "{states}");
        }
    }
}

#[test]
fn unaligned_copy_tail() {
    for count in [1, 7, 9, 63, 65, 127, 1001, 4095] {
        explore_on(
            InitialState::Tree,
            2,
            &[&format!("write d/sub/deep 3 {count}")],
        );
        explore_on(InitialState::Tree, 2, &[&format!("append big {count}")]);
        explore_on(InitialState::Tree, 2, &[&format!("symlink s {count}")]);
    }
}

#[test]
fn fast_path_no_fence() {
    explore(&["append small 1", "append small 1"]);
    explore(&["write big 4096 8"]);
    explore(&["write big 4096 4096"]);
    explore(&["truncate small 101"]);
}

#[test]
fn wide_atomic() {
    explore_on(InitialState::Tree, 32, &["attributes big"]);
    explore(&["write small 50 20000"]);
}

#[test]
fn in_place_visible_early() {
    explore_on(InitialState::Tree, 24, &["write big 8200 300"]);
    explore_on(InitialState::Tree, 24, &["write big 8100 300"]);
    explore_on(InitialState::Tree, 24, &["punch big 8200 300"]);
}

#[test]
fn truncate_during_recovery() {
    explore(&["truncate big 100"]);
    explore(&["truncate big 4097", "truncate big 1099511627776"]);
    explore(&["truncate big 0", "write d/sub/deep 0 40000"]);
}

#[test]
fn orphan_replay() {
    explore(&["unlink-open big", "close-open", "write d/sub/deep 0 50000"]);
    explore(&["unlink big"]);
}

#[test]
fn inode_reused_while_pending() {
    explore(&["unlink big", "create next", "write next 0 9000"]);
    explore(&[
        "unlink-open big",
        "create next",
        "write next 0 9000",
        "close-open",
    ]);
}

#[test]
fn several_descriptors() {
    explore(&["write big 60000 3", "append big 9"]);
    explore(&[
        "reserve big 40000 40000",
        "truncate big 45000",
        "write big 44000 2000",
    ]);
    explore(&["unlink-open big", "write-open 100 5000", "close-open"]);
}

#[test]
fn long_name_spans_lines() {
    let long = format!("d/{}", "n".repeat(255));
    let renamed = format!("e/{}", "m".repeat(254));
    explore(&[
        &format!("create {long}"),
        &format!("rename {long} {renamed}"),
    ]);
}

#[test]
fn different_machine_on_recovery() {
    let machine = egeria_machine::Machine::profile("dram-2s").expect("a profile");
    for text in ["create d/new", "rename d/x e/y", "write big 100 9000"] {
        let operations = vec![text.parse().expect("an operation")];
        let workload = Workload::Sequence {
            operations,
            loaded: false,
        };
        let elsewhere = Some(machine.clone());
        let explored = crash::explore_elsewhere(InitialState::Tree, 2, &workload, 4, elsewhere);
        let (states, wrong) = explored.expect("explore");
        assert_eq!(wrong, None, "{text}");
        assert!(states > 1, "{text} changes nothing");
    }
}

#[test]
fn crash_in_recovery() {
    let quick = CrashOptions {
        quick: true,
        states: Some(2000),
        ..CrashOptions::default()
    };
    let report = crash::run(&quick).expect("explore");
    assert_eq!(report.violations, 0, "{}", report.text());
    assert!(report.details.states_in_recovery > 0, "{}", report.text());
    explore(&["exchange d/x e/y"]);
    explore(&["rename d/x e/y"]);
}

#[test]
fn full_volume_crash() {
    // What needs room fails and changes nothing; what gives room works.
    for pools in [1, 2] {
        let workload = Workload::Sequence {
            operations: vec!["write big 0 9000".parse().expect("an operation")],
            loaded: false,
        };
        let explored = crash::explore_one(InitialState::Full, pools, &workload, 8);
        assert_eq!(explored.expect("explore"), (0, None));
    }
    explore_on(InitialState::Full, 8, &["append small 8"]);
    explore_on(
        InitialState::Full,
        8,
        &["truncate filler 5000", "create new"],
    );
    explore_on(InitialState::Full, 8, &["unlink filler", "mkdir new"]);
}

/// Faults of crashes, of interception, and of mounts, by the names they are known by.
const KNOWN: [&str; 38] = [
    "rename_over_existing",
    "rename_replay_twice",
    "rename_directory",
    "link_count_pairs",
    "tail_before_entry",
    "mkdir_unflushed_head",
    "replica_out_of_step",
    "unaligned_copy_tail",
    "fast_path_no_fence",
    "wide_atomic",
    "in_place_visible_early",
    "truncate_during_recovery",
    "orphan_replay",
    "inode_reused_while_pending",
    "several_descriptors",
    "long_name_spans_lines",
    "different_machine_on_recovery",
    "crash_in_recovery",
    "full_volume_crash",
    "ftruncate_under_preload",
    "openat_relative",
    "fork_then_exec",
    "append_many_processes",
    "hook_allocates",
    "stderr_closed",
    "static_program",
    "double_initialisation",
    "dead_process_slot",
    "mmap_of_hole",
    "non_preloaded_reader",
    "creates_as_caller",
    "setid_cleared_on_write",
    "handles_outlive_remounts",
    "nlink_fresh",
    "utime_omit",
    "path_max",
    "noatime_relatime",
    "remount_ro",
];

#[test]
fn every_known_fault_has_a_test_of_its_name() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let mut tests = String::new();
    let crates = egeria_lint::crates(root.as_ref()).expect("crates");
    for path in crates.into_values() {
        let files = std::fs::read_dir(path.join("tests"));
        for file in files.into_iter().flatten() {
            let path = file.expect("a file").path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                tests += &std::fs::read_to_string(path).expect("a test");
            }
        }
    }
    let is_missing = |name: &&&str| !tests.contains(&format!("#[test]\nfn {name}() {{"));
    let missing: Vec<_> = KNOWN.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no test is named {missing:?}");
}
