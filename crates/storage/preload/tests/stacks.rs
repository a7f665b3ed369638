//! How much of the caller's stack the calls need.

use crate::common::{Mounted, assert_ended_well, finish, keeps, program};
use std::collections::BTreeMap;

/// What every call may need, whatever libc's own needs.
const MAX_BYTES: usize = 4096;

/// Bytes of stack by call.
fn depths(text: &[u8]) -> BTreeMap<String, usize> {
    let text = String::from_utf8_lossy(text);
    let words = text.lines().filter_map(|line| line.split_once(' '));
    words
        .map(|(name, bytes)| (name.to_owned(), bytes.parse().unwrap()))
        .collect()
}

#[test]
fn calls_need_little_of_the_callers_stack() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let rule = "calls_are_measured";
    std::fs::write(mounted.path("file"), "data").unwrap();
    std::os::unix::fs::symlink("file", mounted.path("link")).unwrap();
    let before = mounted.volume.counters();
    // Bound at the start: the dynamic linker needs a stack of its own for it.
    let mut command = mounted.command(program("stacks"));
    let output = finish(command.arg(rule).env("LD_BIND_NOW", "1"));
    assert_ended_well(&output, rule);
    mounted.assert_served(&before, 50, rule);
    let depths = depths(&output.stdout);
    assert!(depths.len() > 60, "{depths:?}");
    let deep: Vec<_> = depths
        .iter()
        .filter(|(_, bytes)| **bytes > MAX_BYTES)
        .collect();
    assert!(deep.is_empty(), "{deep:?}");
}

#[test]
fn first_calls_on_small_stacks() {
    for kib in [16, 24, 32] {
        keeps("stacks", &format!("first_calls_on_{kib}_kib"), 5);
    }
}

#[test]
fn calls_in_handlers_on_small_stacks() {
    keeps("stacks", "first_calls_in_handlers", 0);
    keeps("stacks", "later_calls_in_handlers", 20 * 5);
}

#[test]
fn handlers_keep_their_frames() {
    keeps("stacks", "handlers_keep_their_frames", 1000);
}
