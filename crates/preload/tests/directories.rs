//! Directories read without the kernel, and what the kernel must see of them.

mod common;

use common::{Mounted, NOBODY, assert_ended_well, finish, is_root, keeps, program};
use egeria_mount::MountOptions;
use std::os::unix::fs::PermissionsExt;

#[test]
fn listing_costs_no_requests() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    let mut command = mounted.command(program("directories"));
    assert_ended_well(
        &finish(command.arg("listing_costs_no_requests")),
        "directories",
    );
    mounted.assert_served(&before, 200 * 1000, "directories");
    let requests = mounted.volume.counters().mount_requests - before.mount_requests;
    assert!(requests < 100, "{requests} requests");
}

#[test]
fn libc_and_the_library_read_the_same() {
    keeps("directories", "libc_and_the_library_read_the_same", 300);
}

#[test]
fn positions_are_shared_with_the_kernel() {
    keeps("directories", "positions_are_shared_with_the_kernel", 500);
}

#[test]
fn every_call_sees_the_directory() {
    keeps("directories", "every_call_sees_the_directory", 20);
}

#[test]
fn children_go_on_reading() {
    keeps("directories", "children_go_on_reading", 2000);
}

#[test]
fn removed_ones_end() {
    keeps("directories", "removed_ones_end", 5);
}

#[test]
fn limits_hold() {
    keeps("directories", "limits_hold", 10);
}

#[test]
fn threads_read() {
    keeps("directories", "threads_read", 4 * 200);
}

#[test]
fn rights_hold() {
    if !is_root() {
        return;
    }
    let options = MountOptions {
        allow_other: true,
        ..MountOptions::default()
    };
    let Some(mounted) = Mounted::with(&options) else {
        return;
    };
    let modes = [
        ("open", 0o755),
        ("unreadable", 0o711),
        ("closed", 0o700),
        ("unsearchable", 0o744),
    ];
    permissions(mounted.point(), 0o755);
    for (name, mode) in modes {
        std::fs::create_dir(mounted.path(name)).unwrap();
        if name != "open" {
            std::fs::create_dir(mounted.path(name).join("inner")).unwrap();
        }
        permissions(&mounted.path(name), mode);
    }
    let mut command = mounted.command("setpriv");
    command.args(["--reuid", &NOBODY.to_string(), "--clear-groups"]);
    command.arg(program("directories")).arg("rights_hold");
    assert_ended_well(&finish(&mut command), "another user");
}

fn permissions(path: &std::path::Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}
