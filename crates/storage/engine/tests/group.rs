//! A volume that several users share directly, by a setting that root alone can write. Needs root, to be several users.

use crate::common::*;
use egeria_engine::*;
use egeria_harness::testing::{is_root, skip};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MEMBERS: [u32; 2] = [61_701, 61_702];
const OTHER_USER: u32 = 61_703;
const ROLE: &str = "EGERIA_TEST_GROUP";
const PATIENCE: Duration = Duration::from_secs(60);

/// A pool that the group may use, and what stands in `/etc` of those who use it.
struct Shared {
    group: u32,
    scratch: Scratch,
    etc: PathBuf,
}

impl Shared {
    /// Each group for one test, for the sessions of a group have one place; `None` where it cannot be tried.
    fn new(group: u32, setting_mode: Option<u32>) -> Option<Shared> {
        if !is_root() {
            return None;
        }
        let namespace = Command::new("unshare").args(["--mount", "true"]).status();
        if !namespace.is_ok_and(|status| status.success()) {
            skip("no mount namespace for a setting of root's own");
            return None;
        }
        let scratch = Scratch::new(1, 16 << 20);
        let root = scratch.directory.path();
        chmod(root, 0o755);
        for pool in &scratch.pools {
            std::os::unix::fs::chown(pool, None, Some(group)).expect("chgrp");
            chmod(pool, 0o660);
        }
        let etc = root.join("etc");
        std::fs::create_dir_all(etc.join("egeria")).expect("etc");
        if let Some(mode) = setting_mode {
            let file = etc.join("egeria/egeria.toml");
            std::fs::write(&file, format!("[direct]\ngroups = [{group}]\n")).expect("setting");
            chmod(&file, mode);
        }
        Some(Shared {
            group,
            scratch,
            etc,
        })
    }

    /// A process of a user, in the group or not, that plays a part. Its `/etc` is ours, for itself alone.
    fn start(&self, user: u32, group: u32, part: &str) -> Child {
        let script = "mount --make-rprivate / && mount --bind \"$1\" /etc && exec setpriv --reuid=$2 --regid=$3 --clear-groups -- \"$4\" group::part --exact --nocapture";
        Command::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(&self.etc)
            .args([user.to_string(), group.to_string()])
            .arg(std::env::current_exe().expect("this program"))
            .env(ROLE, format!("{part}#{}", self.scratch.pools[0].display()))
            .stdin(Stdio::null())
            .spawn()
            .expect("unshare")
    }

    fn play(&self, user: u32, group: u32, part: &str) {
        let mut process = self.start(user, group, part);
        assert_eq!(egeria_harness::testing::wait(&mut process), 0, "{part}");
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(format!("/dev/shm/egeria-group-{}", self.group));
    }
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
}

/// Not a test by itself: what a user does.
#[test]
fn part() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (part, pool) = role.split_once('#').expect("a part and a pool");
    let attached = Volume::attach(
        Path::new(pool),
        AttachMode::CreateOrJoin,
        &AttachOptions::default(),
    );
    match part {
        "refused" => {
            let error = attached.err().expect("refused");
            assert!(
                [libc::EPERM, libc::EACCES].contains(&error.errno),
                "{error}"
            );
        }
        own => {
            let volume = attached.expect("attach");
            meet(&volume, own);
        }
    }
}

/// Makes a file of its own, and reads the other's while its maker has the volume attached.
fn meet(volume: &Volume, own: &str) {
    let other = if own == "one" { "two" } else { "one" };
    write(volume, own, b"made");
    assert_eq!(read(volume, other, b"made"), b"made");
    write(volume, &format!("{own} has read"), b"it");
    read(volume, &format!("{other} has read"), b"it");
}

fn write(volume: &Volume, name: &str, data: &[u8]) {
    let new = NewInode::of_root(libc::S_IFREG | 0o600);
    let made = volume
        .create(InodeNumber::ROOT, name.as_bytes(), &new)
        .expect("create");
    let file = volume.open(made.ino, None).expect("open");
    assert_eq!(volume.write(file, 0, data).expect("write"), data.len());
    volume.close(made.ino);
}

fn read(volume: &Volume, name: &str, wanted: &[u8]) -> Vec<u8> {
    let begin = Instant::now();
    let mut data = vec![0; wanted.len()];
    while begin.elapsed() < PATIENCE {
        if let Ok(found) = volume.lookup(InodeNumber::ROOT, name.as_bytes()) {
            let file = volume.open(found.ino, None).expect("open");
            let bytes = volume.read(file, 0, &mut data).expect("read");
            volume.close(found.ino);
            if bytes == data.len() {
                return data;
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{name} never came");
}

#[test]
fn members_of_a_group_that_root_allows_share_a_volume() {
    let Some(shared) = Shared::new(61_777, Some(0o644)) else {
        return;
    };
    let mut one = shared.start(MEMBERS[0], shared.group, "one");
    let mut two = shared.start(MEMBERS[1], shared.group, "two");
    assert_eq!(egeria_harness::testing::wait(&mut one), 0);
    assert_eq!(egeria_harness::testing::wait(&mut two), 0);
    shared.play(OTHER_USER, OTHER_USER, "refused");
}

#[test]
fn without_a_setting_of_root_a_group_shares_nothing() {
    for mode in [None, Some(0o666)] {
        let Some(shared) = Shared::new(61_778, mode) else {
            return;
        };
        shared.play(MEMBERS[0], shared.group, "refused");
    }
}
