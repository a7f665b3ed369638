//! Handlers run outside of the engine, bad buffers are errors, cancelled threads end.

use crate::common::keeps;

#[test]
fn handler_writes_while_main_writes() {
    keeps("signals", "handler_writes_while_main_writes", 1000);
}

#[test]
fn handler_jumps_out_of_a_write() {
    keeps("signals", "handler_jumps_out_of_a_write", 300);
}

#[test]
fn queued_signals_keep_their_facts() {
    keeps("signals", "queued_signals_keep_their_facts", 1000);
}

#[test]
fn programs_see_their_own_actions() {
    keeps("signals", "programs_see_their_own_actions", 1);
}

#[test]
fn ignored_signals_look_ignored() {
    keeps("signals", "ignored_signals_look_ignored", 1);
}

#[test]
fn faults_of_the_program_stay_its_own() {
    keeps("signals", "faults_of_the_program_stay_its_own", 4);
}

#[test]
fn bad_buffers_are_errors() {
    keeps("signals", "bad_buffers_are_errors", 10);
}

#[test]
fn bad_messages_are_errors() {
    keeps("signals", "bad_messages_are_errors", 1);
}

#[test]
fn bad_buffer_with_signals_blocked() {
    keeps("signals", "bad_buffer_with_signals_blocked", 3);
}

#[test]
fn cancelled_threads_end() {
    keeps("signals", "cancelled_threads_end", 100);
}

#[test]
fn cancellation_ends_what_libc_ends() {
    keeps("signals", "cancellation_ends_what_libc_ends", 30);
}

#[test]
fn file_size_limit_is_the_kernels() {
    keeps("signals", "file_size_limit_is_the_kernels", 2);
}

#[test]
fn signals_in_every_call() {
    keeps("signals", "signals_in_every_call", 1000);
}

#[test]
fn signals_in_every_call_that_restarts() {
    keeps("signals", "signals_in_every_call_that_restarts", 1000);
}
