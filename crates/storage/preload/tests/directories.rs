//! Directories read without the kernel, and what the kernel must see of them.

use crate::common::{Mounted, NOBODY, assert_ended_well, finish, is_root, keeps, program};
use egeria_mount::MountOptions;
use std::os::unix::fs::{PermissionsExt, chown};

/// A rule that makes so many direct calls, and so many requests.
fn cost(rule: &str, direct: u64, max_requests: u64) {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    let mut command = mounted.command(program("directories"));
    assert_ended_well(&finish(command.arg(rule)), rule);
    mounted.assert_served(&before, direct, rule);
    let requests = mounted.volume.counters().mount_requests - before.mount_requests;
    assert!(requests < max_requests, "{rule}: {requests} requests");
}

#[test]
fn listing_costs_no_requests() {
    cost("listing_costs_no_requests", 200 * 1000, 100);
}

#[test]
fn paths_begin_at_places() {
    // Those of the calls that the kernel refuses.
    cost("paths_begin_at_places", 200 * 10, 400);
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
fn deep_ones_are_seen() {
    keeps("directories", "deep_ones_are_seen", 60);
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
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let modes = [
        ("open", 0o755),
        ("unreadable", 0o711),
        ("closed", 0o700),
        ("unsearchable", 0o744),
    ];
    for (name, mode) in modes {
        let path = mounted.path(name);
        std::fs::create_dir(&path).unwrap();
        if name != "open" {
            std::fs::create_dir(path.join("inner")).unwrap();
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        chown(&path, Some(NOBODY), None).unwrap();
    }
    // Root may open the pools, and so has direct calls.
    let before = mounted.volume.counters();
    let mut command = mounted.command("setpriv");
    command.args(["--bounding-set", "-dac_override,-dac_read_search"]);
    command.arg(program("directories")).arg("rights_hold");
    assert_ended_well(&finish(&mut command), "without rights");
    mounted.assert_served(&before, 5, "without rights");
}

#[test]
fn rights_may_go() {
    let options = MountOptions {
        allow_other: true,
        ..MountOptions::default()
    };
    if is_root()
        && let Some(mounted) = Mounted::with(&options)
    {
        mounted.keeps("directories", "rights_may_go", 1000);
    }
}
