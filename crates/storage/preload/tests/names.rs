//! Names and attributes by paths.

use crate::common::{
    Mounted, assert_ended_well, cost_no_requests, finish, is_root, keeps, program,
};

#[test]
fn names_cost_no_requests() {
    cost_no_requests("names", "names_are_direct", 200 * 27);
}

#[test]
fn attributes_cost_no_requests() {
    cost_no_requests("names", "attributes_are_direct", 200 * 16);
}

#[test]
fn known_names_change_directly() {
    keeps("names", "known_names_change_directly", 50 * 22);
}

#[test]
fn addresses_may_be_bad() {
    keeps("names", "addresses_may_be_bad", 2);
}

#[test]
fn the_working_directory_counts_at_once() {
    keeps("names", "the_working_directory_counts_at_once", 200 * 6);
}

#[test]
fn threads_have_umasks_of_their_own() {
    keeps("names", "threads_have_umasks_of_their_own", 5);
}

#[test]
fn the_umask_counts_at_once() {
    keeps("names", "the_umask_counts_at_once", 10);
}

#[test]
fn open_files_have_their_new_paths() {
    keeps("names", "open_files_have_their_new_paths", 1);
}

#[test]
fn both_ways_see_the_same() {
    keeps("names", "both_ways_see_the_same", 20 * 4);
}

#[test]
fn both_ways_see_the_same_space() {
    keeps("names", "both_ways_see_the_same_space", 12);
}

#[test]
fn mounts_count_at_once() {
    if !is_root() {
        return;
    }
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    // Mounts of the namespace end with it.
    let mut command = mounted.command("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command.arg(program("names")).arg("mounts_count_at_once");
    assert_ended_well(&finish(&mut command), "mounts");
    mounted.assert_served(&before, 8, "beside mounts");
}

/// `EGERIA_TEST_SEED` chooses other paths.
#[test]
fn hostile_paths_mean_the_same() {
    keeps("paths", "hostile_paths_mean_the_same", 2500);
}
