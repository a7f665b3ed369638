//! Programs that are difficult for an interposed library, and readers that run at the same time.

use crate::common::{
    Mounted, assert_ended_well, finish, library, preload, program, thread_sanitized, wait,
};
use std::io::{Read, Write};
use std::process::Stdio;

#[test]
fn hook_allocates() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    assert_ended_well(
        &finish(&mut mounted.command(program("allocator"))),
        "allocator",
    );
    mounted.assert_served(&before, 800, "allocator");
}

#[test]
fn static_program() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    let mut command = mounted.command(crate::common::static_program("position"));
    assert_ended_well(&finish(command.arg("appends_at_the_end")), "static");
    assert_eq!(
        std::fs::read(mounted.path("f")).unwrap(),
        b"Onetwothreefour!"
    );
    let after = mounted.volume.counters();
    assert_eq!(after.direct_calls, before.direct_calls);
    assert!(after.mount_requests > before.mount_requests);
}

#[test]
fn double_initialisation() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let second = directory.path().join("second.so");
    std::fs::copy(library(), &second).unwrap();
    let before = mounted.volume.counters();
    for rule in ["threads_begin_at_once", "vectors"] {
        let mut command = mounted.command(program("calls"));
        command
            .env("LD_PRELOAD", preload(&[library(), &second]))
            .arg(rule);
        assert_ended_well(&finish(&mut command), rule);
    }
    mounted.assert_served(&before, 40, "with two libraries");
}

#[test]
fn switched_off_and_bypassed_programs_work_through_the_mount() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    for (name, value) in [
        ("EGERIA_PRELOAD", "off"),
        ("EGERIA_BYPASS", "other:calls:more"),
    ] {
        let mut command = mounted.command(program("calls"));
        assert_ended_well(&finish(command.env(name, value).arg("vectors")), name);
    }
    assert_eq!(mounted.volume.counters().direct_calls, before.direct_calls);
    let mut command = mounted.command(program("calls"));
    assert_ended_well(
        &finish(command.env("EGERIA_BYPASS", "call:callsx").arg("vectors")),
        "not bypassed",
    );
    mounted.assert_served(&before, 15, "not bypassed");
}

#[test]
fn dead_process_slot() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let mut byte = [0];
    for _ in 0..150 {
        let mut command = mounted.command(program("calls"));
        let mut child = command
            .arg("writes_until_killed")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Counts of the dead are counted twice for a moment while their slots are given back.
    mounted.volume.reap();
    mounted.keeps("calls", "writes_a_little", 100);
}

#[test]
fn non_preloaded_reader() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    let mut command = mounted.command(program("calls"));
    command
        .arg("writes_for_another_reader")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut answer, mut said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut byte = [0];
    let mut reader = None;
    for round in 0..200_u64 {
        said.read_exact(&mut byte).unwrap();
        let file =
            reader.get_or_insert_with(|| std::fs::File::open(mounted.path("shared")).unwrap());
        assert_eq!(
            file.metadata().unwrap().len(),
            (round + 1) * 4096,
            "stale size"
        );
        let mut block = [0; 4096];
        file.read_exact(&mut block).unwrap();
        assert!(
            block.iter().all(|&byte| byte == b'a' + (round % 26) as u8),
            "stale data"
        );
        answer.write_all(b"g").unwrap();
    }
    assert!(wait(&mut child).success());
    mounted.assert_served(&before, 200, "writer");
}

#[test]
fn everyday_programs() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let script = "set -e
        seq 1 20000 > numbers; sort -rn numbers > sorted; sort -n sorted | cmp - numbers
        cp numbers copy; cmp numbers copy; cat numbers copy > both
        [ $(wc -l < both) = 40000 ]; tail -1 both | grep -q '^20000$'
        dd if=both of=third bs=1000 2>/dev/null; cmp both third
        (echo one; echo two) > list; echo three >> list; [ \"$(tr '\\n' ' ' < list)\" = 'one two three ' ]
        mkdir tree; cp numbers tree/a; tar cf tree.tar tree; mkdir out; tar xf tree.tar -C out
        cmp out/tree/a numbers; gzip -k numbers; gunzip -c numbers.gz | cmp - numbers";
    let before = mounted.volume.counters();
    assert_ended_well(
        &finish(mounted.command("sh").args(["-c", script])),
        "script",
    );
    mounted.assert_served(&before, 50, "script");
}

/// The rules are the kernel's: they hold on the mount without the library as well.
#[test]
fn rules_hold_without_the_library() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let rules = [
        ("position", "follows_read_write_and_seek"),
        ("position", "appends_at_the_end"),
        ("position", "dup_shares_the_offset"),
        ("position", "fork_shares_the_offset"),
        ("descriptors", "reused_numbers_meet_no_stale_entry"),
        ("descriptors", "access_modes_are_kept"),
        ("descriptors", "excessive_sizes"),
        ("descriptors", "ftruncate_under_preload"),
        ("calls", "vectors"),
        ("calls", "copies_between_files"),
        ("calls", "streams_and_calls_together"),
        ("calls", "mmap_of_hole"),
        ("streams", "what_is_under_a_stream_is_a_file_like_any_other"),
        ("streams", "streams_begin_again"),
        ("streams", "forks_beside_locks"),
        ("streams", "streams_that_were_there_before_write"),
        ("opens", "removed_files_stay_open"),
        ("opens", "locks_go_with_any_descriptor"),
        ("signals", "bad_buffers_are_errors"),
        ("signals", "file_size_limit_is_the_kernels"),
    ];
    for (name, rule) in rules {
        let mut command = mounted.bare_command(program(name));
        assert_ended_well(&finish(command.arg(rule)), rule);
    }
}

#[test]
fn thread_sanitizer_finds_nothing() {
    let (Some(mounted), Some(program)) = (Mounted::new(), thread_sanitized("opens")) else {
        return;
    };
    for rule in ["threads_open_and_close", "removed_files_stay_open"] {
        // The sanitizer does not know where today's kernels put mappings.
        let mut command = mounted.command("setarch");
        command.arg("--addr-no-randomize").arg(&program).arg(rule);
        let output = finish(&mut command);
        assert_ended_well(&output, rule);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("ThreadSanitizer"), "{rule}: {said}");
    }
}
