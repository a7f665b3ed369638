//! What each descriptor number is, however it is closed, copied and used again.

use crate::common::keeps;

#[test]
fn reused_numbers_meet_no_stale_entry() {
    keeps("descriptors", "reused_numbers_meet_no_stale_entry", 60);
}

#[test]
fn ten_thousand_descriptors() {
    keeps("descriptors", "ten_thousand_descriptors", 30000);
}

#[test]
fn access_modes_are_kept() {
    keeps("descriptors", "access_modes_are_kept", 4);
}

#[test]
fn excessive_sizes() {
    keeps("descriptors", "excessive_sizes", 0);
}

#[test]
fn unlinked_file_lives() {
    keeps("descriptors", "unlinked_file_lives", 3);
}

#[test]
fn threads_open_and_close() {
    keeps("descriptors", "threads_open_and_close", 200);
}

#[test]
fn dup2_over_a_file_in_use() {
    keeps("descriptors", "dup2_over_a_file_in_use", 20000);
}

#[test]
fn openat_relative() {
    keeps("descriptors", "openat_relative", 3);
}

#[test]
fn ftruncate_under_preload() {
    keeps("descriptors", "ftruncate_under_preload", 8);
}
