//! Media that fail under a program: `EIO`, from the library and from the mount, and no signal.

use crate::common::{Mounted, assert_ended_well, finish, program};

/// A rule of `medium.c`, which is told where the pools are.
fn keeps(rule: &str, direct: u64) {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    let mut command = mounted.command(program("medium"));
    for (pool, path) in mounted.volume.pool_paths().iter().enumerate() {
        command.env(format!("POOL{pool}"), path);
    }
    let output = finish(command.arg(rule));
    assert_ended_well(&output, rule);
    mounted.assert_served(&before, direct, rule);
}

#[test]
fn a_pool_cut_short_under_a_program_is_eio_and_no_signal() {
    keeps("pool_cut_short_is_eio", 3);
}

#[test]
fn data_that_does_not_match_its_checksum_is_eio() {
    keeps("data_that_does_not_match_is_eio", 20);
}
