//! Descriptors that are closed or replaced past the library: no call acts on a file that the number does not mean.

use crate::common::{
    Mounted, assert_ended_well, cost_no_requests, finish, keeps, program, shared_object,
};

#[test]
fn closed_by_an_instruction() {
    keeps("bare", "closed_by_an_instruction", 10);
}

#[test]
fn closed_by_a_computed_number() {
    keeps("bare", "closed_by_a_computed_number", 10);
}

#[test]
fn replaced_by_an_instruction() {
    keeps("bare", "replaced_by_an_instruction", 10);
}

#[test]
fn closed_and_not_opened() {
    keeps("bare", "closed_and_not_opened", 5);
}

#[test]
fn directories_by_an_instruction() {
    keeps("bare", "directories_by_an_instruction", 1);
}

#[test]
fn closed_by_another_thread() {
    keeps("bare", "closed_by_another_thread", 10);
}

#[test]
fn all_numbers_closed() {
    keeps("bare", "all_numbers_closed", 200);
}

#[test]
fn unnamed_files_are_made() {
    keeps("bare", "unnamed_files_are_made", 1);
}

/// With a plug-in; how many of its calls were served past the kernel.
fn with_plugin(rule: &str) -> Option<u64> {
    let mounted = Mounted::new()?;
    let before = mounted.volume.counters();
    let mut command = mounted.command(program("plugins"));
    command.arg(rule);
    command.env("EGERIA_TEST_PLUGIN", shared_object("plugins"));
    assert_ended_well(&finish(&mut command), rule);
    Some(mounted.volume.counters().direct_calls - before.direct_calls)
}

#[test]
fn plug_ins_with_another_libc_close_descriptors() {
    for rule in [
        "deeply_bound",
        "deeply_bound_beside_open_files",
        "in_a_name_space",
    ] {
        with_plugin(rule);
    }
}

#[test]
fn plain_plug_ins_leave_files_to_the_library() {
    if let Some(direct) = with_plugin("plainly_bound") {
        assert!(direct >= 8, "{direct} calls served");
    }
}

/// The mount must not take such a program for one without the library, and give it pages.
#[test]
fn titles_leave_writes_direct() {
    cost_no_requests("bare", "titles_leave_writes_direct", 5 * 100);
}
