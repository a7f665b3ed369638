//! Each call of the data path in all of its forms, copies, streams and maps.

use crate::common::{Mounted, assert_ended_well, finish, is_root, keeps, program};

#[test]
fn vectors() {
    keeps("calls", "vectors", 15);
}

#[test]
fn fortified_and_other_names() {
    keeps("calls", "fortified_and_other_names", 9);
}

#[test]
fn syncs_are_done_already() {
    keeps("calls", "syncs_are_done_already", 400);
}

#[test]
fn lost_stores_are_told_once() {
    keeps("calls", "lost_stores_are_told_once", 100);
}

#[test]
fn advice_keeps_calls_direct() {
    keeps("calls", "advice_keeps_calls_direct", 104);
}

#[test]
fn copies_between_files() {
    keeps("calls", "copies_between_files", 10);
}

#[test]
fn streams_and_calls_together() {
    keeps("calls", "streams_and_calls_together", 6);
}

#[test]
fn stderr_closed() {
    keeps("calls", "stderr_closed", 3);
}

#[test]
fn mmap_of_hole() {
    keeps("calls", "mmap_of_hole", 1);
}

#[test]
fn threads_begin_at_once() {
    keeps("calls", "threads_begin_at_once", 32);
}

#[test]
fn threads_come_and_go() {
    keeps("calls", "threads_come_and_go", 5000);
}

#[test]
fn set_ids_stay_with_the_capability() {
    if is_root() {
        keeps("calls", "set_ids_stay_with_the_capability", 6);
    }
}

#[test]
fn set_ids_go_without_the_capability() {
    let Some(mounted) = Mounted::new().filter(|_| is_root()) else {
        return;
    };
    let rule = "set_ids_go_without_the_capability";
    let before = mounted.volume.counters();
    let mut command = mounted.command("setpriv");
    command.args(["--bounding-set", "-fsetid"]);
    command.arg(program("calls")).arg(rule);
    assert_ended_well(&finish(&mut command), rule);
    mounted.assert_served(&before, 6, rule);
}
