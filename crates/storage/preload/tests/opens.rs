//! Files opened without the kernel, and what the kernel must see of them.

use crate::common::{Mounted, assert_ended_well, cost_no_requests, finish, keeps, program};
use std::process::Output;
use std::time::{Duration, Instant};

#[test]
fn made_up_names_cost_no_requests() {
    cost_no_requests("opens", "made_up_names_cost_no_requests", 500 * 9);
}

#[test]
fn opens_cost_no_requests() {
    cost_no_requests("opens", "opens_cost_no_requests", 500 * 8);
}

#[test]
fn copies_cost_no_requests() {
    cost_no_requests("opens", "copies_cost_no_requests", 500 * 8);
}

#[test]
fn unnamed_files_cost_no_requests() {
    cost_no_requests("opens", "unnamed_files_cost_no_requests", 500 * 12);
}

#[test]
fn pipes_in_the_place_of_files_are_not_waited_for() {
    keeps(
        "opens",
        "pipes_in_the_place_of_files_are_not_waited_for",
        20,
    );
}

#[test]
fn unnamed_files_are_named_once() {
    // `stat` of the mapped file goes through the kernel.
    keeps("opens", "unnamed_files_are_named_once", 9);
}

#[test]
fn unnamed_files_by_the_path_of_the_mount() {
    keeps("opens", "unnamed_files_by_the_path_of_the_mount", 4);
}

#[test]
fn first_opens_of_threads_cost_no_requests() {
    // Each process finds its mounts anew.
    for _ in 0..20 {
        cost_no_requests("opens", "first_opens_of_threads_cost_no_requests", 8 * 42);
    }
}

#[test]
fn copies_answer_as_the_kernel() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let rule = "copies_answer_as_the_kernel";
    let with = finish(mounted.command(program("opens")).arg(rule));
    let without = finish(mounted.bare_command(program("opens")).arg(rule));
    assert_ended_well(&with, rule);
    assert_ended_well(&without, rule);
    let lines = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let (with, without) = (lines(&with), lines(&without));
    // Copies between kinds of file systems, which the kernel refuses, are made.
    let is_made = |with: &str, without: &str| {
        let call = |line: &str| line.split(' ').nth(2).map(str::to_owned);
        let answer = |line: &str| {
            line.split([':', ','])
                .nth(1)
                .map(str::trim)
                .map(str::to_owned)
        };
        let is_copy = ["2", "3"].contains(&call(with).unwrap_or_default().as_str());
        let bytes = answer(with).and_then(|text| text.strip_suffix(" 0")?.parse::<u32>().ok());
        let is_refused = answer(without).as_deref() == Some("-1 18");
        is_copy && is_refused && bytes.is_some_and(|bytes| bytes <= 5)
    };
    let differ = |(one, other): &(&str, &str)| one != other && !is_made(one, other);
    let differing: Vec<_> = with.lines().zip(without.lines()).filter(differ).collect();
    assert!(
        differing.is_empty(),
        "with, without the library: {differing:#?}"
    );
    assert_eq!(with.lines().count(), without.lines().count());
}

#[test]
fn every_call_sees_the_file() {
    keeps("opens", "every_call_sees_the_file", 20);
}

#[test]
fn numbers_in_structures_count() {
    keeps("opens", "numbers_in_structures_count", 12);
}

#[test]
fn no_call_reaches_the_placeholder() {
    keeps("opens", "no_call_reaches_the_placeholder", 5);
}

#[test]
fn bare_calls_change_nothing() {
    keeps("opens", "bare_calls_change_nothing", 6);
}

#[test]
fn closing_all_numbers_is_survived() {
    keeps("opens", "closing_all_numbers_is_survived", 60 * 3);
}

#[test]
fn copies_share_the_position() {
    keeps("opens", "copies_share_the_position", 5);
}

#[test]
fn children_have_the_file() {
    keeps("opens", "children_have_the_file", 5);
}

#[test]
fn files_change_under_their_opens() {
    keeps("opens", "files_change_under_their_opens", 5);
}

#[test]
fn removed_files_stay_open() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    let free = mounted.volume.space(None).free_inodes;
    let rule = "removed_files_stay_open";
    let mut command = mounted.command(program("opens"));
    assert_ended_well(&finish(command.arg(rule)), rule);
    mounted.assert_served(&before, 500 * 18, rule);
    let requests = mounted.volume.counters().mount_requests - before.mount_requests;
    assert!(requests < 100, "{requests} requests");
    // There is one file more. The kernel closes what it had open after the end of the program.
    let left = || {
        mounted.volume.reap();
        mounted.volume.space(None).free_inodes
    };
    let began = Instant::now();
    while left() != free - 1 && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(left(), free - 1, "nothing is left open");
}

#[test]
fn removed_files_open_below_a_closed_root() {
    keeps("opens", "removed_files_open_below_a_closed_root", 4);
}

#[test]
fn locks_go_with_any_descriptor() {
    keeps("opens", "locks_go_with_any_descriptor", 5);
}

#[test]
fn who_locks_one_file_opens_others_without_the_kernel() {
    cost_no_requests(
        "opens",
        "who_locks_one_file_opens_others_without_the_kernel",
        500 * 6,
    );
}

#[test]
fn limits_hold() {
    keeps("opens", "limits_hold", 3);
}

#[test]
fn limits_hold_for_threads() {
    keeps("opens", "limits_hold_for_threads", 40);
}

#[test]
fn sent_files_arrive() {
    keeps("opens", "sent_files_arrive", 2);
}

#[test]
fn threads_open_and_close() {
    keeps("opens", "threads_open_and_close", 4000);
}

#[test]
fn others_use_what_one_thread_opens() {
    keeps("opens", "others_use_what_one_thread_opens", 10_000);
}
