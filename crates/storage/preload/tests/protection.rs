//! Pools are closed to stores of the program, where the CPU has protection keys.

use crate::common::{Mounted, assert_ended_well, finish, program};

const RULE: &str = "stray_stores_fault";

fn keeps(setting: Option<&str>) {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    let mut command = mounted.command(program("protection"));
    command.env("POOL0", &mounted.volume.pool_paths()[0]);
    if let Some(setting) = setting {
        command.env("EGERIA_PROTECTION_KEYS", setting);
    }
    let output = finish(command.arg(RULE));
    assert_ended_well(&output, RULE);
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    mounted.assert_served(&before, 200 * 8, RULE);
}

#[test]
fn stray_stores_of_a_program_fault() {
    keeps(None);
}

#[test]
fn keys_can_be_switched_off() {
    keeps(Some("off"));
}
