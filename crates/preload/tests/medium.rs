//! Media that fail under a program: `EIO`, from the library and from the mount, and no signal.

mod common;

use common::{Mounted, assert_ended_well, finish, program};

#[test]
fn a_pool_cut_short_under_a_program_is_eio_and_no_signal() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    let mut command = mounted.command(program("medium"));
    for (pool, path) in mounted.volume.pool_paths().iter().enumerate() {
        command.env(format!("POOL{pool}"), path);
    }
    let output = finish(command.arg("pool_cut_short_is_eio"));
    assert_ended_well(&output, "pool_cut_short_is_eio");
    mounted.assert_served(&before, 3, "pool_cut_short_is_eio");
}
