//! Unmounting while another namespace has a copy of the mount.
//!
//! These tests have a program of their own: a new namespace copies all mounts of the process that makes it, those of other tests
//! among them, and their unmounting then waits for the copies.

#[path = "common/child.rs"]
mod child;
mod common;
use child::mounted;
use common::*;
use egeria_engine::AttachMode;
use egeria_harness::testing::is_root;
use egeria_mount::{MountError, MountOptions, spawn};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// Says that this process is the part of a test that has mounts of its own.
const PART: &str = "EGERIA_TEST_COPIED_MOUNT";

/// Runs this test again, as a process with mounts of its own; `true` in that process.
fn in_own_namespace() -> bool {
    if std::env::var_os(PART).is_some() {
        return true;
    }
    let thread = std::thread::current();
    let mut part = Command::new("unshare");
    part.args(["--mount", "--propagation", "private"]);
    part.arg(std::env::current_exe().unwrap());
    part.args(["--exact", thread.name().unwrap(), "--nocapture"]);
    let output = part.env(PART, "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    false
}

/// What unmounting says while another namespace has a copy of the mount; afterwards nothing is attached.
fn unmount_of_a_copied_mount() -> Result<(), MountError> {
    let place = Place::with_pools_of(16 << 20);
    let volume = place.attach(AttachMode::CreateOrJoin);
    let handle = spawn(volume.clone(), place.point(), &MountOptions::default()).unwrap();
    let mut other = Command::new("unshare");
    other.args(["--mount", "--propagation", "private", "sleep", "600"]);
    let mut other = other.spawn().unwrap();
    let own = fs::read_link("/proc/self/ns/mnt").unwrap();
    let of_other = format!("/proc/{}/ns/mnt", other.id());
    eventually("a copy", || fs::read_link(&of_other).unwrap() != own);
    let outcome = handle.unmount();
    assert!(!mounted(place.point()));
    other.kill().unwrap();
    other.wait().unwrap();
    eventually("the end of the mount", || {
        std::sync::Arc::strong_count(&volume) == 1
    });
    outcome
}

#[test]
fn a_mount_with_a_copy_elsewhere_is_aborted() {
    if !is_root() || !can_mount() {
        return;
    }
    if !in_own_namespace() {
        return;
    }
    let [above, connections] = ["/sys/fs/fuse", "/sys/fs/fuse/connections"]
        .map(|directory| fs::metadata(directory).unwrap().dev());
    if above == connections {
        let mut control = Command::new("mount");
        control.args(["-t", "fusectl", "none", "/sys/fs/fuse/connections"]);
        assert!(control.status().unwrap().success());
    }
    unmount_of_a_copied_mount().unwrap();
}

#[test]
fn a_mount_with_a_copy_that_cannot_be_aborted_says_so() {
    if !is_root() || !can_mount() {
        return;
    }
    if !in_own_namespace() {
        return;
    }
    let _ = Command::new("umount")
        .args(["-q", "/sys/fs/fuse/connections"])
        .status();
    let refused = unmount_of_a_copied_mount().unwrap_err();
    assert!(matches!(refused, MountError::Copied(_)));
    let text = refused.to_string();
    assert!(!text.contains('\n') && text.contains("; "), "{text}");
}
