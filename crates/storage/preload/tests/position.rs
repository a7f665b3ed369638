//! Where read, write and lseek are: alone, and shared by dup, fork, exec and sockets.

use crate::common::keeps;

#[test]
fn follows_read_write_and_seek() {
    keeps("position", "follows_read_write_and_seek", 20);
}

#[test]
fn appends_at_the_end() {
    keeps("position", "appends_at_the_end", 6);
}

#[test]
fn append_flag_set_by_another_process() {
    keeps("position", "append_flag_set_by_another_process", 2);
}

#[test]
fn dup_shares_the_offset() {
    keeps("position", "dup_shares_the_offset", 15);
}

#[test]
fn dup_to_standard_stream() {
    keeps("position", "dup_to_standard_stream", 4);
}

#[test]
fn fork_shares_the_offset() {
    keeps("position", "fork_shares_the_offset", 6);
}

#[test]
fn fork_children_write_in_turn() {
    keeps("position", "fork_children_write_in_turn", 1600);
}

#[test]
fn threads_share_the_offset() {
    keeps("position", "threads_share_the_offset", 12000);
}

#[test]
fn fd_passed_over_a_socket() {
    keeps("position", "fd_passed_over_a_socket", 5);
}

#[test]
fn fds_passed_in_several_messages() {
    keeps("position", "fds_passed_in_several_messages", 6);
}

#[test]
fn fds_passed_before_their_first_use() {
    keeps("position", "fds_passed_before_their_first_use", 4);
}

#[test]
fn lock_relative_to_the_position() {
    keeps("position", "lock_relative_to_the_position", 1);
}

#[test]
fn streams_and_writers_share_the_position() {
    keeps("position", "streams_and_writers_share_the_position", 6000);
}
