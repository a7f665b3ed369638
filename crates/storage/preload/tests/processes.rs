//! Descriptors across fork, vfork, exec, spawn and daemon.

use crate::common::keeps;

#[test]
fn fork_then_exec() {
    keeps("processes", "fork_then_exec", 4);
}

#[test]
fn spawn_system_and_popen() {
    keeps("processes", "spawn_system_and_popen", 6);
}

#[test]
fn exec_goes_on_at_the_offset() {
    keeps("processes", "exec_goes_on_at_the_offset", 3);
}

#[test]
fn vfork_child_leaves_the_table_alone() {
    keeps("processes", "vfork_child_leaves_the_table_alone", 5);
}

#[test]
fn daemon_goes_on_writing() {
    keeps("processes", "daemon_goes_on_writing", 4);
}

#[test]
fn unannounced_fork() {
    keeps("processes", "unannounced_fork", 4);
}

#[test]
fn append_many_processes() {
    keeps("processes", "append_many_processes", 4000);
}

#[test]
fn program_fork_handlers() {
    keeps("processes", "program_fork_handlers", 3);
}

#[test]
fn fork_among_busy_threads() {
    keeps("processes", "fork_among_busy_threads", 200);
}
